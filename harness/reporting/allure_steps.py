"""The records of a task as Allure steps with their real times."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from allure_commons.model2 import Parameter, Status, StatusDetails, TestStepResult

from harness.failure import Failure, Family
from harness.record import Attempt, StepRecord, TaskResult
from harness.report import note
from harness.reporting.redaction import Redactor
from harness.reporting.table import described, done, place, shortened

_TITLE = 160


def step_results(result: TaskResult, redactor: Redactor) -> list[tuple[StepRecord, TestStepResult]]:
    """A step for each record, preconditions and criteria among them; its attempts below it when there are several."""
    return [(record, _step(record, result.steps_total, redactor)) for record in result.history if record.attempts]


def milliseconds(moment: datetime) -> int:
    """Since 1970, as Allure counts."""
    return round(moment.timestamp() * 1000)


def end(attempt: Attempt) -> datetime:
    return attempt.started + timedelta(seconds=attempt.seconds)


def _step(record: StepRecord, total: int, redactor: Redactor) -> TestStepResult:
    step = TestStepResult(name=redactor.text(_name(record, total)))
    step.start = milliseconds(record.attempts[0].started)
    step.stop = milliseconds(end(record.attempts[-1]))
    step.status = _status(record)
    step.parameters = list(_parameters(record, redactor))
    if record.failure is not None:
        step.statusDetails = StatusDetails(message=redactor.text(record.failure.message))
    if record.retries:
        step.steps = [_attempt(attempt, redactor) for attempt in record.attempts]
    return step


def _name(record: StepRecord, total: int) -> str:
    kind = {"pre": "precondition:", "end": "success criterion:"}.get(place(record.index, total), f"{record.index}.")
    step = done(record)
    act = "" if place(record.index, total) in ("pre", "end") and step.act == "assert" else f"{step.act} "
    again = f" ({len(record.attempts)} attempts)" if record.retries else ""
    return shortened(f"{kind} {act}{described(step)}", _TITLE) + again


def _status(record: StepRecord) -> str:
    if record.skipped:
        return str(Status.SKIPPED)
    return str(Status.PASSED) if record.passed else _failed(record.failure)


def _failed(failure: Failure | None) -> str:
    """`failed` is the product's fault, `broken` anything else (DESIGN 4.4)."""
    return str(Status.FAILED if failure is not None and failure.family is Family.ASSERTION else Status.BROKEN)


def _attempt(attempt: Attempt, redactor: Redactor) -> TestStepResult:
    failure = attempt.outcome if isinstance(attempt.outcome, Failure) else None
    step = TestStepResult(name=redactor.text(shortened(note(attempt), _TITLE)))
    step.start, step.stop = milliseconds(attempt.started), milliseconds(end(attempt))
    step.status = _failed(failure) if failure else Status.PASSED
    if failure is not None:
        step.statusDetails = StatusDetails(message=redactor.text(failure.message))
    return step


def _parameters(record: StepRecord, redactor: Redactor) -> Iterator[Parameter]:
    step = record.step
    found = {"selector": step.target, "frame": getattr(step, "frame", None), "url": getattr(step, "url", None)}
    for name, value in (found | {"note": step.note}).items():
        if value:
            yield Parameter(name=name, value=redactor.text(str(value)))
