"""Makes a report out of a record: the ErrorReport of a failed result, and the trace."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, assert_never

from msgspec import Struct
from msgspec.structs import asdict

from harness.criteria import CriterionError, parse
from harness.criteria.syntax import WAITS
from harness.model.consumption import ModelFigures, by_model, call_lines
from harness.model.figures import figures, model_calls, tool_calls
from harness.model.plan import Plan
from harness.model.record import (
    CLOSED_PAGES,
    LASTING,
    LEFT_OUT,
    TIMES,
    Attempt,
    History,
    MetFault,
    MetRoute,
    Score,
    StepRecord,
    TaskResult,
)
from harness.model.report import Context, ErrorReport, FaultReport, Metrics, RoutedRequestReport, RouteReport
from harness.model.tool_evidence import call_document, calls_of_attempts, failed_call, tool_error
from harness.model.tool_use import ToolFigures, by_tool, tool_call_lines
from harness.model.tools import ToolCall
from harness.recovery import GiveUp, RepairPrecondition, Retry, Rewind, Skip, Substitute, Trust
from harness.recovery.catalog import FAMILIES, Family
from harness.recovery.failure import Failure, suspect_of
from harness.recovery.families import Suspect
from harness.spec.steps import Step

# The consequences of a fault: the failure that it caused, whether the task recovered, and how long it took.

_SLACK = 0.01
"""Seconds by which the times of strikes and attempts may differ, since both are rounded."""


class FaultEffect(Struct, frozen=True):
    """The effect of one fault on a task that has ended."""

    struck: bool
    code: str | None = None
    """The code of the first failure after the first strike; None: it caused no failure."""
    step: int | None = None
    """The index of the step that failed with it."""
    seconds: float | None = None
    """Seconds from the first strike to the end of the first attempt of that step that passed; None: none passed."""


def fault_effect(met: MetFault, result: TaskResult) -> FaultEffect:
    """Determine what followed the fault's first strike."""
    if not met.count:
        return FaultEffect(struck=False)
    first = met.strikes[0]
    if (effect := _in_models(met, result)) is not None:
        return effect
    failures = ((r.index, each) for r in result.history for each in r.attempts if not each.passed)
    failed = next(((index, each) for index, each in failures if each.t + each.seconds >= first - _SLACK), None)
    if failed is None:
        return FaultEffect(True, result.failure.code if result.failure else None, result.failed_index)
    index, attempt = failed
    assert isinstance(attempt.outcome, Failure)
    return FaultEffect(True, attempt.outcome.code, index, _until_passed(result.history, index, attempt, first))


def _in_models(met: MetFault, result: TaskResult) -> FaultEffect | None:
    """What followed in the calls of models: the code of the first request that failed in a struck step.

    None for a fault that strikes no models, and for one that a call has outlasted.
    """
    from harness.spec.faults import ModelFault  # loaded by the fault itself

    if not isinstance(met.fault, ModelFault):
        return None
    calls = [call for call in result.model_calls if call.step in met.steps]
    named = met.fault.model
    number = next((n for n, call in enumerate(calls) if call.code and named in (None, call.model)), None)
    if number is None:
        return None
    failed, later = calls[number], calls[number + 1 :]
    answer = next((call for call in later if call.outcome == "answered" and call.step == failed.step), None)
    seconds = None if answer is None else (answer.at - failed.at).total_seconds() + answer.seconds
    return FaultEffect(True, failed.code, failed.step, None if seconds is None else round(max(0.0, seconds), 3))


def unmet_expectations(met: MetFault, found: FaultEffect, *, reached: bool) -> Iterator[str]:
    """Yield the parts of the fault's `expect` that did not happen. `reached`: the task did what it declares."""
    expect = met.fault.expect
    if not found.struck:
        return
    if "code" in expect.model_fields_set and expect.code != found.code:
        yield f"code: expected {expect.code or 'no failure'}, was {found.code or 'no failure'}"
    if expect.recovered is not None and expect.recovered != reached:
        yield "was not recovered from" if expect.recovered else "was recovered from, which was not expected"


