"""How a record becomes a report: the ErrorReport of a failed result, and the trace (specs/003 5)."""

from __future__ import annotations

import traceback
from dataclasses import asdict
from typing import Any

from harness.criteria import CriterionError, parse
from harness.criteria.syntax import WAITS
from harness.fault_report import advice, fault_reports
from harness.figures import figures
from harness.plan import Plan
from harness.record import Attempt, Score, StepRecord, TaskResult
from harness.recovery import Repair, Retry, Substitute, Trust
from harness.recovery.catalog import Family
from harness.recovery.failure import Failure
from harness.report import Context, ErrorReport, Metrics
from harness.spec.steps import Step


def error_report(plan: Plan, result: TaskResult, context: Context, expected: bool) -> ErrorReport:
    """The report of a failed result; ValueError for a result that did not fail."""
    failure, index = result.failure, result.failed_index
    if failure is None or index is None:
        raise ValueError(f"{result.task_id} did not fail")
    record = next((r for r in reversed(result.history) if r.index == index and not r.passed), None)
    rule = plan.rulebook.rule(failure.family)
    return ErrorReport(
        task_id=plan.task_id,
        error_type=failure.type,
        timestamp=record.attempts[-1].started if record and record.attempts else result.started,
        step_index=index,
        step=_step_json(record) if record else None,
        error_message=failure.message,
        stack_trace=_stack(failure),
        context=context,
        recovery_attempted=bool(record and record.answers) or any(r.rewound for r in result.history),
        recovery_strategy=rule.strategy if rule else None,
        recovery_success=False,
        final_state=result.final_state,
        metrics=Metrics(
            steps_completed=result.steps_completed,
            steps_total=result.steps_total,
            time_elapsed_seconds=round(result.elapsed, 3),
            retries_count=figures(result).retries,
        ),
        code=failure.code,
        category=failure.category,
        severity=failure.severity,
        retryable=failure.retryable,
        hint=advice(result, expected=expected) or _hint(plan, failure),
        tried=tuple(note(attempt, record.step) for attempt in record.attempts) if record else (),
        warnings=tuple(w.as_json() for w in result.warnings),
        faults=fault_reports(result),
        score=None if result.score is None else _score_json(result.score),
        expected=expected,
        source=plan.source,
    )


LOOKED_ONCE = "It was looked at once: where the page needs time, say `expect_timeout: 5`, or EVENTUALLY(...)."


def assertion_hint(plan: Plan, failure: Failure) -> str:
    """Expected and actual speak for themselves; what helps is to know that nobody waited for the page, or looked into
    the right frame of it.
    """
    if failure.advice:
        return failure.advice
    criterion = str(failure.details.get("criterion", ""))
    waited = plan.expect_timeout or any(word in criterion for word in WAITS)
    return "" if waited or plan.spec.expect is not None or not _of_page(failure) else LOOKED_ONCE


def _of_page(failure: Failure) -> bool:
    """Whether what does not hold looks at the page: of a criterion, its smallest part that fails."""
    if "criterion" not in failure.details:  # it compares an element's text
        return True
    part = failure.assertion.expression if failure.assertion else failure.details["criterion"]
    return any(map(_looks_at_page, (part, *failure.details.get("unmet_criteria", ())[1:])))


def _looks_at_page(expression: object) -> bool:
    try:
        return parse(str(expression)).looks_at_page
    except CriterionError:
        return True


def _hint(plan: Plan, failure: Failure) -> str:
    return assertion_hint(plan, failure) if failure.family is Family.ASSERTION else failure.hint


def _stack(failure: Failure) -> str | None:
    return "".join(traceback.format_exception(failure.cause)) if failure.cause else None


def _score_json(score: Score) -> dict[str, Any]:
    return {"total": score.total, "parts": [asdict(part) for part in score.parts], "rubrics": dict(score.rubrics)}


def _step_json(record: StepRecord) -> dict[str, Any]:
    return {"act": record.step.act, **record.step.model_dump(mode="json", exclude_defaults=True)}


def trace(result: TaskResult) -> dict[str, Any]:
    """The Trace of a run: a line for each attempt (specs/003 5.1 to 5.4)."""
    lines = [_line(record, attempt) for record in result.history for attempt in record.attempts if record.index >= 0]
    document: dict[str, Any] = {"task_id": result.task_id, "steps": lines}
    if result.warnings:
        document["warnings"] = [warning.as_json() for warning in result.warnings]
    if result.failure is not None:
        document["error"] = {
            "type": str(result.failure.type),
            "code": result.failure.code,
            "step_index": result.failed_index,
            "message": result.failure.message,
        }
    return document


def _line(record: StepRecord, attempt: Attempt) -> dict[str, Any]:
    step = attempt.step.model_dump(mode="json", exclude_defaults=True, exclude={"act", "t"})
    timing = {"seconds": round(attempt.seconds, 3), "step_index": record.index}
    line = {"t": round(attempt.t, 3), "act": attempt.step.act, **step, **timing}
    if record.extra_attempts or not attempt.passed:
        line["note"] = note(attempt, record.step)
    if record.rewound and attempt is record.attempts[-1]:
        line["note"] += f"; WENT BACK {went_back(record)}"
    return line


def instead(done: Step, declared: Step) -> str:
    """` by opening http://...`: what was done in place of the step as written; empty when that was done."""
    return (
        ""
        if done.act == declared.act
        else f" by {'opening' if done.act == 'open' else done.act} {done.target or getattr(done, 'url', '')}"
    )


def went_back(record: StepRecord) -> str:
    """`from step 4 to the checkpoint before step 2`; of a record that was rewound."""
    place = record.rewound.checkpoint if record.rewound else None
    return f"from step {record.index} to the checkpoint before step {place}"


def note(attempt: Attempt, declared: Step) -> str:
    """`RETRY (after 2s): SUCCESS`, `FALLBACK #b: FAILED - ...` (specs/003 5.2 to 5.4).

    `declared` is the step as written: a click that was done and whose page failed is not clicked again, its page is
    opened again, and the note says so.
    """
    match attempt.remedy:
        case Retry(after=after):
            way = f"RETRY (after {after:.3g}s){instead(attempt.step, declared)}"
        case Substitute(selector=selector):
            way = f"FALLBACK {selector}"
        case Repair():
            way = "AFTER THE REPAIR"
        case Trust(source=source):
            way = f"TRUSTED {source.upper()}"
        case _:
            way = "ATTEMPT 1"
    return (
        f"{way}: SUCCESS" if not isinstance(attempt.outcome, Failure) else f"{way}: FAILED - {attempt.outcome.message}"
    )
