"""One run as a value: its tasks with their attempts, and what happened around them. All reports read this."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import count, islice
from pathlib import Path
from typing import Any, Literal

import psutil
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from harness.model.figures import UNJUDGED
from harness.reporting.task_record import TaskRecord
from harness.spec.names import how_many

# Which commit and branch a project is at: as a CI system says, or as `.git` does; no git is started.

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_IN_CI = (
    ("GITHUB_ACTIONS", ("GITHUB_SHA",), ("GITHUB_HEAD_REF", "GITHUB_REF_NAME")),
    ("GITLAB_CI", ("CI_COMMIT_SHA",), ("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME")),
    ("JENKINS_URL", ("GIT_COMMIT",), ("CHANGE_BRANCH", "BRANCH_NAME", "GIT_BRANCH")),
)
"""The variable that names the system, and where it says commit and branch: there a checkout has no branch."""
_LINKS = 10
"""So many references may lead to one another."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """Empty where it cannot be told."""

    commit: str = ""
    branch: str = ""


def checkout_of(root: Path, environ: Mapping[str, str]) -> Checkout:
    """Never an error: a history without a commit is better than none."""
    told, found = _from_ci(environ), _found(root)
    return Checkout(found.commit or told.commit, told.branch or found.branch)


def _from_ci(environ: Mapping[str, str]) -> Checkout:
    for system, commits, branches in _IN_CI:
        if system in environ:
            return Checkout(_first(environ, commits), _first(environ, branches))
    return Checkout()


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environ[name] for name in names if environ.get(name)), "")


def _found(root: Path) -> Checkout:
    try:
        for folder in (root.absolute(), *root.absolute().parents):
            if (place := folder / ".git").exists():
                return _of(_directory(place))
    except (OSError, ValueError):  # unreadable, not UTF-8, or not git's
        pass
    return Checkout()


def _directory(place: Path) -> Path:
    """A work tree of `git worktree`, and a submodule, have a file that says where the directory is."""
    if place.is_dir():
        return place
    return (place.parent / _text(place).removeprefix("gitdir:").strip()).resolve()


def _of(directory: Path) -> Checkout:
    head = _text(directory / "HEAD")
    name = head.removeprefix("ref:").strip() if head.startswith("ref:") else ""
    return Checkout(_resolved(directory, head), name.removeprefix("refs/heads/"))


def _resolved(directory: Path, text: str) -> str:
    for _ in range(_LINKS):
        if not text.startswith("ref:"):
            return text if _COMMIT.fullmatch(text) else ""
        text = next(_values(directory, text.removeprefix("ref:").strip()), "")
    return ""


def _values(directory: Path, name: str) -> Iterator[str]:
    """What a reference says, in a file of its own or among the packed ones; work trees share those of their project."""
    common = directory / "commondir"
    for place in (directory, *([directory / _text(common)] if common.is_file() else [])):
        if (place / name).is_file():
            yield _text(place / name)
        if (place / "packed-refs").is_file():
            lines = (line.split(" ") for line in _text(place / "packed-refs").splitlines())
            yield from (line[0] for line in lines if line[1:] == [name])


def _text(file: Path) -> str:
    return file.read_text("utf-8").strip()


# Which parts of a divided suite (`--task-shard I/N`) are not among the runs that are put together.

_PART = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")
_NAMED = 10


def missing_parts(shards: Iterable[str]) -> list[str]:
    """A line for each division of which parts are missing. `shards`: as runs record them, `1/3` or `1/3, 2/3`."""
    there: dict[int, set[int]] = {}
    for part in (part for shard in shards for part in shard.split(", ")):
        if (found := _PART.fullmatch(part)) and 1 <= int(found[1]) <= int(found[2]):
            there.setdefault(int(found[2]), set()).add(int(found[1]))
    return [_missing_parts(known, of) for of, known in sorted(there.items()) if len(known) < of]


def _missing_parts(known: set[int], of: int) -> str:
    """The first ones are named: files from elsewhere may say any number."""
    number = of - len(known)
    first = ", ".join(map(str, islice((each for each in count(1) if each not in known), min(number, _NAMED))))
    if number == 1:
        return f"part {first} of {of} is missing"
    more = f" and {number - _NAMED} more" if number > _NAMED else ""
    return f"parts {first}{more} of {of} are missing"


# Who writes a run.

_SAME = 1.0
"""Seconds that two readings of one start may differ by."""


@dataclass(frozen=True, slots=True)
class OwnerProcess:
    """Kept beside an unfinished run, so that a later one can tell whether it still goes on."""

    pid: int | None = None
    host: str = ""
    started: float | None = None
    """Seconds since the epoch: a pid is given to others after a while."""

    @staticmethod
    def own() -> OwnerProcess:
        return OwnerProcess(os.getpid(), platform.node(), psutil.Process().create_time())

    @staticmethod
    def of_row(row: sqlite3.Row) -> OwnerProcess:
        """The one of a run in the history."""
        return OwnerProcess(row["pid"], row["host"], row["process_started"])

    @property
    def alive(self) -> bool:
        """Certainly."""
        return self.pid is not None and self.host == platform.node() and not self.gone

    @property
    def gone(self) -> bool:
        """Certainly: of a process of another machine nothing can be said."""
        if self.pid is None or self.host != platform.node():
            return False
        try:
            found = psutil.Process(self.pid)
            dead = found.status() == psutil.STATUS_ZOMBIE
            return dead or (self.started is not None and abs(found.create_time() - self.started) > _SAME)
        except psutil.Error:
            return True


# What is said of a run that still goes on.


def still_running(tasks: int) -> str:
    """In the same words everywhere."""
    return f"still running ({how_many(tasks, 'task')} so far)"


Outcome = Literal["passed", "failed", "skipped", "rerun"]
"""The outcome of one execution of a task, as pytest counts it: a declared failure that showed itself has passed."""
Ending = Literal["finished", "interrupted", "unfinished"]
"""`unfinished`: the process of the run died, or it still goes on."""
Counted = Literal["passed", "failed", "not judged", "skipped"]
"""What a task counts as in a run."""


def counted(outcome: str, code: str | None) -> Counted:
    """What an execution counts as, that was the last one of its task; `code`: of its failure.

    A rerun that did not come about any more leaves a failure.
    """
    settled: dict[str, Counted] = {"passed": "passed", "skipped": "skipped"}
    return settled.get(outcome) or ("not judged" if code in UNJUDGED else "failed")


class Execution(BaseModel):
    """One execution of a task in a run; a task that was run again (`--reruns`) has several."""

    model_config = ConfigDict(frozen=True)

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
        """Whether it says how the task fares: it was not skipped, and not cut off from outside."""
        return self.counted_as in ("passed", "failed")

    @property
    def counted_as(self) -> Counted:
        """What its task counts as in the run, if this was its last execution."""
        return counted(self.outcome, self.record.code if self.record else None)

    @property
    def healed(self) -> bool:
        """It passed by another selector than its file names."""
        return self.record is not None and any(w.get("type") == "fallback_selector_used" for w in self.record.warnings)


class Happening(BaseModel):
    """A line of `.harness/events/<run>.jsonl` that is no attempt of a step: circuits, services, thresholds."""

    model_config = ConfigDict(frozen=True)

    at: datetime
    type: str
    level: str = "INFO"
    task_id: str = ""
    worker: str = ""
    text: str = ""
    details: dict[str, JsonValue] = {}


class RunRecord(BaseModel):
    """A whole run."""

    model_config = ConfigDict(frozen=True)

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
    shard: str = ""
    executions: tuple[Execution, ...] = ()
    happenings: tuple[Happening, ...] = ()
    metrics: dict[str, Any] = Field({}, description="The document of metrics.json.")
    added_up: dict[str, dict[str, Any]] = Field(
        {}, description="Of a merged run: `resilience` of each run that it was put together from, by its identity."
    )
    merged_from: tuple[str, ...] = Field((), description="Runs that this one was put together from.")
    note: str = Field("", description="Said of the run as such: that its process is gone, what is not in it.")
    running: bool = Field(False, description="Unfinished, and its process (of this machine) is alive.")

    @property
    def last(self) -> tuple[Execution, ...]:
        """The last execution of each node, in the order of the run: what counts."""
        return tuple({each.nodeid: each for each in self.executions}.values())

    @property
    def seconds(self) -> float:
        end = self.finished or max((each.at for each in self.happenings), default=self.started)
        return max(0.0, (end - self.started).total_seconds())


class RunSummary(BaseModel):
    """A run in a list, or as a point of a trend."""

    model_config = ConfigDict(frozen=True)

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
    failure_rate: float | None = Field(None, description="Tasks that failed, of those that passed or failed, 0 to 1.")
    recovery_rate: float | None = Field(None, description="Recoveries that worked, 0 to 1; None: none was tried.")
    note: str = Field("", description="As of the run.")
    running: bool = Field(False, description="As of the run.")

    @property
    def tasks(self) -> int:
        return self.passed + self.failed + self.not_judged + self.skipped


class TaskPoint(BaseModel):
    """What became of a task in one run: what flakiness and slowness are judged by."""

    model_config = ConfigDict(frozen=True)

    run: str
    started: datetime
    outcome: Outcome
    """The last execution's; a rerun that did not come about any more has failed."""
    executions: int = 1
    seconds: float = 0
    healed: bool = False
    retries: int = 0
    code: str | None = None
    """The code of a failed task."""

    @property
    def judged(self) -> bool:
        """As of an execution."""
        return self.outcome != "skipped" and self.code not in UNJUDGED
