"""One attempt at a step: interpolate, act or assert, remember."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from harness.criteria import Verdict, difference, evaluate, evaluate_value, fold, parse_value, text_comparison
from harness.criteria.syntax import Literal, Value
from harness.engine.judge import ASSERTION, AssertionJudge, with_hint
from harness.engine.repeat import RepeatUntil, repeated
from harness.engine.run import PageSources, Run, StepAnswer, StepTransition
from harness.model.ports import Json
from harness.model.record import Answer, Attempt, Sent, StepRecord
from harness.recovery import Remedy, RepairPrecondition, Retry, Substitute, Trust
from harness.recovery.catalog import FAMILIES, Effect, Family
from harness.recovery.failure import Assertion, Failed, Failure, Outcome, Passed, budget_exceeded
from harness.resilience import Deadline
from harness.spec.page_steps import Wait
from harness.spec.references import MissingMemory, holds_reference, one_time_names, resolve
from harness.spec.step_base import RepeatedStep
from harness.spec.steps import Api, Assert, Dialog, Screenshot, Step, Tool, Type
from harness.task_secrets import is_secret_name, learn, learn_named, secrets_of_header
from harness.values import replace

if TYPE_CHECKING:
    from harness.engine.api_answers import AnsweredApi
    from harness.engine.tools import CalledTool

LEFT_ALONE = "CIRCUIT_OPEN"
"""Nothing was sent: no attempt failed, and waiting for the circuit is no retry."""
_LIMIT = "limit"
"""The detail of a failure that names the limit which ended its attempt."""
_AT_THE_LIMIT = 0.1
"""Seconds before its limit from which on an attempt that fails has used up its time."""


async def attempt(
    run: Run,
    index: int,
    step: Step,
    remedy: Remedy | None,
    code: str = ASSERTION,
    *,
    expect: float = 0.0,
    called: CalledTool | AnsweredApi | None = None,
    before: Failure | None = None,
    ends: RepeatUntil | None = None,
) -> Outcome:
    """Make one attempt at the step, within its own limit and the task's deadline; it never raises Failed.

    `code` is the code of a failed assertion: a criterion, a precondition and a binding are assertions too. `expect`:
    seconds to wait for an assertion to hold. `called`: the call of a `tool` step, or the answer of an `api` step that
    reads it, which outlasts the attempt. `before`: the failure of the attempt before this one. `ends`: what ends the
    repetition of its act.
    """
    own = run.limit(step)
    within = min(own, run.left)
    if within <= 0:
        return task_timeout(run, before and replace(before, effect=Effect.NONE, tainted=False, act_done=False))
    now = run.ports.clock.now()
    until = now + within
    allowed = within if called is None else called.rest_of(within)
    judge = AssertionJudge(run, Deadline.after(allowed, now), code, expect)
    try:
        outcome = await _do(judge, index, step, remedy, allowed, called, ends)
    except Failed as failed:
        outcome = failed.failure
    except MissingMemory as missing:
        outcome = Failure("MEMORY_MISSING", f"Step {index} needs memory entry {missing.key!r}, which was never written")
    if isinstance(outcome, Passed):
        return outcome
    if within < own and _cut_off(run, outcome):
        return task_timeout(run, outcome)
    if outcome.assertion is None and run.ports.clock.now() >= until - _AT_THE_LIMIT:
        name = "step_timeout" if step.timeout is None else "timeout of the step"
        advice = outcome.advice if step.timeout is None else outcome.hint.replace("`step_timeout`", "its own `timeout`")
        outcome = replace(outcome, details={**outcome.details, _LIMIT: f"{name} {own:g} s"}, advice=advice)
    return outcome


def _cut_off(run: Run, failure: Failure) -> bool:
    """Return whether the attempt failed because the task's time ended while it was waiting.

    A driver that is lost in the middle of it has not used up the task's time.
    """
    if failure.type == "timeout_step":
        return "driver" not in failure.details or run.left <= _AT_THE_LIMIT
    return FAMILIES[failure.family].awaits and run.left <= 0


def task_timeout(run: Run, last: Failure | None = None) -> Failure:
    """The failure of a task whose deadline is over; `last` is the failure of the attempt that was under way."""
    over = Failure("TASK_TIMEOUT", f"Task timeout: exceeded {run.timeout:g}s")
    if run.allowance < run.timeout:
        over = budget_exceeded("max_seconds", f"{run.allowance:g} seconds, and they are over")
    if last is None:
        return over
    limit = f"timeout {run.timeout:g} s" if over.code == "TASK_TIMEOUT" else f"max_seconds {run.allowance:g} s"
    message, details = f"{over.message} ({last.message})", {**last.details, "last_code": last.code, _LIMIT: limit}
    advice = over.advice
    if last.family is not Family.TIMEOUT:
        advice = f"{last.hint} If it only needs more time: {over.hint[:1].lower()}{over.hint[1:]}"
    return replace(
        over, message=message, selector=last.selector, details=details, advice=advice,
        effect=last.effect, tainted=last.tainted, circumstances=last.circumstances, act_done=last.act_done,
    )  # fmt: skip


async def resolved(run: Run, step: Step, until: Deadline) -> Step:
    """Fill in `${memory...}` with the present memory, and one-time passwords. Raises MissingMemory, Failed."""
    if not holds_reference(step):
        return step
    await run.synchronize(until)
    return resolve(step, run.stage.world.memory, await _one_time_passwords(run, step, until))


async def resolved_criterion(run: Run, criterion: str, until: Deadline) -> str:
    """The criterion with its references filled in. Raises MissingMemory, Failed."""
    asked = await resolved(run, Assert(expr=criterion), until)
    assert isinstance(asked, Assert)
    return asked.expr or ""


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


async def _do(
    judge: AssertionJudge,
    index: int,
    step: Step,
    remedy: Remedy | None,
    within: float,
    called: CalledTool | AnsweredApi | None,
    ends: RepeatUntil | None,
) -> Outcome:
    run, until = judge.run, judge.until
    step = await resolved(run, step, until)
    _learn_from_step(step)
    outcome = await _acted(judge, index, step, remedy, within, called, ends)
    outcome = await _with_dialogs(run, step, until, outcome)
    if isinstance(outcome, Failure):
        return outcome
    if step.remember:
        values = await remember(run, index, step, until, called)
        if isinstance(values, Failure):
            return values
        outcome = Passed({**outcome.details, "remembered": values})
    if step.screenshot_id and not isinstance(step, Screenshot):
        await run.seat.screenshot(step.screenshot_id, max(1.0, until.left(run.ports.clock.now())))
    return outcome


async def _acted(
    judge: AssertionJudge,
    index: int,
    step: Step,
    remedy: Remedy | None,
    within: float,
    called: CalledTool | AnsweredApi | None,
    ends: RepeatUntil | None,
) -> Outcome:
    """Do what the step says, or judge it."""
    patience = _patience(judge.run, step, remedy, within)
    if isinstance(step, Assert):
        return await _assert(judge, index, step, patience)
    if isinstance(step, Tool):
        from harness.engine.tools import CalledTool, call_tool  # few tasks call tools

        assert isinstance(called, CalledTool)  # `do_step` makes it
        return await call_tool(called, step, judge)
    if ends is not None:
        return await _repeated(judge, step, ends, within, patience)
    if isinstance(step, Wait):
        return await _wait(judge, step, remedy, within, patience)
    return await _perform(judge, step, within, patience, called)


async def _repeated(judge: AssertionJudge, step: Step, ends: RepeatUntil, within: float, patience: float) -> Outcome:
    """Do the step until its criterion holds. What a retry does in its place is done once, and then judged."""
    run, end = judge.run, judge.run.ports.clock.now() + within

    async def act(at_most: float) -> Outcome:
        left = end - run.ports.clock.now()
        return await run.seat.perform(step, left, min(patience, at_most, left))

    criterion = await resolved_criterion(run, ends.criterion, judge.until)
    again = isinstance(step, RepeatedStep) and step.until is not None
    return await repeated(judge, replace(ends, criterion=criterion), act, again=again)


async def _perform(
    judge: AssertionJudge, step: Step, within: float, patience: float, called: CalledTool | AnsweredApi | None
) -> Outcome:
    """Do the act. A write that was answered and whose answer only must be judged is not sent again."""
    perform = partial(judge.run.seat.perform, step, within, patience)
    if not isinstance(step, Api) or called is None:
        return await perform()
    from harness.engine.api_answers import AnsweredApi, judged  # few steps read the answer of a request

    assert isinstance(called, AnsweredApi)  # `do_step` makes it
    if not called.kept:
        outcome = await perform()
        if isinstance(outcome, Failure):
            return outcome
        called.take(outcome)
    return await judged(called, step, judge)


def _learn_from_step(step: Step) -> None:
    """Learn what the step itself gives under the name of a secret: it may come back from the page."""
    if isinstance(step, Type) and is_secret_name(step.selector or ""):
        learn(str(step.value))
    elif isinstance(step, Api):
        learn_named((step.headers, step.value))
        learn(*(value for name, text in step.headers.items() for value in secrets_of_header(name, text)))


async def _with_dialogs(run: Run, step: Step, until: Deadline, outcome: Outcome) -> Outcome:
    """The outcome, or the failure of a step in which a declared dialog did not open. What an agent prepares may not."""
    if isinstance(outcome, Failure) or isinstance(step, Dialog) or run.agent is not None:
        return outcome
    return await run.seat.await_dialogs(until.left(run.ports.clock.now())) or outcome


def _patience(run: Run, step: Step, remedy: Remedy | None, within: float) -> float:
    """Seconds to look for the element (docs/design/steps-and-recovery.md).

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


