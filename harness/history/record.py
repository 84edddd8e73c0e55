"""One run as a value: its tasks with their attempts, and what happened around them. All reports read this."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from harness.model.figures import UNJUDGED
from harness.reporting.task_record import TaskRecord

Outcome = Literal["passed", "failed", "skipped", "rerun"]
"""Of one execution of a task, as pytest counts it: a declared failure that showed itself has passed."""
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
    """Of the last execution; a rerun that did not come about any more has failed."""
    executions: int = 1
    seconds: float = 0
    healed: bool = False
    retries: int = 0
    code: str | None = None
    """Of a failed task."""

    @property
    def judged(self) -> bool:
        """As of an execution."""
        return self.outcome != "skipped" and self.code not in UNJUDGED
