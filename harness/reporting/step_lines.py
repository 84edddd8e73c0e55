"""The steps of a task and their attempts, small enough for a record of the run."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

from harness.model.diagnosis import note
from harness.model.record import Attempt, History, StepRecord
from harness.recovery.failure import Failure
from harness.reporting.redaction import Redactor
from harness.reporting.table import shortened, worked_on

_TARGET, _MESSAGE = 120, 400
"""Characters that are kept of each."""


class AttemptLine(BaseModel):
    """One try of a step."""

    model_config = ConfigDict(frozen=True)

    t: float = Field(description="Seconds since the start of the task.")
    seconds: float
    passed: bool
    code: str | None = None
    note: str = Field("", description="What led to it and what came of it: `RETRY (after 2s): SUCCESS`.")


class StepLine(BaseModel):
    """One step that was tried; done again after a way back, it has a line for each time."""

    model_config = ConfigDict(frozen=True)

    index: int = Field(description="-1: before the first step; the number of steps: success criteria.")
    act: str
    target: str = ""
    seconds: float = Field(0, description="Of all attempts, without the waits between them.")
    passed: bool = True
    skipped: bool = Field(False, description="It failed, and the task went on without it.")
    went_back_to: int | None = Field(None, description="It failed, and the task went back to before this step.")
    attempts: tuple[AttemptLine, ...] = ()


def step_lines(history: History, redactor: Redactor) -> Iterator[StepLine]:
    """A line for each record, in order; texts are redacted."""
    return (_line(record, redactor) for record in history)


def _line(record: StepRecord, redactor: Redactor) -> StepLine:
    return StepLine(
        index=record.index,
        act=record.step.act,
        target=redactor.text(shortened(worked_on(record), _TARGET)),
        seconds=round(sum(attempt.seconds for attempt in record.attempts), 3),
        passed=record.passed,
        skipped=record.skipped,
        went_back_to=record.rewound.checkpoint if record.rewound else None,
        attempts=tuple(_attempt(attempt, record, redactor) for attempt in record.attempts),
    )


def _attempt(attempt: Attempt, record: StepRecord, redactor: Redactor) -> AttemptLine:
    """The first attempt of a step that passed at once needs no words."""
    told = record.extra_attempts or not attempt.passed
    return AttemptLine(
        t=round(attempt.t, 3),
        seconds=round(attempt.seconds, 3),
        passed=attempt.passed,
        code=attempt.outcome.code if isinstance(attempt.outcome, Failure) else None,
        note=redactor.text(shortened(note(attempt, record.step), _MESSAGE)) if told else "",
    )
