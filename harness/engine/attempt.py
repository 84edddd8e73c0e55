"""One attempt at a step: interpolate, act or assert, remember."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from harness.criteria import (
    CriterionError,
    compare,
    difference,
    equal,
    evaluate,
    evaluate_value,
    fold,
    order_problem,
    parse,
    parse_value,
    pauses,
)
from harness.engine.run import PageSources, Run, StepAnswer
from harness.model.ports import Json
from harness.model.record import Answer, Attempt, Sent, StepRecord
from harness.recovery import Remedy, RepairPrecondition, Retry, Substitute, Trust
from harness.recovery.catalog import FAMILIES, Effect, Family
from harness.recovery.failure import Assertion, Failed, Failure, Outcome, Passed, budget_exceeded
from harness.resilience import Deadline
from harness.spec.references import MissingMemory, holds_reference, one_time_names, resolve
from harness.spec.steps import Api, Assert, Screenshot, Step, Tool, Wait
from harness.values import replace

if TYPE_CHECKING:
    from harness.engine.tools import CalledTool

ASSERTION = "ASSERTION_FAILED"
LEFT_ALONE = "CIRCUIT_OPEN"
"""Nothing was sent: no attempt failed, and waiting for the circuit is no retry."""
POLL = 0.1
"""Seconds between two reads of a value to remember."""


async def attempt(
    run: Run,
    index: int,
    step: Step,
    remedy: Remedy | None,
    code: str = ASSERTION,
    *,
    expect: float = 0.0,
    called: CalledTool | None = None,
) -> Outcome:
    """Make one attempt at the step, within its own limit and the task's deadline; it never raises Failed.

    `code` is the code of a failed assertion: a criterion, a precondition and a binding are assertions too. `expect`:
    seconds to wait for an assertion to hold. `called`: the call of a `tool` step, which outlasts the attempt.
    """
    own = run.limit(step)
    within = min(own, run.left)
    if within <= 0:
        return task_timeout(run)
    try:
        outcome = await _do(run, index, step, remedy, within, _JudgeOptions(code, expect), called)
    except Failed as failed:
        outcome = failed.failure
    except MissingMemory as missing:
        outcome = Failure("MEMORY_MISSING", f"Step {index} needs memory entry {missing.key!r}, which was never written")
    if isinstance(outcome, Failure) and within < own and _cut_off(run, outcome):
        return task_timeout(run, outcome)
    return outcome


def _cut_off(run: Run, failure: Failure) -> bool:
    """Return whether the attempt failed because the task's time ended while it was waiting."""
    return failure.type == "timeout_step" or (FAMILIES[failure.family].awaits and run.left <= 0)


def task_timeout(run: Run, last: Failure | None = None) -> Failure:
    """The failure of a task whose deadline is over; `last` is the failure of the attempt that was under way."""
    over = Failure("TASK_TIMEOUT", f"Task timeout: exceeded {run.timeout:g}s")
    if run.allowance < run.timeout:
        over = budget_exceeded("max_seconds", f"{run.allowance:g} seconds, and they are over")
    if last is None:
        return over
    message, details = f"{over.message} ({last.message})", {**last.details, "last_code": last.code}
    return replace(
        over, message=message, selector=last.selector, details=details,
        effect=last.effect, tainted=last.tainted, circumstances=last.circumstances, act_done=last.act_done,
    )  # fmt: skip


async def resolved(run: Run, step: Step, until: Deadline) -> Step:
    """Fill in `${memory...}` with the present memory, and one-time passwords. Raises MissingMemory, Failed."""
    if not holds_reference(step):
        return step
    await run.synchronize(until)
    return resolve(step, run.stage.world.memory, await _one_time_passwords(run, step, until))


async def _one_time_passwords(run: Run, step: Step, until: Deadline) -> dict[str, str]:
    """The one-time passwords of the step, all of one moment. In the last second of a code it waits for the next one."""
    passwords, clock = run.plan.one_time, run.ports.clock
    names = list(dict.fromkeys(one_time_names(step)))
    if passwords is None or not names:
        return {}
    known = [name for name in names if name in passwords]
    wait = max((passwords.wait(name, clock.wall()) for name in known), default=0.0)
    if wait and until.allows(wait, clock.now()):
        await clock.sleep(wait)
    at = clock.wall()
    return {name: passwords.code(name, at) for name in known}