def _until_passed(history: History, index: int, failed: Attempt, strike: float) -> float | None:
    """Seconds until the step passed. If its `write` took effect, its last attempt counts, though it failed."""
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


def responsible_faults(result: TaskResult) -> tuple[MetFault, ...]:
    """The faults that the failure follows: they struck in the failing step or just before, or were active.

    A fault that could not be injected is among them if that is the failure.
    """
    if result.failure is None:
        return ()
    start, failing, end = _moments_around(result)

    def is_in_window(met: MetFault) -> bool:
        struck = any(start - _SLACK <= t <= end + _SLACK for t in met.strikes)
        stood = any(t <= end for t in met.strikes) and any(t >= failing - _SLACK for t in met.healed)
        return struck or stood

    return tuple(met for met in result.faults if is_in_window(met) or _is_failure(met, result.failure))


def uninjected_fault(result: TaskResult) -> MetFault | None:
    """The fault that could not be injected, if the task failed because of that."""
    failure = result.failure
    return next((met for met in result.faults if failure is not None and _is_failure(met, failure)), None)


def _is_failure(met: MetFault, failure: Failure) -> bool:
    return bool(met.problem) and not met.count and met.problem == failure.message


def _moments_around(result: TaskResult) -> tuple[float, float, float]:
    """The times of three moments in seconds.

    They are the end of the last step but one before the failing one, the start of its last attempt, and the failure.
    """
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


# The report's view of a task's faults: the outcome of each, and whether the failure follows it.

_NAMED = 2
"""The number of faults that a headline names."""


def fault_reports(result: TaskResult) -> tuple[FaultReport, ...]:
    """The reports about the faults, in the order of the file."""
    followed = responsible_faults(result)
    return tuple(
        FaultReport(
            id=met.name,
            title=met.fault.title,
            kind=met.fault.kind,
            target=met.fault.target,
            where=met.fault.source,
            struck=met.count,
            times=met.strikes,
            steps=met.steps,
            healed=met.healed,
            problem=met.problem,
            why=met.why,
            behind=met in followed,
            text=met.describe(),
        )
        for met in result.faults
    )


def route_report(met: MetRoute) -> RouteReport:
    """The report about a route."""
    return RouteReport(
        route=met.number,
        url=met.route.url,
        methods=met.route.methods,
        where=met.route.source,
        count=met.count,
        requests=tuple(
            RoutedRequestReport(
                step_index=each.step, method=each.method, url=each.url, status=each.status, what=each.what
            )
            for each in met.answered
        ),
        problem=met.problem,
        text=met.describe(),
    )


def after_faults(faults: Sequence[FaultReport]) -> str:
    """The part of a headline that names the faults before the failure: `, after injected fault browser_kill`."""
    titles = list(dict.fromkeys(each.title for each in faults if each.behind))
    if not titles:
        return ""
    if undone_fault(faults) is not None:
        return f", because injected fault {titles[0]} could not be done"
    more = f" and {len(titles) - _NAMED} more" if len(titles) > _NAMED else ""
    return f", after injected fault{'s' if len(titles) > 1 else ''} {', '.join(titles[:_NAMED])}{more}"


def undone_fault(faults: Sequence[FaultReport]) -> FaultReport | None:
    """The fault that could not be injected, if that is the failure."""
    return next((each for each in faults if each.behind and each.problem and not each.struck), None)


def advice(result: TaskResult, *, expected: bool = False) -> str:
    """Advice for a failure that follows a fault, since site and machine need no repair. Empty for other failures.

    `expected`: the task declares the failure.
    """
    failure = result.failure
    if failure is None or failure.advice or not responsible_faults(result):
        return ""
    way = FAMILIES[failure.family].outlasted_by
    if expected:
        return "This failure follows an injected fault, as the task declares: there is nothing to do."
    outlast = f"To survive it, use {way}; to" if way else "To"
    declared = f"`expect: {{final_state: {result.final_state}, code: {failure.code}}}`"
    return f"This failure follows an injected fault. {outlast} expect it, declare {declared}."