async def _wait(judge: AssertionJudge, step: Wait, remedy: Remedy | None, within: float, patience: float) -> Outcome:
    run = judge.run
    if step.expr is not None:
        seconds = max(0.0, within - _AT_THE_LIMIT)
        outcome = await replace(judge, expect=seconds).criterion(step.expr)
        if isinstance(outcome, Failure) and outcome.code == ASSERTION and not outcome.advice:
            return replace(outcome, advice=f"It was waited for, {seconds:.3g} s; a longer `timeout` waits longer.")
        return outcome
    if _has_fallbacks(run, step, remedy):
        return _not_found(step, patience, await run.seat.perform(step, patience, patience))
    return await run.seat.perform(step, within, patience)


def _not_found(step: Wait, patience: float, outcome: Outcome) -> Outcome:
    """Turn the timeout of a `wait` into an `element_not_found` failure, so that its fallbacks are tried."""
    if not isinstance(outcome, Failure) or outcome.code != "STEP_TIMEOUT" or outcome.tainted:
        return outcome
    instead = outcome.details.get("instead")
    message = f"{step.selector} did not appear (looked for {patience:g}s){f': {instead}' if instead else ''}"
    return replace(outcome, code="ELEMENT_NOT_FOUND", message=message, selector=step.selector)


async def _assert(judge: AssertionJudge, index: int, step: Assert, patience: float) -> Outcome:
    if step.expr is not None:
        return await judge.criterion(step.expr)
    if step.aria is None and step.screenshot is None:
        return await _compare_text(judge, step, patience)
    from harness.engine.baselines import compare_aria, compare_screenshot  # few steps have a baseline

    if step.aria is not None:
        return await compare_aria(judge, step, step.aria)
    return await compare_screenshot(judge, index, step, patience)