class _JudgeOptions(Struct, frozen=True):
    """How an assertion is judged: the code of its failure, and the seconds to wait for it to hold."""

    code: str
    expect: float


async def _do(
    run: Run,
    index: int,
    step: Step,
    remedy: Remedy | None,
    within: float,
    options: _JudgeOptions,
    called: CalledTool | None,
) -> Outcome:
    within = within if called is None else called.rest_of(within)
    until = Deadline.after(within, run.ports.clock.now())
    step = await resolved(run, step, until)
    patience = _patience(run, step, remedy, within)
    if isinstance(step, Assert):
        outcome = await _assert(run, index, step, patience, until, options)
    elif isinstance(step, Tool):
        from harness.engine.tools import call_tool  # few tasks call tools

        assert called is not None  # `do_step` makes it
        outcome = await call_tool(called, step, until, options.code, options.expect)
    elif isinstance(step, Wait) and _has_fallbacks(run, step, remedy):
        outcome = _not_found(step, patience, await run.stage.session.perform(step, patience, patience))
    else:
        outcome = await run.stage.session.perform(step, within, patience)
    if isinstance(outcome, Failure):
        return outcome
    if step.remember:
        values = await remember(run, index, step, until, called)
        if isinstance(values, Failure):
            return values
        outcome = Passed({**outcome.details, "remembered": values})
    if step.screenshot_id and not isinstance(step, Screenshot):
        await run.stage.session.screenshot(step.screenshot_id, max(1.0, until.left(run.ports.clock.now())))
    return outcome


def _patience(run: Run, step: Step, remedy: Remedy | None, within: float) -> float:
    """Seconds to look for the element (docs/design/deadlines.md).

    A `wait` may take the whole attempt, since looking is all it does, unless it has fallbacks to try afterwards.
    """
    if isinstance(remedy, Substitute) and remedy.patience is not None:
        return min(remedy.patience, within)
    rule = run.plan.rulebook.on_element_not_found.patience
    if rule is None or isinstance(step, Api) or (isinstance(step, Wait) and not _has_fallbacks(run, step, remedy)):
        return within
    return min(rule, within)


def _has_fallbacks(run: Run, step: Wait, remedy: Remedy | None) -> bool:
    """Return whether the selector of a `wait` has fallbacks: then the rule for elements applies to it."""
    fallbacks = getattr(run.plan.rulebook.on_element_not_found, "fallback_selectors", {})
    return isinstance(remedy, Substitute) or bool(fallbacks.get(step.selector or ""))


def _not_found(step: Wait, patience: float, outcome: Outcome) -> Outcome:
    """Turn the timeout of a `wait` into an `element_not_found` failure, so that its fallbacks are tried."""
    if not isinstance(outcome, Failure) or outcome.code != "STEP_TIMEOUT" or outcome.tainted:
        return outcome
    instead = outcome.details.get("instead")
    message = f"{step.selector} did not appear (looked for {patience:g}s){f': {instead}' if instead else ''}"
    return replace(outcome, code="ELEMENT_NOT_FOUND", message=message, selector=step.selector)


async def _assert(
    run: Run, index: int, step: Assert, patience: float, until: Deadline, options: _JudgeOptions
) -> Outcome:
    if step.expr is not None:
        return await judge(run, step.expr, until, options.code, expect=options.expect)
    if step.aria is not None or step.screenshot is not None:
        return await _compare_with_baseline(run, index, step, patience, until, options.expect)
    outcome = await _compare_text(run, step, patience, until)
    clock = run.ports.clock
    end = clock.now() + until.clip(options.expect, clock.now())
    for pause in pauses():
        if isinstance(outcome, Passed) or outcome.assertion is None or clock.now() >= end:
            break
        await clock.sleep(min(pause, end - clock.now()))
        again = await _compare_text(run, step, min(patience, POLL), until)
        # An element that is being replaced is absent for a moment: the earlier outcome still holds.
        outcome = outcome if isinstance(again, Failure) and again.family is Family.ELEMENT else again
    if isinstance(outcome, Failure) and outcome.assertion and options.expect:
        return replace(outcome, message=f"{outcome.message} (waited {options.expect:g} s for it)")
    return outcome


