"""The results of a campaign, as the JSON document that it writes."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal, Self

from pydantic import Field

from harness.model.evaluation import MeanRate, rounded, rounded_interval
from harness.model.statistics import TaskTally, pass_hat, wilson
from harness.recovery.declaration import Declaration
from harness.spec.fault_plan import Gate

_VERSION: Final = 2
NO_FAILURE = "-"
"""The entry of the confusion matrix for a fault that causes no failure."""


class Rate(Declaration):
    """How many of some trials are what they should be."""

    of: int = Field(description="Number of trials that count.")
    good: int
    share: float | None = Field(description="`good` divided by `of`; null if no trial counts.")

    @classmethod
    def of_tally(cls, tally: TaskTally) -> Self:
        """The rate with the fields that its class has."""
        found = {
            "of": tally.counted,
            "good": tally.passed,
            "share": rounded(tally.rate),
            "interval": rounded_interval(wilson(tally.passed, tally.counted)),
            "pass_hat": tuple(round(each, 4) for each in pass_hat(tally.passed, tally.counted)),
        }
        return cls(**{name: found[name] for name in cls.model_fields})


class PassRate(Rate):
    """How many trials of one task pass, and what that says of the next ones."""

    interval: tuple[float, float] | None = Field(
        description="Wilson's 95 % interval of the share; null if there was no trial."
    )
    pass_hat: tuple[float, ...] = Field(description="pass^k for k = 1, 2, ...: the probability that k trials all pass.")


class OverallRate(MeanRate):
    """How many trials of all tasks pass, counted and as a mean over tasks. One that was not made does not count."""

    of: int = Field(description="Number of trials that count.")
    good: int


class Trial(Declaration):
    """One run of one task, with one fault or without."""

    task_id: str
    fault: str | None = Field(description="Name of the fault; null for a clean trial.")
    number: int = Field(description="Number of the trial of this task and fault, counted from 0.")
    seed: int = Field(description="Seed for the fault's `probability`.")
    seconds: float = Field(description="Duration of the task.")
    final_state: str = Field(
        "", description="Final state as in error_report.json; empty if the trial could not be made."
    )
    code: str | None = Field(None, description="Code of the task's failure; null if it did not fail.")
    reached: bool = Field(
        False, description="Whether the task ended as it declares: it passed, or had the outcome of its `expect`."
    )
    struck: int = Field(0, description="How often the fault struck.")
    seen: str | None = Field(
        None, description="Code of the first failure after the first strike; null if there was none."
    )
    recovery_seconds: float | None = Field(
        None, description="Time from the first strike to the end of the first successful attempt of the failed step."
    )
    missing: tuple[str, ...] | None = Field(
        None, description="What is wrong with the artifacts of a failure; null if there was no failure."
    )
    artifacts: str | None = Field(
        None, description="The folder of the failure, relative to the folder of the campaign."
    )
    error: str = Field("", description="Why the trial could not be made, or the fault could not strike.")
    unmet: tuple[str, ...] = Field((), description="Expectations that were not met.")


class Seconds(Declaration):
    """Of several times."""

    median: float
    max: float


class Cell(Declaration):
    """One fault in one task."""

    fault: str
    kind: str
    describe: str = Field(description="The fault in one line.")
    task_id: str
    transient: bool = Field(description="Whether the fault ends by itself.")
    expected_code: str | None = Field(description="The expected code; `-` for no failure, null if none is declared.")
    expected_recovered: bool | None
    struck: Rate = Field(description="Trials in which the fault struck.")
    classified: Rate = Field(description="Trials with the expected code, among those in which the fault struck.")
    recovered: Rate = Field(
        description="Trials in which the task ended as it declares, among those in which the fault struck."
    )
    recovery: Seconds | None = Field(description="Seconds to recover; null if nothing recovered.")
    artifacts: Rate = Field(description="Failures with all their artifacts.")
    outcomes: dict[str, int] = Field(description="Final state, with the code of a failure -> number of trials.")
    passed: PassRate
    trials: tuple[Trial, ...]


class Task(Declaration):
    """One task, clean and faulted."""

    task_id: str
    source: str
    clean: PassRate
    faulted: PassRate


class Confusion(Declaration):
    """How often a fault with this expected code was seen as that one."""

    expected: str
    seen: str
    count: int


class Totals(Declaration):
    """Over the whole campaign."""

    clean: OverallRate
    faulted: OverallRate
    struck: Rate = Field(description="Faulted trials in which the fault struck.")
    classification: Rate = Field(
        description="Trials with the declared `code`, among the struck trials that declare one."
    )
    recovery: Rate = Field(
        description="Trials that recovered, among the struck trials of transient faults with `recovered: true`."
    )
    artifacts: Rate = Field(description="Failed trials with all their artifacts.")
    recovery_time: Seconds | None


class Campaign(Declaration):
    """The document."""

    version: Literal[2] = _VERSION
    name: str
    goal: str
    source: str = Field(description="The file of the fault plan.")
    run: str
    started: datetime
    seconds: float
    seed: int = Field(description="Seed of the first trials; the next trials have the next numbers.")
    trials: int = Field(description="Number of trials of each task with each of its faults.")
    clean_trials: int
    interrupted: bool = Field(
        description="Whether the campaign was interrupted; the document then holds the trials made until then."
    )
    artifacts: str = Field(description="The folder of the failures, relative to the project.")
    unmet: tuple[str, ...] = Field(description="Why the campaign did not pass; empty if it passed.")
    gate: Gate | None
    totals: Totals
    tasks: tuple[Task, ...]
    cells: tuple[Cell, ...]
    confusion: tuple[Confusion, ...]
    clean: tuple[Trial, ...] = Field(description="The clean trials.")

    @property
    def made(self) -> int:
        """The number of trials that were made."""
        return len(self.clean) + sum(len(cell.trials) for cell in self.cells)

    @property
    def planned(self) -> int:
        """The number of trials that were planned."""
        return len(self.tasks) * self.clean_trials + len(self.cells) * self.trials

    @property
    def verdict(self) -> str:
        """The verdict in a few words; for an interrupted campaign only how far it came."""
        if self.interrupted:
            return f"interrupted after {self.made} of {self.planned} trials"
        return "NOT as expected" if self.unmet else "as expected"
