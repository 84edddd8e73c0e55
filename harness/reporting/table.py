"""The step table of a terminal report: some steps before the failure, the failing one, the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from harness.model.diagnosis import instead, undone
from harness.model.plan import Plan
from harness.model.record import StepRecord, TaskResult
from harness.reporting.addresses import MARK
from harness.reporting.secrets import is_secret_name
from harness.spec.steps import Step

BEFORE = 3
"""Steps shown before the failing one."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `seconds` covers all attempts, not the waits between them."""

    place: str
    act: str
    target: str
    status: str
    seconds: float | None = None
    attempts: int = 1
    failing: bool = False


def table(plan: Plan, result: TaskResult) -> Iterator[Row]:
    """The rows around the failure; nothing for a result without one."""
    failed, total = result.failed_index, result.steps_total
    if failed is None:
        return
    if before_the_first_step(result):
        for index in range(min(BEFORE, total)):
            yield _row(plan, index, total, None, failed)
        return
    records = _records(plan, result)
    stop = min(failed, total)
    for index in range(max(0, stop - BEFORE), stop):
        yield _row(plan, index, total, records.get(index), failed)
    if chosen_nothing(result):
        yield Row(str(failed), "", "the agent's choice", "FAILED", failing=True)
        return
    if incomplete(result):
        yield Row("end", "", "memory_keys, artifacts", "FAILED", failing=True)
        return
    yield from _failing(plan, result, records.get(failed), failed)
    if max(failed, -1) + 1 < total:
        following = max(0, failed + 1)
        yield _row(plan, following, total, records.get(following), failed)


def _failing(plan: Plan, result: TaskResult, record: StepRecord | None, failed: int) -> Iterator[Row]:
    """What failed; when that is a comparison of `state_bindings`, after the step that it followed."""
    own = next((r for r in reversed(result.history) if r.index == failed and r.passed), None)
    if own is not None and record is not None and own.step != record.step and 0 <= failed < result.steps_total:
        yield replace(_row(plan, failed, result.steps_total, own, failed), failing=False)
    if fault := undone(result):
        yield Row(place(failed, result.steps_total), "fault", fault.fault.describe(), "FAILED", failing=True)
        yield replace(_row(plan, failed, result.steps_total, record, failed), failing=False)
        return
    yield _row(plan, failed, result.steps_total, record, failed)


def _records(plan: Plan, result: TaskResult) -> dict[int, StepRecord]:
    """The last record of each step. A comparison of `state_bindings` after it stands for it only when it failed."""
    found: dict[int, StepRecord] = {}
    for record in result.history:
        own = record.index >= len(plan.steps) or record.step == plan.steps[record.index]
        if own or not record.passed or record.index not in found:
            found[record.index] = record
    return found


def place(index: int, total: int) -> str:
    """`4`, or in words for what comes before and after the steps."""
    return "pre" if index < 0 else "end" if index >= total else str(index)


def numbered(index: int, total: int) -> str:
    """`step 2 (of 0-5)`: the count starts at 0."""
    return f"step {index} (of 0-{total - 1})"


def before_the_first_step(result: TaskResult) -> bool:
    """Whether it failed before anything of the task was tried: no browser, no site under test."""
    if result.failure is None or (result.failed_index or 0) >= 0:
        return False
    tried = any(record.index < 0 and not record.passed for record in result.history)
    return result.failure.code != "PRECONDITION_NOT_MET" and not tried


def chosen_nothing(result: TaskResult) -> bool:
    """Whether the agent failed to choose the next step."""
    code = result.failure.code if result.failure else ""
    return code in ("AGENT_FAILED", "AGENT_TIMEOUT", "AGENT_INVALID_STEP", "AGENT_UNAVAILABLE")


def incomplete(result: TaskResult) -> bool:
    """Whether all that ran passed, and something the task names is not there."""
    return result.failure is not None and result.failure.code == "INCOMPLETE"


def done(record: StepRecord) -> Step:
    """The step to show: with `${memory...}` filled in, where the first attempt knows it."""
    return record.attempts[0].step if record.attempts and "${" in described(record.step) else record.step


def worked_on(record: StepRecord) -> str:
    """What a step works on, and what was done instead of it at the last attempt, if that was something else."""
    other = instead(record.attempts[-1].step, record.step) if record.attempts else ""
    return described(done(record)) + (f" (retried{other})" if other else "")


def described(step: Step) -> str:
    """What a step works on; a password is not shown."""
    value = getattr(step, "value", None)
    if value and step.act == "type" and is_secret_name(step.target or ""):
        value = MARK
    found = getattr(step, "url", None) or getattr(step, "expr", None) or step.target or ""
    return f"{found} = {value!r}" if found and value is not None else str(found or (value if value is not None else ""))


def _row(plan: Plan, index: int, total: int, record: StepRecord | None, failed: int) -> Row:
    step = done(record) if record else plan.steps[index] if 0 <= index < len(plan.steps) else None
    act, target = (step.act, worked_on(record) if record else described(step)) if step else ("", "")
    if record is not None and record.effect_already_done:
        seconds = sum(attempt.seconds for attempt in record.attempts)
        return Row(place(index, total), act, target, "done", seconds, len(record.attempts), index == failed)
    if record is None or not record.attempts:
        return Row(place(index, total), act, target, "not run", failing=index == failed)
    seconds = sum(attempt.seconds for attempt in record.attempts)
    status = "skipped" if record.skipped else "ok" if record.passed else "FAILED"
    return Row(place(index, total), act, target, status, seconds, len(record.attempts), index == failed)


def shortened(text: str, width: int) -> str:
    """One line of at most `width` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: max(0, width - 1)] + "…"
