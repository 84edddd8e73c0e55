"""What happened, as values: attempts, step records, history, warnings, the result (DESIGN 3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.failure import Failure, Family, Outcome, Passed
from harness.recovery import Remedy, Retry, Substitute
from harness.spec.steps import Step
from harness.spec.task import FinalState

if TYPE_CHECKING:
    from harness.report import ErrorReport


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a step. `t` and `seconds` are seconds, `t` since the start of the task."""

    step: Step
    t: float
    seconds: float
    started: datetime
    outcome: Outcome
    remedy: Remedy | None = None
    """What led to this attempt; None for the first."""

    @property
    def passed(self) -> bool:
        return isinstance(self.outcome, Passed)


@dataclass(frozen=True, slots=True)
class StepRecord:
    """All attempts at one step. A negative index is a precondition, an index past the steps the success criteria."""

    index: int
    step: Step
    attempts: tuple[Attempt, ...]
    skipped: bool = False
    """An `optional` step that failed."""
    effect_already_done: bool = False

    @property
    def passed(self) -> bool:
        return bool(self.attempts) and (self.attempts[-1].passed or self.effect_already_done)

    @property
    def failure(self) -> Failure | None:
        """What the last attempt failed with; None when the step passed."""
        if self.passed or not self.attempts:
            return None
        last = self.attempts[-1].outcome
        return last if isinstance(last, Failure) else None

    @property
    def retries(self) -> int:
        return max(0, len(self.attempts) - 1)


History = tuple[StepRecord, ...]


@dataclass(frozen=True, slots=True)
class Warning_:  # noqa: N801 - `Warning` is a builtin
    """Something worth knowing about a task that went on (DESIGN 4.4 lists the types)."""

    type: str
    message: str
    step_index: int | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """specs/003 5: type, step_index, message, and what belongs to the type."""
        return {"type": self.type, "step_index": self.step_index, "message": self.message, **self.details}


def warnings(history: History) -> Iterator[Warning_]:
    """Derived from records, never recorded by hand (DESIGN 3)."""
    for record in history:
        if record.skipped:
            reason = record.failure.message if record.failure else ""
            yield Warning_("step_skipped", f"Optional step {record.index} was skipped: {reason}", record.index)
        elif record.effect_already_done:
            message = f"Step {record.index} had already taken effect and was not repeated"
            yield Warning_("effect_already_done", message, record.index)
        elif record.passed:
            yield from _recovered(record)


def _recovered(record: StepRecord) -> Iterator[Warning_]:
    """One warning for each family of failure that the step got over."""
    failures = [a.outcome for a in record.attempts if isinstance(a.outcome, Failure)]
    healed = record.attempts[-1].remedy
    for family in dict.fromkeys(failure.family for failure in failures):
        count = sum(failure.family is family for failure in failures)
        match family:
            case Family.NETWORK:
                plural = "retry" if count == 1 else "retries"
                text = f"Network error recovered after {count} {plural}"
                yield Warning_("network_error_recovered", text, record.index, {"retries": count})
            case Family.ASSERTION:
                waited = sum(a.remedy.after for a in record.attempts if isinstance(a.remedy, Retry))
                text = f"Assertion succeeded on retry after {waited:g}s wait"
                yield Warning_("assertion_retry_success", text, record.index, {"retries": count})
            case Family.ELEMENT | Family.AMBIGUOUS if isinstance(healed, Substitute):
                yield _healed(record, healed)
            case _:
                text = f"{failures[0].type} recovered after {count} more attempt(s)"
                yield Warning_("element_appeared_late", text, record.index, {"retries": count})


def _healed(record: StepRecord, remedy: Substitute) -> Warning_:
    outcome = record.attempts[-1].outcome
    details = outcome.details.get("element", {}) if isinstance(outcome, Passed) else {}
    found = {key: details[key] for key in ("role", "name") if key in details}
    text = f"{record.step.target} was not usable; {remedy.selector} was used instead"
    original = {"original_selector": record.step.target, "successful_fallback": remedy.selector, **found}
    return Warning_("fallback_selector_used", text, record.index, original)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The end of a task (specs/003 7.1: `final_state`, `error`, `warnings`)."""

    task_id: str
    key: str
    final_state: FinalState
    history: History
    started: datetime
    elapsed: float
    """Seconds."""
    steps_total: int
    failure: Failure | None = None
    failed_index: int | None = None
    warnings: tuple[Warning_, ...] = ()
    memory: dict[str, Any] = field(default_factory=dict)
    error: ErrorReport | None = None
    artifacts: Path | None = None
    """The directory `errors/<key>`, when one was written."""

    @property
    def ok(self) -> bool:
        return self.final_state in ("completed", "partial_success")

    @property
    def steps_completed(self) -> int:
        return sum(record.passed for record in self.history if 0 <= record.index < self.steps_total)

    @property
    def retries(self) -> int:
        return sum(record.retries for record in self.history)
