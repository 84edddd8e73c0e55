"""One failed task, told as far as its record and its artifacts know it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile

from harness.dashboard.evidence import Found
from harness.dashboard.healing import earlier
from harness.dashboard.view import Comparison, Occurrence
from harness.history.record import Execution, RunRecord, TaskPoint
from harness.model.report import ErrorReport
from harness.reporting.console import folded, relation, repeats, shown_value
from harness.reporting.step_lines import AttemptLine, StepLine
from harness.reporting.table import numbered, place, shortened
from harness.reporting.task_record import TaskRecord

BEFORE, CONSOLE = 8, 3
"""How many steps before the failing one, and lines of the browser's console, are shown."""
FLIPS = 3
"""Passed, failed, passed was a defect that was mended; once more is chance, as `flaky_tasks` has it."""
_VALUE, _DIFF = 300, 1500
"""Characters of a compared value and of a diff."""
_AS_ABOVE = "FAILED - as above"
NO_RECORD = "It failed, and left no record of why: see pytest's own output."
UNEXPECTED = "It did not show the outcome that its `expect` declares."
NO_FAILURE = "It ended well, though its `expect` declares a failure."


def occurrence(execution: Execution, found: Found, since: str) -> Occurrence:
    """`since`: how long it has been failing, in words."""
    record = execution.record
    if record is None:
        text = execution.reason or NO_RECORD
        return Occurrence(task_id=execution.task_id, message=text, since=since, worker=execution.worker)
    failing, earlier = _steps(record)
    context = found.report.context if found.report else None
    return Occurrence(
        task_id=record.task_id,
        source=record.source,
        step=where(record, failing),
        message=_told(record, _comparison(found.report)),
        seconds=record.seconds,
        worker=execution.worker,
        since=since,
        attempts=tuple(_attempts(failing, record)) if failing else (),
        before=tuple(_step(each, record) for each in earlier),
        comparison=_comparison(found.report),
        url=(context.url or "") if context else "",
        console=folded(context.browser_console_logs)[-CONSOLE:] if context else (),
        evidence=found.evidence,
    )


def message(record: TaskRecord) -> str:
    told = record.message or ("" if record.ok else f"It ended as {record.final_state}, without a message.")
    return told or (NO_FAILURE if record.unexpected else f"It ended as {record.final_state}.")


def _told(record: TaskRecord, comparison: Comparison | None) -> str:
    """The message, less what the comparison below it says; first, that another outcome was declared."""
    told = record.reason if comparison is not None and record.reason is not None else message(record)
    return f"{UNEXPECTED} {told}".rstrip() if record.unexpected and not record.ok else told


def where(record: TaskRecord, failing: StepLine | None) -> str:
    """`step 4 (of 0-22): click #pay`."""
    if record.step_index is None:
        return ""
    if record.code == "WORKER_CRASHED":
        return "at an unknown step"
    words = {"pre": "before the first step", "end": "at the success criteria"}
    known = place(record.step_index, record.steps_total)
    only = f"step {known}, the only one"
    text = words.get(known) or (only if record.steps_total == 1 else numbered(record.step_index, record.steps_total))
    done = f"{failing.act} {failing.target}".strip() if failing else ""
    return f"{text}: {done}" if done else text


def failing_step(record: TaskRecord) -> StepLine | None:
    """The last line of the step that ended the task."""
    return next((each for each in reversed(record.steps) if each.index == record.step_index and not each.passed), None)


def since(run: RunRecord, points: Sequence[TaskPoint]) -> str:
    """`new: passed in the 5 runs before`, `failed in the 2 runs before, too`, `flaky: ...`; empty without such runs."""
    before = earlier(run, points)
    if not before:
        return ""
    failed = sum(each.outcome == "failed" for each in before)
    turns = sum(one.outcome != other.outcome for one, other in pairwise(before))
    if turns + (before[-1].outcome == "passed") >= FLIPS:
        return f"flaky: failed in {failed} of the {_runs(len(before))} before"
    lately = len(list(takewhile(lambda each: each.outcome == before[-1].outcome, reversed(before))))
    how = "new: passed in the {} before" if before[-1].outcome == "passed" else "failed in the {} before, too"
    return how.format(_runs(lately))


def _runs(number: int) -> str:
    return "run" if number == 1 else f"{number} runs"


def _steps(record: TaskRecord) -> tuple[StepLine | None, Sequence[StepLine]]:
    failing = failing_step(record)
    until = record.steps.index(failing) if failing else len(record.steps)
    return failing, record.steps[max(0, until - BEFORE) : until]


def _attempts(failing: StepLine, record: TaskRecord) -> Iterator[str]:
    """Nothing for a single one of which the message says all."""
    told = [_attempt(each, record) for each in failing.attempts]
    return iter(told if len(told) > 1 or not "".join(told).endswith(_AS_ABOVE) else ())


def _attempt(attempt: AttemptLine, record: TaskRecord) -> str:
    """What the message says already is not said again."""
    outcome = attempt.note or ("SUCCESS" if attempt.passed else f"FAILED - {attempt.code}")
    if record.message:
        outcome = outcome.replace(f"FAILED - {record.message}", _AS_ABOVE)
    return f"at {attempt.t:.1f} s, {attempt.seconds:.1f} s long: {outcome}"


def _step(step: StepLine, record: TaskRecord) -> str:
    state = "skipped" if step.skipped else "ok" if step.passed else "failed"
    tries = f", {len(step.attempts)} attempts" if len(step.attempts) > 1 else ""
    return f"{place(step.index, record.steps_total)} {step.act} {step.target} ({state}, {step.seconds:.1f} s{tries})"


def _comparison(report: ErrorReport | None) -> Comparison | None:
    found = report.context.assertion if report else None
    if found is None:
        return None
    expected, actual = (shortened(shown_value(value), _VALUE) for value in (found.expected, found.actual))
    return Comparison(
        criterion=shortened(found.expression, _VALUE),
        expected=f"{relation(found.expression)}{expected}",
        actual=actual,
        diff="" if repeats(found.expected, found.actual, found.diff) else _cut(found.diff, _DIFF),
    )


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