def error_report(plan: Plan, result: TaskResult, context: Context, expected: bool) -> ErrorReport:
    """Make the report of a failed result; raises ValueError for a result that did not fail."""
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
        step_number=result.step_numbers.get(index, ""),
        step={"act": record.step.act, **record.step.model_dump(mode="json", exclude_defaults=True, exclude={"guards"})}
        if record
        else None,
        error_message=failure.message,
        stack_trace="".join(traceback.format_exception(failure.cause)) if failure.cause else None,
        context=context,
        recovery_attempted=bool(
            (record and record.answers) or result.takeovers or any(r.rewound for r in result.history)
        ),
        recovery_strategy=rule.strategy if rule else None,
        recovery_success=False,
        final_state=result.final_state,
        metrics=Metrics(
            steps_completed=result.steps_completed,
            steps_total=result.steps_total - result.steps_unused,
            steps_unused=result.steps_unused,
            time_elapsed_seconds=round(result.elapsed, 3),
            retries_count=figures(result).retries,
        ),
        code=failure.code,
        category=failure.category,
        severity=failure.severity,
        suspect=suspect(plan, result),
        retryable=failure.retryable,
        hint=advice(result, expected=expected)
        or (assertion_hint(plan, failure) if failure.family is Family.ASSERTION else failure.hint),
        tried=tuple(note(attempt, record.step) for attempt in record.attempts) if record else (),
        warnings=tuple(w.as_json() for w in result.warnings),
        faults=fault_reports(result),
        routes=tuple(map(route_report, result.routes)),
        score=None if result.score is None else _score_json(result.score),
        expected=expected,
        source=plan.source,
        **{**_agent_facts(plan, result), **_tool_facts(result)},
    )


def suspect(plan: Plan, result: TaskResult) -> Suspect | None:
    """Where to look first; None for a result without a failure."""
    if result.failure is None:
        return None
    by_agent, after_fault = bool(result.ended_by(plan.agent)), bool(responsible_faults(result))
    return suspect_of(result.failure, by_agent=by_agent, after_fault=after_fault)


def _agent_facts(plan: Plan, result: TaskResult) -> dict[str, Any]:
    """What a report says of agents and of the calls of models."""
    found = {"agent": result.ended_by(plan.agent), "takeovers": tuple(each.describe() for each in result.takeovers)}
    if not (calls := model_calls(result)):
        return found
    models = {"models": by_model(calls), "models_total": ModelFigures.of(calls)}
    return {**found, **models, "model_calls": call_lines(calls, result.started)}


def _tool_facts(result: TaskResult) -> dict[str, Any]:
    """What a report says of the calls of tools."""
    if not (calls := tool_calls(result)):
        return {}
    failed = failed_call(result)
    return {
        "tools": by_tool(calls),
        "tools_total": ToolFigures.of(calls),
        "tool_calls": tool_call_lines(calls, result.started),
        "tool_error": None if failed is None else tool_error(failed),
    }


LOOKED_ONCE = "It was checked only once. If the page needs time, use `expect_timeout: 5` or EVENTUALLY(...)."


def assertion_hint(plan: Plan, failure: Failure) -> str:
    """A hint for an assertion whose values are clear: it was not waited for, or is in another frame."""
    if failure.advice or failure.code.startswith("TOOL_"):  # a page has nothing to do with a tool's answer
        return failure.hint
    criterion = str(failure.details.get("criterion", ""))
    waited = plan.expect_timeout or any(word in criterion for word in WAITS)
    return "" if waited or plan.spec.expect is not None or not _of_page(failure) else LOOKED_ONCE


def _of_page(failure: Failure) -> bool:
    """Return whether the unmet condition reads the page; of a criterion its smallest failing part counts."""
    if "criterion" not in failure.details:  # the criterion compares an element's text
        return True
    part = failure.assertion.expression if failure.assertion else failure.details["criterion"]
    try:
        unmet = failure.details.get("unmet_criteria", ())[1:]
        return any(parse(str(each)).looks_at_page for each in (part, *unmet))
    except CriterionError:  # of one that cannot be read nobody knows
        return True


