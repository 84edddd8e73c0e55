"""Tells the story of a task that has ended: the one place that has its plan, its result and its secrets together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

from harness.criteria import difference
from harness.model.consumption import by_model, call_lines
from harness.model.diagnosis import (
    advice,
    assertion_hint,
    fault_reports,
    route_report,
    substitute_text,
    suspect,
    uninjected_fault,
    way,
)
from harness.model.figures import figures, model_calls, tool_calls
from harness.model.inference import ModelCall
from harness.model.outcome import ended_as_declared, outcome_differences
from harness.model.plan import Plan
from harness.model.ports import Json
from harness.model.record import Attempt, Score, StepRecord, TaskResult
from harness.model.settings import Settings
from harness.model.tool_evidence import call_document, failed_call
from harness.model.tool_use import by_tool
from harness.model.tools import ToolCall
from harness.recovery.catalog import Family
from harness.recovery.failure import Failure, Passed
from harness.reporting.healings import under_fault
from harness.reporting.redaction import Redactor, kept_call
from harness.reporting.story import (
    InnerStory,
    StepStatus,
    StoryAttempt,
    StoryCall,
    StoryComparison,
    StoryFailure,
    StoryFile,
    StoryPage,
    StoryPart,
    StoryScore,
    StoryStep,
    StoryTakeOver,
    StoryThought,
    TaskStory,
    cause_of,
    cleaned,
    compared,
    failed,
    writable,
)
from harness.reporting.telemetry.record import ModelReply, ToolReply, describe
from harness.reporting.words import (
    absent_words,
    called_at,
    fails_the_choice,
    failure_place,
    place,
    shortened,
    site_opened,
    step_target,
)
from harness.spec.names import well_formed
from harness.spec.steps import Step, Tool
from harness.task_secrets import masking
from harness.values import replace

_BEFORE = 3
"""The number of steps before the failing one that a screen shows, also those that did not run."""


def story_of(
    plan: Plan, result: TaskResult, redactor: Redactor | None = None, *, unexpected: bool = False
) -> TaskStory:
    """The story of a task. `unexpected`: it did not show what its `expect` declares."""
    redactor = (redactor or Redactor()).plus(plan.all_secrets)

    @cache
    def text(found: str) -> str:
        return writable(redactor.text(found))

    with masking(redactor.text):
        told = _Teller(plan, _encodable(result), redactor).story(unexpected=unexpected)
    story: TaskStory = cleaned(told, text)
    return story


def _encodable(result: TaskResult) -> TaskResult:
    """The result without halves of surrogate pairs where its reports are checked as they are made."""
    names = ("faults", "routes", "model_calls", "tool_calls")
    return replace(result, **{name: cleaned(getattr(result, name), well_formed) for name in names})


def bare_story(plan: Plan, result: TaskResult) -> TaskStory:
    """What is safe to say of a task whose story could not be told: no text of it, only its names and its code."""
    code = result.failure.code if result.failure else ""
    cause = f"{code}; a fault of the harness keeps it from saying more: see the warnings of the run"
    story = TaskStory(
        task_id=result.task_id,
        key=result.key,
        final_state=result.final_state,
        headline=f"{result.task_id} {result.final_state}{f': {cause}' if code else ''}",
        cause=cause,
        started=result.started,
        seconds=result.elapsed,
        failure=StoryFailure(code, "", message=cause) if code else None,
        failed_index=result.failed_index,
        artifacts=str(result.artifacts) if result.artifacts else "",
        as_declared=ended_as_declared(plan.spec, result),
        refused=_refused(plan, result),
        skipped="it was left out" if result.skipped else "",
    )
    safe: TaskStory = cleaned(story, writable)
    return safe


def _refused(plan: Plan, result: TaskResult) -> bool:
    return plan.strict and plan.spec.expect is None and result.makeshift


def before_the_first_step(result: TaskResult) -> bool:
    """Return whether it failed before anything of the task was tried: neither browser nor site was involved."""
    if result.failure is None or (result.failed_index or 0) >= 0:
        return False
    tried = any(record.index < 0 and not record.passed for record in result.history)
    return result.failure.code != "PRECONDITION_NOT_MET" and not tried


def step_text(plan: Plan, at: int | Step, settings: Settings, width: int) -> str:
    """A step that has not run as text, such as `4 click #buy`, without secrets. `at`: its index, or one around them."""
    redact, step = Redactor.of(settings, plan.all_secrets).text, plan.steps[at] if isinstance(at, int) else at
    with masking(redact):
        return redact(shortened(f"{at if isinstance(at, int) else step.note} {step.act} {step_target(step)}", width))


def _filled_step(record: StepRecord) -> Step:
    """The step to show: with a selector that lasts, and `${memory...}` filled in if the first attempt has the value."""
    if record.lasting_step is not None:
        return record.lasting_step
    return record.attempts[0].step if record.attempts and "${" in step_target(record.step) else record.step


class _Teller:
    """Makes the story of one task. Its texts still have secrets, but none that was cut."""

    def __init__(self, plan: Plan, result: TaskResult, redactor: Redactor) -> None:
        self._plan, self._result, self._redactor = plan, result, redactor
        self._faults = fault_reports(result)

    def story(self, *, unexpected: bool) -> TaskStory:
        plan, result = self._plan, self._result
        failure, cause, models = None, f"after {result.elapsed:.1f} s", model_calls(result)
        if result.failure:
            failure = self._failure(result.failure)
            cause = cause_of(
                failure, self._faults, self._tried(result.failure), result.failure.details.get("problems", ())
            )
        headline = f"{result.task_id} {result.final_state}{':' if failure else ''} {cause}"
        return TaskStory(
            task_id=result.task_id,
            key=result.key,
            final_state=result.final_state,
            headline=headline,
            cause=cause if failure else headline,
            file=self._file(),
            started=result.started,
            seconds=result.elapsed,
            failure=failure,
            failed_index=result.failed_index,
            steps_total=result.steps_total,
            steps_completed=result.steps_completed,
            steps=tuple(self._step(record) for record in result.history),
            planned=tuple(self._planned()),
            faults=self._faults,
            routes=tuple(map(route_report, result.routes)),
            warnings=tuple(self._redactor.json(under_fault(each.as_json(), self._faults)) for each in result.warnings),
            score=None if result.score is None else _score(result.score),
            page=self._page(),
            artifacts=str(result.artifacts) if result.artifacts else "",
            as_declared=ended_as_declared(plan.spec, result),
            differences=tuple(outcome_differences(plan.spec.expect, result)) if plan.spec.expect else (),
            expected=bool(result.error and result.error.expected),
            unexpected=unexpected,
            refused=_refused(plan, result),
            skipped=result.skipped,
            figures=figures(result),
            inner=tuple(self._inner()),
            unmatched=tuple(f"{frame} >>> {each}" if frame else each for each, frame in result.unmatched),
            baselines=tuple(written_baselines(plan, result)),
            agent=result.ended_by(plan.agent),
            agents=result.chosen_by(plan.agent),
            takeovers=tuple(StoryTakeOver(each.describe(), each.t, each.after) for each in result.takeovers),
            control=result.control,
            models=by_model(models),
            model_calls=call_lines(models, result.started),
            thoughts=tuple(map(_thought, result.model_calls)),
            tools=by_tool(tool_calls(result)),
            calls=tuple(map(self._call, result.tool_calls)),
        )

    def _file(self) -> StoryFile:
        plan, spec = self._plan, self._plan.spec
        return StoryFile(
            source=plan.source,
            location=self._location(),
            steps_source=plan.steps_source,
            folder=str(plan.folder),
            goal=spec.goal,
            family=spec.family or "",
            episode=spec.episode_id or "",
            priority=spec.priority,
            tags=spec.tags,
            notes=spec.own.notes,
            declared=spec.expect.warnings if spec.expect else (),
            seed=spec.seed,
            site="" if site_opened(spec.steps) else site_opened(plan.steps, plan.base_url) or "",
        )

    def _location(self) -> str:
        plan, result = self._plan, self._result
        called = called_at(vars(result.history[-1].step) if result.history else {})
        return called or (plan.place_of(result.failed_index) if plan.source else "")

    def _page(self) -> StoryPage | None:
        context = self._result.error.context if self._result.error else None
        if context is None:
            return None
        vanished, console = tuple(context.vanished), context.browser_console_logs
        return StoryPage(context.url or "", vanished, console, context.screenshot_id or "", context.user or "")

    def _inner(self) -> Iterator[InnerStory]:
        result = self._result
        yield from (self._inner_story(each, alternative=False) for each in result.inner)
        if result.alternative is not None:
            yield self._inner_story(result.alternative, alternative=True)

    def _inner_story(self, result: TaskResult, *, alternative: bool) -> InnerStory:
        return InnerStory(
            role="alternative task" if alternative else "repair task",
            task_id=result.task_id,
            final_state=result.final_state,
            started=result.started,
            seconds=result.elapsed,
            ok=result.ok,
            code=result.failure.code if result.failure else "",
            steps=tuple(_step(record, result, beside=False) for record in result.history),
            calls=tuple(map(self._call, result.tool_calls)),
        )

    # The steps.

    def _step(self, record: StepRecord) -> StoryStep:
        own = record.index >= len(self._plan.steps) or (record.index >= 0 and _is_of_file(record, self._plan))
        return _step(record, self._result, beside=not own)

    def _planned(self) -> Iterator[StoryStep]:
        """The steps around the failure that were not tried."""
        result, total, failed = self._result, self._result.steps_total, self._result.failed_index
        if failed is None:
            return
        tried = {record.index for record in result.history}
        stop = min(failed, total)
        around = {*range(max(0, stop - _BEFORE), stop), failed, max(0, failed + 1)}
        wanted = range(min(_BEFORE, total)) if before_the_first_step(result) else sorted(around)
        for index in wanted:
            if index not in tried and (index < total or index == failed):
                step = self._plan.steps[index] if 0 <= index < len(self._plan.steps) else None
                act, target = (step.act, step_target(step)) if step else ("", "")
                yield StoryStep(index, _place(index, result), act, target, status="not run")

    def _call(self, call: ToolCall) -> StoryCall:
        document = kept_call(call_document(call), self._redactor)
        return StoryCall(document, describe(ToolReply.of(call)), call.step, call.at, call.seconds)

    # The failure.

    def _tried(self, failure: Failure) -> str:
        """The step that failed, as written; empty if none was tried."""
        if failure.code in ("WORKER_CRASHED", "INCOMPLETE") or fails_the_choice(failure.code):
            return ""
        failed = self._result.failed_index
        records = (each for each in reversed(self._result.history) if each.index == failed and not each.passed)
        record = next(records, None)
        return f"{record.step.act} {step_target(_filled_step(record))}" if record is not None else ""

    def _failure(self, failure: Failure) -> StoryFailure:
        result = self._result
        place = failure_place(
            failure.code,
            result.failed_index,
            result.steps_total,
            result.step_numbers.get(result.failed_index or 0, ""),
            began=not before_the_first_step(result),
            hook=failure.details.get("hook"),
        )
        if called := called_at(vars(result.history[-1].step) if result.history else {}):
            place = f"at {called}"
        call = failed_call(result)
        advised = advice(result, expected=bool(result.error and result.error.expected))
        asserted, undone = failure.family is Family.ASSERTION, uninjected_fault(result)
        plain = failure.assertion.plain if failure.assertion else ""
        return failed(
            failure.code,
            place,
            failure.message,
            failure.details,
            plain,
            comparison=_comparison(failure),
            call=None if call is None else kept_call(call_document(call), self._redactor),
            selector=failure.selector or "",
            url=str(failure.details.get("url") or ""),
            hint=advised or (assertion_hint(self._plan, failure) if asserted else failure.hint),
            absent=() if advised or asserted else self._absent(failure),
            advised=bool(advised),
            suspect=str(suspect(self._plan, result) or ""),
            origin=failure.origin,
            fault=undone.fault.describe() if undone else "",
        )

    def _absent(self, failure: Failure) -> tuple[str, ...]:
        found = absent_words(self._result.artifacts, failure.assertion.diff if failure.assertion else "")
        return found if self._plan.heal else (*found, "`fallback_selectors`")


def written_baselines(plan: Plan, result: TaskResult) -> Iterator[str]:
    """The paths of the baselines that the task has changed or made."""
    for record in result.history:
        for attempt in record.attempts:
            if isinstance(attempt.outcome, Passed) and attempt.outcome.details.get("written"):
                yield str(plan.folder / str(attempt.outcome.details["baseline"]))


# The parts of a story that need only a record, a failure, or a call.


def _is_of_file(record: StepRecord, plan: Plan) -> bool:
    """Return whether a record is that of the step in the file; the effect of a tool's call is settled by the run."""
    declared = plan.steps[record.index]
    if isinstance(declared, Tool):
        declared = declared.model_copy(update={"effect": record.step.effect})
        return record.step.model_copy(update={"effect": record.step.effect}) == declared
    return record.step == declared