async def _compare_text(judge: AssertionJudge, step: Assert, patience: float) -> Outcome:
    """Wait for an element that is displayed, and compare its text with the step's value, as long as the judge waits.

    The comparison is the same as that of a criterion (`text(...) == ...`), and so are its looks.
    """
    assert step.selector is not None  # the model admits no other form
    run, until, expect = judge.run, judge.until, judge.expect
    clock, sources = run.ports.clock, PageSources(run, until)
    operator, expected = _expected(step.value)
    comparison = text_comparison(step.selector, step.frame, operator, expected)
    verdict = await evaluate(comparison, sources, clock, until)
    if not verdict.holds and verdict.explanation and verdict.explanation.actual is None:
        began, left = clock.now(), until.left(clock.now())
        text = await run.seat.text(step.selector, step.frame, min(patience, left), left)
        if isinstance(text, Failure) and text.code == _HIDDEN:  # it may be shown as long as a wrong text may change
            left = until.clip(expect - (clock.now() - began), clock.now())
            text = await run.seat.text(step.selector, step.frame, left, left) if left > 0 else text
        if isinstance(text, Failure):
            return _not_shown(step, operator, expected, text) if text.code == _HIDDEN else text
    elif verdict.holds or not expect:
        return await _compared(run, step, verdict, 0.0, until)
    verdict = await evaluate(comparison, sources, clock, until, expect=expect)
    return await _compared(run, step, verdict, expect, until)


