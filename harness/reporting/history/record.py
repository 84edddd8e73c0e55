"""One run as a value: its tasks with their attempts, and the events around them. All reports read this."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import count, islice
from pathlib import Path
from typing import Any, Literal, overload

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_serializer

from harness.model.consumption import ModelFigures, added_up
from harness.model.figures import UNJUDGED
from harness.model.tool_use import ToolFigures, of_all_tools, tools_added_up
from harness.reporting.task_record import TaskRecord
from harness.spec.names import how_many

# The commit and branch of a project: from a CI system's variables or `.git`; git is not started.

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_IN_CI = (
    ("GITHUB_ACTIONS", ("GITHUB_SHA",), ("GITHUB_HEAD_REF", "GITHUB_REF_NAME")),
    ("GITLAB_CI", ("CI_COMMIT_SHA",), ("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME")),
    ("JENKINS_URL", ("GIT_COMMIT",), ("CHANGE_BRANCH", "BRANCH_NAME", "GIT_BRANCH")),
)
"""The variable that identifies the CI system, and those with commit and branch: a checkout there has no branch."""
_LINKS = 10
"""The number of references that may lead to one another."""


class Checkout(Struct, frozen=True):
    """The commit and branch of the project; empty if unknown."""

    commit: str = ""
    branch: str = ""


def checkout_of(root: Path, environ: Mapping[str, str]) -> Checkout:
    """Read commit and branch. It never fails: a history without a commit is better than none."""
    told, found = _from_ci(environ), _find_checkout(root)
    return Checkout(found.commit or told.commit, told.branch or found.branch)


def _from_ci(environ: Mapping[str, str]) -> Checkout:
    for system, commits, branches in _IN_CI:
        if system in environ:
            known = [filter(None, (environ.get(name) for name in names)) for names in (commits, branches)]
            return Checkout(*(next(found, "") for found in known))
    return Checkout()


def _find_checkout(root: Path) -> Checkout:
    try:
        for folder in (root.absolute(), *root.absolute().parents):
            if (place := folder / ".git").exists():
                if not place.is_dir():  # a work tree of `git worktree`, and a submodule, have a file that names it
                    place = (folder / _text(place).removeprefix("gitdir:").strip()).resolve()
                head = _text(place / "HEAD")
                name = head.removeprefix("ref:").strip() if head.startswith("ref:") else ""
                return Checkout(_resolved(place, head), name.removeprefix("refs/heads/"))
    except (OSError, ValueError):  # it is unreadable, not UTF-8, or not a file of git
        pass
    return Checkout()


def _resolved(directory: Path, text: str) -> str:
    for _ in range(_LINKS):
        if not text.startswith("ref:"):
            return text if _COMMIT.fullmatch(text) else ""
        text = next(_values(directory, text.removeprefix("ref:").strip()), "")
    return ""


def _values(directory: Path, name: str) -> Iterator[str]:
    """The values of a reference, in its own file or among the packed ones; work trees share those of their project."""
    common = directory / "commondir"
    for place in (directory, *([directory / _text(common)] if common.is_file() else [])):
        if (place / name).is_file():
            yield _text(place / name)
        if (place / "packed-refs").is_file():
            lines = (line.split(" ") for line in _text(place / "packed-refs").splitlines())
            yield from (line[0] for line in lines if line[1:] == [name])


def _text(file: Path) -> str:
    return file.read_text("utf-8").strip()


# The parts of a divided suite (`--task-shard I/N`) that are missing among the merged runs.

_PART = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")
_NAMED = 10


def missing_parts(shards: Iterable[str]) -> list[str]:
    """A line for each division with missing parts. `shards`: as runs record them, `1/3` or `1/3, 2/3`."""
    there: dict[int, set[int]] = {}
    for part in (part for shard in shards for part in shard.split(", ")):
        if (found := _PART.fullmatch(part)) and 1 <= int(found[1]) <= int(found[2]):
            there.setdefault(int(found[2]), set()).add(int(found[1]))
    return [_missing_parts(known, of) for of, known in sorted(there.items()) if len(known) < of]


def unequal_parts(divisions: Iterable[tuple[str, str]]) -> list[str]:
    """A line if parts of one suite were divided by different durations. `divisions`: shard and digest of each run."""
    by_digest: dict[str, list[str]] = {}
    for shard, digest in divisions:
        if shard:
            by_digest.setdefault(digest, []).append(shard)
    if len(by_digest) < 2:
        return []
    told = "; ".join(
        f"{', '.join(sorted(set(shards)))} by {f'durations {digest}' if digest else 'number'}"
        for digest, shards in sorted(by_digest.items())
    )
    return [f"the parts were not divided alike ({told}): tasks may be missing, or may have run twice"]


def _missing_parts(known: set[int], of: int) -> str:
    """The line about the missing parts; only the first are named, since foreign files may contain any number."""
    number = of - len(known)
    first = ", ".join(map(str, islice((each for each in count(1) if each not in known), min(number, _NAMED))))
    if number == 1:
        return f"part {first} of {of} is missing"
    more = f" and {number - _NAMED} more" if number > _NAMED else ""
    return f"parts {first}{more} of {of} are missing"


# The message about a run that still goes on.


def still_running(tasks: int) -> str:
    """The note about a running run, in the same words everywhere."""
    return f"still running ({how_many(tasks, 'task')} so far)"


class FrozenValue(BaseModel):
    """A value that is never changed. Its validator is made when it is first used."""

    model_config = ConfigDict(frozen=True, defer_build=True)


Outcome = Literal["passed", "failed", "skipped", "rerun"]
"""The outcome of one execution of a task as pytest counts it: a declared failure has passed."""
Ending = Literal["finished", "interrupted", "killed", "unfinished"]
"""`killed`: the process of the run is gone, and has written no end. `unfinished`: it still runs, or nobody can tell."""
Counted = Literal["passed", "failed", "not judged", "skipped"]
"""The verdict on a task in a run."""


def counted(outcome: str, code: str | None) -> Counted:
    """The verdict by the last execution of a task; `code`: of its failure.

    A rerun that never happened leaves a failure.
    """
    settled: dict[str, Counted] = {"passed": "passed", "skipped": "skipped"}
    return settled.get(outcome) or ("not judged" if code in UNJUDGED else "failed")


class Execution(FrozenValue):
    """One execution of a task in a run; a task that was run again (`--reruns`) has several."""

    nodeid: str
    task_id: str
    number: int = Field(1, description="1 for the first execution of this node in the run.")
    outcome: Outcome
    worker: str = ""
    seconds: float = 0
    reason: str = Field("", description="Why it was skipped; of a failure outside of the task (a fixture), that.")
    at: datetime | None = Field(None, description="When it began, of one without a record too.")
    record: TaskRecord | None = Field(None, description="None for a task that was skipped before it began.")

    @property
    def began(self) -> datetime | None:
        return self.at or (self.record.started if self.record else None)

    @property
    def judged(self) -> bool:
        """Whether it says something about the task: it was neither skipped nor cut off from outside."""
        return self.counted_as in ("passed", "failed")

    @property
    def counted_as(self) -> Counted:
        """The verdict on its task in the run, if this was its last execution."""
        return counted(self.outcome, self.record.code if self.record else None)

    @property
    def healed(self) -> bool:
        """Whether it passed by another selector than its file names."""
        return self.record is not None and any(w.get("type") == "fallback_selector_used" for w in self.record.warnings)


class PackedExecutions(Sequence[Execution]):
    """Executions as compressed documents, each of which is decoded when it is asked for.

    A run of 100,000 results takes a hundred megabytes so, and three gigabytes as values: who goes through them holds
    one at a time.
    """

    def __init__(self, rows: Iterable[tuple[str, bytes]]) -> None:
        """`rows`: node id and document (`packed`) of each."""
        self._rows = list(rows)

    @classmethod
    def of(cls, executions: Iterable[Execution]) -> PackedExecutions:
        return cls((each.nodeid, packed(each)) for each in executions)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Execution]:
        return (unpacked(document) for _, document in self._rows)

    @overload
    def __getitem__(self, index: int) -> Execution: ...
    @overload
    def __getitem__(self, index: slice) -> PackedExecutions: ...
    def __getitem__(self, index: int | slice) -> Execution | PackedExecutions:
        return PackedExecutions(self._rows[index]) if isinstance(index, slice) else unpacked(self._rows[index][1])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]  # as of a list

    @property
    def last(self) -> PackedExecutions:
        """The last one of each node."""
        return PackedExecutions({nodeid: (nodeid, document) for nodeid, document in self._rows}.values())


def packed(execution: Execution) -> bytes:
    """The compressed document, as the history keeps it. Raises UnicodeEncodeError, PydanticSerializationError."""
    return zlib.compress(execution.model_dump_json().encode())


def unpacked(document: bytes) -> Execution:
    """The execution of a document. Raises ValidationError and zlib.error for what is none."""
    return Execution.model_validate_json(zlib.decompress(document))


class Happening(FrozenValue):
    """A line of `.harness/events/<run>.jsonl` that is no attempt of a step: circuits, services, thresholds."""

    at: datetime
    type: str
    level: str = "INFO"
    task_id: str = ""
    worker: str = ""
    text: str = ""
    details: dict[str, JsonValue] = {}


class RunRecord(FrozenValue):
    """A whole run."""

    run: str = Field(description="`20251116T090000-4711`: time (UTC) and process.")
    started: datetime
    finished: datetime | None = None
    ending: Ending = "unfinished"
    exit_status: int | None = None
    project: str = Field("", description="Name of the project's folder.")
    arguments: tuple[str, ...] = Field((), description="Of pytest; redacted.")
    environment: dict[str, str] = Field({}, description="Browser, Playwright, Python, platform, ...")
    commit: str = ""
    branch: str = ""
    ci: dict[str, JsonValue] = Field({}, description="name, buildName, buildUrl of the CI system, when there is one.")
    shard: str = Field("", description="The part of a divided suite, such as 2/3; of a merged run, all its parts.")
    durations: str = Field(
        "", description="Digest of the durations by which the suite was divided (`--task-durations`)."
    )
    executions: Sequence[Execution] = Field((), description="Perhaps `PackedExecutions`.")
    happenings: tuple[Happening, ...] = ()
    uncollected: dict[str, str] = Field({}, description="File that pytest could not collect -> why.")
    metrics: dict[str, Any] = Field({}, description="The document of metrics.json.")
    added_up: dict[str, dict[str, Any]] = Field(
        {}, description="Of a merged run: `resilience` of each run that it was put together from, by its identity."
    )
    merged_from: tuple[str, ...] = Field((), description="Runs that this one was put together from.")
    note: str = Field("", description="Said of the run as such: that its process is gone, what is not in it.")
    running: bool = Field(False, description="Unfinished, and its process (of this machine) is alive.")

    @field_serializer("executions")
    def _unpacked(self, executions: Sequence[Execution]) -> tuple[Execution, ...]:
        return tuple(executions)

    @property
    def last(self) -> Sequence[Execution]:
        """The last execution of each node, in the order of the run: these count."""
        if isinstance(self.executions, PackedExecutions):
            return self.executions.last
        return tuple({each.nodeid: each for each in self.executions}.values())

    @property
    def models(self) -> dict[str, ModelFigures]:
        """Name of each model that was asked -> what all executions have used: each was paid for."""
        return added_up(each.record.models for each in self.executions if each.record)

    @property
    def used(self) -> ModelFigures:
        """What all calls of models have used."""
        return sum(self.models.values(), ModelFigures())

    @property
    def tools(self) -> dict[str, dict[str, ToolFigures]]:
        """Name of a tool server -> name of a tool -> what the calls of all executions have done."""
        return tools_added_up(each.record.tools for each in self.executions if each.record)

    @property
    def called(self) -> ToolFigures:
        """What all calls of tools have done."""
        return of_all_tools(self.tools)

    @property
    def cost_per_success(self) -> float | None:
        """US dollars; None if no task with an agent has passed, or some calls have no known price."""
        asked = [each for each in self.last if each.record and each.record.models]
        return cost_per_success(self.used, sum(each.counted_as == "passed" for each in asked))

    @property
    def seconds(self) -> float:
        end = self.finished or max((each.at for each in self.happenings), default=self.started)
        return max(0.0, (end - self.started).total_seconds())


def cost_per_success(used: ModelFigures, passed: int) -> float | None:
    """US dollars for each of the tasks that have asked models and `passed`; None if that is not known."""
    return round(used.cost_usd / passed, 6) if passed and not used.unpriced_calls else None


class RunSummary(FrozenValue):
    """A run in a list, or as a point of a trend."""

    run: str
    started: datetime
    finished: datetime | None = None
    ending: Ending
    seconds: float = 0
    passed: int = 0
    expected: int = Field(0, description="Of those that passed: how many failed as their task declares.")
    failed: int = 0
    not_judged: int = Field(0, description="Cut off from outside; they count neither as failed nor as passed.")
    skipped: int = 0
    flaky: int = Field(0, description="Passed after a rerun in the same run.")
    healed: int = 0
    retries: int = 0
    commit: str = ""
    branch: str = ""
    shard: str = Field("", description="As of the run.")
    failure_rate: float | None = Field(None, description="Tasks that failed, of those that passed or failed, 0 to 1.")
    recovery_rate: float | None = Field(None, description="Recoveries that worked, 0 to 1; None: none was tried.")
    used: ModelFigures = Field(ModelFigures(), description="What calls of models have used, but their time.")
    cost_per_success: float | None = Field(None, description="US dollars; None: not known.")
    takeovers: int = 0
    tool_calls: int = Field(0, description="Calls of tools, of all executions.")
    tool_errors: int = Field(0, description="Of those, how many the tool answered with an error.")
    tool_failures: int = Field(0, description="Of those, how many have no answer.")
    note: str = Field("", description="As of the run.")
    running: bool = Field(False, description="As of the run.")

    @property
    def tasks(self) -> int:
        return self.passed + self.failed + self.not_judged + self.skipped


class TaskPoint(FrozenValue):
    """What became of a task in one run: what flakiness and slowness are judged by."""

    run: str
    started: datetime
    outcome: Outcome
    """The outcome of the last execution; a rerun that never happened has failed."""
    executions: int = 1
    seconds: float = 0
    healed: bool = False
    retries: int = 0
    code: str | None = None
    """The code of a failed task."""
    agent: str = ""
    """The agent that chose the last steps; empty for those of its file. As the next three, of the last execution."""
    calls: int = 0
    """The number of calls of models."""
    tokens: int = 0
    """The tokens of those calls, in and out."""
    cost_usd: float | None = 0.0
    """Their cost in US dollars; None: it is not known for all."""

    @property
    def judged(self) -> bool:
        """Whether it says something about the task, as for an execution."""
        return self.outcome != "skipped" and self.code not in UNJUDGED