def _place(index: int, result: TaskResult) -> str:
    return place(index, result.steps_total, result.step_numbers.get(index, ""))


def _step(record: StepRecord, result: TaskResult, *, beside: bool) -> StoryStep:
    filled = _filled_step(record)
    last = record.attempts[-1].step if record.attempts else record.step
    shown = record.lasting_step or record.step
    parameters = {name: getattr(shown, name, None) for name in ("selector", "frame", "url", "note")}
    return StoryStep(
        index=record.index,
        place=_place(record.index, result),
        act=record.step.act,
        target=step_target(filled),
        instead=substitute_text(last, record.step),
        status=_status(record),
        skipped=record.skipped,
        left_out=record.left_out,
        attempts=tuple(_attempt(attempt, record.step) for attempt in record.attempts),
        written=f"{record.step.act} {step_target(record.step)}",
        beside=beside,
        went_back_to=record.rewound.checkpoint if record.rewound else None,
        parameters={name: str(value) for name, value in parameters.items() if value},
        agent=record.agent,
    )


def _status(record: StepRecord) -> StepStatus:
    if record.effect_already_done:
        return "done"
    return "skipped" if record.skipped or record.left_out else "ok" if record.passed else "FAILED"


def _attempt(attempt: Attempt, declared: Step) -> StoryAttempt:
    failure = attempt.outcome if isinstance(attempt.outcome, Failure) else None
    return StoryAttempt(
        way=way(attempt, declared),
        passed=attempt.passed,
        t=attempt.t,
        seconds=attempt.seconds,
        started=attempt.started,
        code=failure.code if failure else "",
        message=failure.message if failure else "",
    )


def _comparison(failure: Failure) -> StoryComparison | None:
    found = failure.assertion
    if found is None:
        return None
    diff = difference(found.expected, found.actual) if found.diff else ""
    lines = {"expected_lines": _value_text(found.expected), "actual_lines": _value_text(found.actual)}
    return compared(found.expression, found.expected, found.actual, found.diff, diff, **lines)


def _value_text(value: Json) -> str:
    """A text unchanged, else JSON with one line for each entry, so that two values can be compared."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1, default=str)


def _score(score: Score) -> StoryScore:
    parts = (StoryPart(p.name, p.weight, p.met, p.applies, p.required, p.reason) for p in score.parts)
    return StoryScore(score.total, tuple(parts), dict(score.rubrics))


def _thought(call: ModelCall) -> StoryThought:
    facts = {"model": f"{call.model} ({call.provider} {call.identifier})", "attempt": str(call.attempt)}
    line = f"{call.step}. {describe(ModelReply.of(call))}"
    return StoryThought(line, call.step, call.at, call.seconds, call.outcome == "answered", facts)