_HIDDEN = "ELEMENT_HIDDEN"
_COMPARATOR = re.compile(r"(==|!=|<=|>=|<|>)\s*(-?\d+(?:\.\d+)?)")
_CALL = re.compile(r"(?:mem|json)\(.*\)", re.DOTALL)


def _expected(value: Json) -> tuple[str, Value]:
    """The operator and what is expected: `value` is literal, except a comparator with a number, or one call."""
    if isinstance(value, str):
        if found := _COMPARATOR.fullmatch(value.strip()):
            return found[1], Literal(float(found[2]), source=found[2])
        if _CALL.fullmatch(value.strip()):
            return "==", parse_value(value.strip()).tree
    return "==", Literal(value, source=repr(value))


async def _compared(run: Run, step: Assert, verdict: Verdict, expect: float, until: Deadline) -> Outcome:
    operator, why = _expected(step.value)[0], verdict.explanation
    if verdict.holds or why is None:
        return Passed()
    actual = fold(why.actual) if isinstance(why.actual, str) else why.actual
    wanted = why.expected if operator == "==" else f"{operator} {why.expected:g}"
    said = f"actual value = {actual!r}, expected {wanted!r}" if why.plain else why.message
    message = f"Assertion failed: {step.selector}: {said}"
    told = message if why.plain else ""
    assertion = Assertion(step.describe(), wanted, actual, difference(wanted, actual), told)
    waited = f" (waited {expect:g} s for it)" if expect else ""
    failure = Failure(ASSERTION, f"{message}{waited}", step.selector, assertion=assertion)
    return await with_hint(run, failure, why.expression, until)


def _not_shown(step: Assert, operator: str, expected: Value, hidden: Failure) -> Failure:
    """The failure of an element that is on the page, and not displayed: it shows no text."""
    wanted = expected.source if operator != "==" or not isinstance(expected, Literal) else expected.value
    message = f"Assertion failed: {hidden.message}, expected {wanted!r}"
    assertion = Assertion(step.describe(), wanted, None)  # the two values do not say why: the message does
    return Failure(ASSERTION, message, step.selector, hidden.details, assertion=assertion)


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
        if is_secret_name(text):
            learn_named({"secret": value})
        run.stage.world.remember(key, value, f"{run.plan.task_id}#{index}")
    try:
        await run.synchronize(until)
    except Failed as failed:
        return replace(failed.failure, effect=Effect.DONE)
    return values


async def _value(run: Run, text: str, until: Deadline, answer: StepAnswer | None) -> Json:
    expression, patience = parse_value(text), run.plan.rulebook.on_element_not_found.patience
    if expression.reads_result and answer is not None and not answer.changes:
        patience = 0.0
    patience = math.inf if patience is None else patience
    return await evaluate_value(expression, PageSources(run, until, answer), run.ports.clock, until, patience=patience)


# One step under way.

_ApplyRepair = Callable[[RepairPrecondition | Trust], Awaitable[str | Failure | None]]
"""Repairs the state that an assertion found wrong; returns None, or the reason why it could not.

A Failure means that page or browser were lost meanwhile, which is for another rule to answer.
"""


class StepRequest(Struct, frozen=True):
    """A step to do, and its place in the task."""

    index: int
    step: Step
    code: str = ASSERTION
    """The code of the failure of its assertion."""
    apply_repair: _ApplyRepair | None = None
    expect: float = 0.0
    """Seconds to wait for its assertion to hold."""
    agent: str = ""
    """The name of the agent that chose it."""
    clear: Callable[[], Awaitable[StepTransition]] | None = None
    """Does the handlers that hold now, when the element is covered."""


class StepState(Struct):
    """The attempts at a step so far, and its remaining remedies."""

    request: StepRequest
    current: Step
    attempts: list[Attempt] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    remedies: dict[Hashable, Iterator[Remedy]] = field(default_factory=dict)
    sent: tuple[Sent, ...] = ()
    """The requests that left the pages in all attempts so far."""
    due: bool = False
    """Its `when` held: it is not asked again."""
    repeated: bool = False
    """It was repeated because `done_when` was false."""
    contradicted: bool | None = None
    """It passed, and `done_when` is false."""
    called: CalledTool | AnsweredApi | None = None
    """The call of a `tool` step, or the answer of an `api` step that reads it."""

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
        last = self.attempts[-1].outcome if self.attempts else None
        if remembered is None:
            remembered = last.details.get("remembered", {}) if isinstance(last, Passed) else {}
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
