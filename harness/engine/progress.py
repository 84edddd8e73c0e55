"""One step under way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.engine.attempt import ASSERTION
from harness.model.record import Answer, Attempt, Sent, StepRecord
from harness.recovery import GiveUp, Remedy, Repair, Retry, Skip, Trust
from harness.recovery.failure import Failure, Passed
from harness.spec.steps import Step

Cure = Callable[[Repair | Trust], Awaitable[str | Failure | None]]
"""Makes the state right that an assertion found wrong; returns why it could not, None when it did.

A Failure: page or browser were lost meanwhile, which is for another rule to answer.
"""


@dataclass(frozen=True, slots=True)
class Errand:
    """A step to do, and where it belongs."""

    index: int
    step: Step
    code: str = ASSERTION
    """What its assertion fails with."""
    cure: Cure | None = None
    expect: float = 0.0
    """Seconds that its assertion waits until it holds."""


@dataclass(slots=True)
class Progress:
    """What has been tried of a step, and what may still be."""

    errand: Errand
    current: Step
    attempts: list[Attempt] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    cures: dict[Hashable, Iterator[Remedy]] = field(default_factory=dict)
    sent: tuple[Sent, ...] = ()
    """What has left the pages so far, in all attempts."""
    repeated: bool = False
    """It was done again since `done_when` said that it had no effect."""
    contradicted: bool = False
    """It passed, and `done_when` says that it has no effect."""

    @property
    def index(self) -> int:
        return self.errand.index

    @property
    def declared(self) -> Step:
        return self.errand.step

    def answered(self, failure: Failure, remedy: Remedy) -> None:
        """Keep what is done about a failure; the end of the step is no answer to it."""
        if not isinstance(remedy, Skip | GiveUp):
            waited = isinstance(remedy, Retry) and failure.code == "CIRCUIT_OPEN"
            self.answers.append(Answer(failure.family, remedy, waited))

    def record(
        self, *, skipped: bool = False, done: bool = False, remembered: Mapping[str, Any] | None = None
    ) -> StepRecord:
        """What is to be kept of it."""
        if remembered is None:
            remembered = _remembered(self.attempts)
        return StepRecord(
            self.index,
            self.declared,
            tuple(self.attempts),
            skipped=skipped,
            effect_already_done=done,
            remembered=remembered,
            answers=tuple(self.answers),
            sent=self.sent,
            repeated=self.repeated,
            contradicted=self.contradicted,
        )


def _remembered(attempts: list[Attempt]) -> Mapping[str, Any]:
    last = attempts[-1].outcome if attempts else None
    found: Mapping[str, Any] = last.details.get("remembered", {}) if isinstance(last, Passed) else {}
    return found
