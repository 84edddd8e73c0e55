"""What a fault led to: the failure that it caused, whether that was outlasted, and how long it took.

And the other way round: which faults a task's failure follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.record import Attempt, History, MetFault, StepRecord, TaskResult
from harness.recovery.failure import Failure

SLACK = 0.01
"""Seconds by which the times of strikes and attempts may differ: both are rounded."""


@dataclass(frozen=True, slots=True)
class Aftermath:
    """Of one fault of one task that has ended."""

    struck: bool
    code: str | None = None
    """Code of the first failure after the first strike; None: it caused none."""
    step: int | None = None
    """Which step failed with it."""
    seconds: float | None = None
    """From the first strike to the end of the first attempt of that step that passed; None: none did."""


def aftermath(met: MetFault, result: TaskResult) -> Aftermath:
    """What followed the fault's first strike."""
    if not met.count:
        return Aftermath(struck=False)
    first = met.strikes[0]
    failed = next(((index, each) for index, each in _attempts(result.history) if _failed_after(each, first)), None)
    if failed is None:
        return Aftermath(True, result.failure.code if result.failure else None, result.failed_index)
    index, attempt = failed
    assert isinstance(attempt.outcome, Failure)
    return Aftermath(True, attempt.outcome.code, index, _until_passed(result.history, index, attempt, first))


def disappointments(met: MetFault, found: Aftermath, *, reached: bool) -> Iterator[str]:
    """What the fault's `expect` says and did not happen. `reached`: the task did what it declares."""
    expect = met.fault.expect
    if not found.struck:
        return
    if "code" in expect.model_fields_set and expect.code != found.code:
        yield f"code: expected {expect.code or 'no failure'}, was {found.code or 'no failure'}"
    if expect.recovered is not None and expect.recovered != reached:
        yield "was not recovered from" if expect.recovered else "was recovered from, which was not expected"


def _attempts(history: History) -> Iterator[tuple[int, Attempt]]:
    return ((record.index, attempt) for record in history for attempt in record.attempts)


def _failed_after(attempt: Attempt, strike: float) -> bool:
    return not attempt.passed and attempt.t + attempt.seconds >= strike - SLACK


def _until_passed(history: History, index: int, failed: Attempt, strike: float) -> float | None:
    """A `write` whose effect was there all the same has no attempt that passed: its last one counts."""
    for record in history:
        if record.index != index or not record.attempts:
            continue
        later = [each for each in record.attempts if each.t >= failed.t]
        passed = next((each for each in later if each.passed), None)
        if passed is None and record.effect_already_done and later:
            passed = later[-1]
        if passed is not None:
            return round(max(0.0, passed.t + passed.seconds - strike), 3)
    return None


def behind(result: TaskResult) -> tuple[MetFault, ...]:
    """The faults that the task's failure follows: they struck in the failing step or the one before it, or stood then.

    Also the fault that could not be done, when that is the failure.
    """
    if result.failure is None:
        return ()
    start, failing, end = _around(result)
    return tuple(met for met in result.faults if _fits(met, start, failing, end) or _is_failure(met, result.failure))


def undone(result: TaskResult) -> MetFault | None:
    """The fault that could not be done, when that is what the task failed with."""
    failure = result.failure
    return next((met for met in result.faults if failure is not None and _is_failure(met, failure)), None)


def _is_failure(met: MetFault, failure: Failure) -> bool:
    return bool(met.problem) and not met.count and met.problem == failure.message


def _fits(met: MetFault, start: float, failing: float, end: float) -> bool:
    struck = any(start - SLACK <= t <= end + SLACK for t in met.strikes)
    stood = any(t <= end for t in met.strikes) and any(t >= failing - SLACK for t in met.healed)
    return struck or stood


def _around(result: TaskResult) -> tuple[float, float, float]:
    """In seconds: the end of the last step but one before the failing one, the last attempt's start, the failure."""
    history = [record for record in result.history if record.attempts]
    at = len(history)
    if history and history[-1].index == result.failed_index and not history[-1].passed:
        at -= 1
    start = _end(history[at - 2]) if at >= 2 else 0.0
    if at == len(history):
        return start, _end(history[-1]) if history else 0.0, result.elapsed
    return start, history[at].attempts[-1].t, _end(history[at])


def _end(record: StepRecord) -> float:
    return record.attempts[-1].t + record.attempts[-1].seconds