async def _compare_with_baseline(
    run: Run, index: int, step: Assert, patience: float, until: Deadline, expect: float
) -> Outcome:
    from harness.engine.baselines import compare_aria, compare_screenshot  # few steps have a baseline

    if step.aria is not None:
        return await compare_aria(run, step, step.aria, until, expect)
    return await compare_screenshot(run, index, step, patience, until, expect)


async def _compare_text(run: Run, step: Assert, patience: float, until: Deadline) -> Outcome:
    """Wait for the element, and compare its text with the step's value."""
    assert step.selector is not None  # the model admits no other form
    text = await run.stage.session.text(step.selector, step.frame, patience)
    return text if isinstance(text, Failure) else await _compare(run, step, text, until)


_OF_TESTERS = (ASSERTION, "CRITERIA_UNMET", "PRECONDITION_NOT_MET")
IN_FRAME = "{} is in the frame {}, but criteria read only the page itself. Use an `assert` step with `frame: {}`."
_WORDS = {"PRECONDITION_NOT_MET": "Precondition not met", "STATE_INCONSISTENT": "Memory and environment differ"}


async def judge(
    run: Run, text: str, until: Deadline, code: str, *, expect: float = 0.0, answer: StepAnswer | None = None
) -> Outcome:
    """Evaluate a criterion; the failure explains it. `expect`: seconds to wait for it to hold."""
    verdict = await evaluate(parse(text), PageSources(run, until, answer), run.ports.clock, until, expect=expect)
    if verdict.holds or verdict.explanation is None:
        return Passed({"waited": True} if verdict.waited else {})
    why = verdict.explanation
    words = _WORDS.get(code, "Assertion failed")
    assertion = Assertion(why.expression, why.expected, why.actual, why.diff, why.message if why.plain else "")
    failure = Failure(code, f"{words}: {text}: {why.message}", details={"criterion": text}, assertion=assertion)
    return await _with_frame(run, failure, until) if code in _OF_TESTERS else failure


async def _with_frame(run: Run, failure: Failure, until: Deadline) -> Failure:
    """Add to a failed criterion the frame that contains the element which the page itself lacks."""
    assert failure.assertion is not None
    part, page = failure.assertion.expression, PageSources(run, until)
    try:
        for selector in sorted(parse(part).selectors):
            if not await page.page("exists", selector, None) and (frame := await run.stage.session.frame_of(selector)):
                details = {**failure.details, "in_frame": frame}
                return replace(failure, details=details, advice=IN_FRAME.format(selector, frame, json.dumps(frame)))
    except (CriterionError, Failed):  # the part is no criterion by itself, or the page is gone by now
        pass
    return failure


_COMPARATOR = re.compile(r"(==|!=|<=|>=|<|>)\s*(-?\d+(?:\.\d+)?)")
_CALL = re.compile(r"(?:mem|json)\(.*\)", re.DOTALL)


async def _compare(run: Run, step: Assert, text: str, until: Deadline) -> Outcome:
    """Compare the text: `value` is literal, except a comparator with a number, or one mem(...) or json(...) call."""
    actual, operator = fold(text), "=="
    expected: Json = step.value
    if isinstance(expected, str):
        if found := _COMPARATOR.fullmatch(expected.strip()):
            operator, expected = found[1], float(found[2])
        elif _CALL.fullmatch(expected.strip()):
            value = parse_value(expected.strip())
            expected = await evaluate_value(value, PageSources(run, until), run.ports.clock, until)
    locale = run.plan.context.locale
    holds = _equals_folded(actual, expected) if operator == "==" else compare(operator, actual, expected, locale)
    if holds:
        return Passed()
    wanted = expected if operator == "==" else f"{operator} {expected:g}"
    why = "" if operator in ("==", "!=") else order_problem(actual, expected, locale)
    message = f"Assertion failed: {step.selector}: actual value = {actual!r}, expected {wanted!r}"
    message += f" ({why})" if why else ""
    assertion = Assertion(step.describe(), wanted, actual, difference(wanted, actual), message)
    return Failure("ASSERTION_FAILED", message, step.selector, assertion=assertion)