def _score_json(score: Score) -> dict[str, Any]:
    return {"total": score.total, "parts": [asdict(part) for part in score.parts], "rubrics": dict(score.rubrics)}


def trace(result: TaskResult) -> dict[str, Any]:
    """Make the Trace of a run, with one line for each attempt."""
    called = calls_of_attempts(result)
    lines = [
        _line(record, attempt, called.get(id(attempt), ()), result.step_numbers.get(record.index, ""))
        for record in result.history
        for attempt in record.attempts
        if record.index >= 0
    ]
    if result.takeovers:
        named = (record.agent for record in result.history for _ in record.attempts if record.index >= 0)
        lines = [{**line, **({"agent": name} if name else {})} for line, name in zip(lines, named, strict=True)]
    document: dict[str, Any] = {"task_id": result.task_id, "steps": lines}
    if result.routes:
        document["routes"] = [route_report(met).model_dump(mode="json") for met in result.routes]
    if result.dialogs:
        document["dialogs"] = [each.as_json() for each in result.dialogs]
    if result.agent_events:
        document["agent_events"] = [each.document() for each in result.agent_events]
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


def _line(record: StepRecord, attempt: Attempt, calls: Sequence[ToolCall], number: str) -> dict[str, Any]:
    step = attempt.step.model_dump(mode="json", exclude_defaults=True, exclude={"act", "t", "guards"})
    timing = {"seconds": round(attempt.seconds, 3), "step_index": record.index}
    line = {"t": round(attempt.t, 3), "act": attempt.step.act, **step, **timing}
    if number:
        line["step_number"] = number
    back = ""
    if record.rewound and attempt is record.attempts[-1]:
        back = f"; WENT BACK from step {record.index} to the checkpoint before step {record.rewound.checkpoint}"
    if record.extra_attempts or not attempt.passed or back:
        line["note"] = note(attempt, record.step) + back
    if calls:
        line["tool_calls"] = [call_document(call) for call in calls]
    details = attempt.outcome.details
    told = {name: details[name] for name in (LEFT_OUT, TIMES, LASTING, CLOSED_PAGES) if name in details}
    line |= {name: dict(each) if isinstance(each, Mapping) else each for name, each in told.items()}
    return line


def substitute_text(done: Step, declared: Step) -> str:
    """` by opening http://...`: what was done in place of the step as written; empty if it was done as written."""
    if done.act == declared.act:
        return ""
    return f" by {'opening' if done.act == 'open' else done.act} {done.target or getattr(done, 'url', '')}"


def note(attempt: Attempt, declared: Step) -> str:
    """The trace's note about an attempt: `RETRY (after 2s): SUCCESS`, `FALLBACK #b: FAILED - ...`."""
    ended = f"FAILED - {attempt.outcome.message}" if isinstance(attempt.outcome, Failure) else "SUCCESS"
    if reason := attempt.outcome.details.get(LEFT_OUT):
        ended = f"SKIPPED - {reason}"
    return f"{way(attempt, declared)}: {ended}"


def way(attempt: Attempt, declared: Step) -> str:
    """What led to an attempt: `RETRY (after 2s)`, `FALLBACK #b`.

    `declared` is the step as written. After a click whose page failed to load, the page is opened again in place of the
    click; the words say so.
    """
    match attempt.remedy:
        case Retry(after=after):
            return f"RETRY (after {after:.3g}s){substitute_text(attempt.step, declared)}"
        case Substitute(selector=selector):
            return f"FALLBACK {selector}"
        case RepairPrecondition():
            return "AFTER THE REPAIR"
        case Trust(source=source):
            return f"TRUSTED {source.upper()}"
        case Rewind() | Skip() | GiveUp() | None:  # after these remedies, only a first attempt of the step can follow
            return "ATTEMPT 1"
        case _:
            assert_never(attempt.remedy)
