"""The records of a task as Allure steps with their real times."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from allure_commons.model2 import Parameter, Status, StatusDetails, TestStepResult

from harness.model.diagnosis import note
from harness.model.record import Attempt, StepRecord, TaskResult
from harness.recovery.catalog import Family
from harness.recovery.failure import Failure
from harness.reporting.redaction import Redactor
from harness.reporting.table import done, place, shortened, worked_on
from harness.spec.steps import Step

_TITLE = 160


def step_results(result: TaskResult, redactor: Redactor) -> list[tuple[StepRecord, TestStepResult]]:
    """A step for each record, preconditions and criteria among them; its attempts below it when there are several."""
    steps: list[tuple[StepRecord, TestStepResult]] = []
    moment = milliseconds(result.started)
    for record in result.history:
        steps.append((record, _step(record, result.steps_total, redactor, moment)))
        moment = steps[-1][1].stop
    return steps


def fault_steps(result: TaskResult, redactor: Redactor) -> Iterator[TestStepResult]:
    """A step for each fault that struck, at its first strike."""
    for met in result.faults:
        if met.count:
            step = TestStepResult(name=redactor.text(shortened(f"injected fault {met.describe()}", _TITLE)))
            step.start = step.stop = milliseconds(result.started + timedelta(seconds=met.strikes[0]))
            step.status = str(Status.PASSED)
            yield step


def inner_task(result: TaskResult, redactor: Redactor) -> TestStepResult:
    """A task that ran inside of another one, as one step with its own below it."""
    step = TestStepResult(name=redactor.text(f"alternative task {result.task_id}: {result.final_state}"))
    step.start = milliseconds(result.started)
    step.stop = milliseconds(result.started + timedelta(seconds=result.elapsed))
    step.status = Status.PASSED if result.ok else _failed(result.failure)
    step.steps = [inner for _, inner in step_results(result, redactor)]
    return step


def milliseconds(moment: datetime) -> int:
    """Since 1970, as Allure counts."""
    return round(moment.timestamp() * 1000)


def end(attempt: Attempt) -> datetime:
    return attempt.started + timedelta(seconds=attempt.seconds)


def _step(record: StepRecord, total: int, redactor: Redactor, moment: int) -> TestStepResult:
    """`moment` stands for the time of a record without attempts: a write that was found to be done already."""
    step = TestStepResult(name=redactor.text(_name(record, total)))
    step.start = milliseconds(record.attempts[0].started) if record.attempts else moment
    step.stop = milliseconds(end(record.attempts[-1])) if record.attempts else moment
    step.status = _status(record)
    step.parameters = list(_parameters(record, redactor))
    if record.failure is not None:
        step.statusDetails = StatusDetails(message=redactor.text(record.failure.message))
    if record.extra_attempts:
        step.steps = [_attempt(attempt, record.step, redactor) for attempt in record.attempts]
    return step


def _name(record: StepRecord, total: int) -> str:
    step, where = done(record), place(record.index, total)
    looks = where in ("pre", "end") and step.act == "assert"
    kind = {"pre": "precondition:" if looks else "repair:", "end": "success criterion:"}.get(where, f"{record.index}.")
    title = shortened(f"{kind} {'' if looks else f'{step.act} '}{worked_on(record)}", _TITLE)
    return title + "".join(_afterwards(record))


def _afterwards(record: StepRecord) -> Iterator[str]:
    if record.extra_attempts:
        yield f" ({len(record.attempts)} attempts)"
    if record.effect_already_done:
        yield " (already done)"
    if record.rewound:
        yield f" (back to the checkpoint before step {record.rewound.checkpoint})"


def _status(record: StepRecord) -> str:
    if record.skipped:
        return str(Status.SKIPPED)
    return str(Status.PASSED) if record.passed else _failed(record.failure)


def _failed(failure: Failure | None) -> str:
    """`failed` is the product's fault, `broken` anything else (DESIGN 4.4)."""
    return str(Status.FAILED if failure is not None and failure.family is Family.ASSERTION else Status.BROKEN)


def _attempt(attempt: Attempt, declared: Step, redactor: Redactor) -> TestStepResult:
    failure = attempt.outcome if isinstance(attempt.outcome, Failure) else None
    step = TestStepResult(name=redactor.text(shortened(note(attempt, declared), _TITLE)))
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