def _equals_folded(actual: str, expected: Json) -> bool:
    return equal(actual, fold(expected) if isinstance(expected, str) else expected)


async def remember(
    run: Run, index: int, step: Step, until: Deadline, answer: StepAnswer | None = None
) -> dict[str, Json] | Failure:
    """Write what the step is to remember, waiting for values that the page does not show yet. Returns the entries."""
    values: dict[str, Json] = {}
    for key, text in step.remember.items():
        try:
            value = values[key] = await _value(run, text, until, answer)
        except Failed as failed:
            details = {**failed.failure.details, "remember": {key: text}}
            return replace(failed.failure, effect=Effect.DONE, details=details, act_done=True)
        if value is None:
            message = f"Step {index} was done, but {text} gave nothing to remember as {key!r}"
            details = {"remember": {key: text}}
            return Failure("NOTHING_TO_REMEMBER", message, effect=Effect.DONE, details=details, act_done=True)
        run.stage.world.remember(key, value, f"{run.plan.task_id}#{index}")
    try:
        await run.synchronize(until)
    except Failed as failed:
        return replace(failed.failure, effect=Effect.DONE)
    return values


async def _value(run: Run, text: str, until: Deadline, answer: StepAnswer | None) -> Json:
    clock, expression = run.ports.clock, parse_value(text)
    patience = run.plan.rulebook.on_element_not_found.patience
    stop = clock.now() + until.clip(math.inf if patience is None else patience, clock.now())
    fixed = expression.reads_result and answer is not None and not answer.changes
    while True:
        value = await evaluate_value(expression, PageSources(run, until, answer), clock, until)
        if value is not None or fixed or clock.now() >= stop:
            return value
        await clock.sleep(POLL)


# One step under way.

ApplyRepair = Callable[[RepairPrecondition | Trust], Awaitable[str | Failure | None]]
"""Repairs the state that an assertion found wrong; returns None, or the reason why it could not.

A Failure means that page or browser were lost meanwhile, which is for another rule to answer.
"""


class StepRequest(Struct, frozen=True):
    """A step to do, and its place in the task."""

    index: int
    step: Step
    code: str = ASSERTION
    """The code of the failure of its assertion."""
    apply_repair: ApplyRepair | None = None
    expect: float = 0.0
    """Seconds to wait for its assertion to hold."""
    agent: str = ""
    """The name of the agent that chose it."""


class StepState(Struct):
    """The attempts at a step so far, and its remaining remedies."""

    request: StepRequest
    current: Step
    attempts: list[Attempt] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    remedies: dict[Hashable, Iterator[Remedy]] = field(default_factory=dict)
    sent: tuple[Sent, ...] = ()
    """The requests that left the pages in all attempts so far."""
    repeated: bool = False
    """It was repeated because `done_when` was false."""
    contradicted: bool = False
    """It passed, and `done_when` is false."""
    called: CalledTool | None = None
    """The call of a `tool` step."""

    @property
    def index(self) -> int:
        return self.request.index

    @property
    def declared(self) -> Step:
        return self.request.step

    def answered(self, failure: Failure, remedy: Remedy) -> None:
        """Keep the answer to a failure; a remedy that ends the step is none."""
        if not remedy.ends:
            waited = isinstance(remedy, Retry) and failure.code == LEFT_ALONE
            self.answers.append(Answer(failure.family, remedy, waited))

    def record(
        self, *, skipped: bool = False, done: bool = False, remembered: Mapping[str, Any] | None = None
    ) -> StepRecord:
        """Make the record of the step."""
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
            agent=self.request.agent,
        )


def _remembered(attempts: list[Attempt]) -> Mapping[str, Any]:
    last = attempts[-1].outcome if attempts else None
    found: Mapping[str, Any] = last.details.get("remembered", {}) if isinstance(last, Passed) else {}
    return found
