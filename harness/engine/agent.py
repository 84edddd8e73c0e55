"""Asks the agent for the next step; an error here is the agent's failure, never the site's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, cast

from msgspec import Struct
from pydantic import BaseModel, ValidationError

from harness.engine.attempt import task_timeout
from harness.engine.checkpoints import resume, suspend
from harness.engine.effects import knowledge, may_go_on, stop_sending
from harness.engine.events import attempt_ended, proposal_refused, step_ended
from harness.engine.policy import HELD_BACK, act_refusal, tool_refusal, undeclared_call, with_evidence
from harness.engine.run import AGENT_STEPS, Run, Suspension, TaskStop
from harness.model.events import StepStarted
from harness.model.plan import Plan
from harness.model.ports import Observation, Resume
from harness.model.record import Answer, Attempt, History, StepRecord
from harness.model.tools import OfferedTool
from harness.recovery import GiveUp, Retry
from harness.recovery.failure import Failed, Failure
from harness.recovery.never_twice import EffectAnswer, RepeatVerdict, RepeatWay, again
from harness.spec.checks import check_spec, check_steps
from harness.spec.expressions import environment_names
from harness.spec.load import validated
from harness.spec.problems import Problem
from harness.spec.references import (
    BadReferenceError,
    Reference,
    ReferenceScope,
    escape_references,
    hiding,
    interpolate_step,
    one_time_names,
)
from harness.spec.source import Origin, Source
from harness.spec.step_base import EffectClass, StepBase
from harness.spec.steps import Step, Tool
from harness.spec.task import TaskSpec
from harness.spec.validation import problems_of_error
from harness.task_secrets import hidden
from harness.values import replace

_INVALID = "AGENT_INVALID_STEP"
_INVALID_IN_A_ROW = 3
"""The number of invalid proposals in a row that ends the task; the agent is told about the ones before."""


class Invalid(StepBase):
    """A record's step for an invalid proposal: nothing was done."""

    usual_effect: ClassVar[EffectClass] = "read"

    act: Literal["invalid"] = "invalid"
    value: str

    def describe(self) -> str:
        return f"invalid {self.value}"


class Looking(StepBase):
    """A trace's step for a look at the page that failed."""

    usual_effect: ClassVar[EffectClass] = "read"

    act: Literal["observe"] = "observe"


def looking() -> Step:
    """Make the trace's step for a look at the page."""
    return cast("Step", Looking())


async def next_proposal(run: Run) -> Step | TaskStop | None:
    """Ask for the next step; returns None when there is no more to do.

    Raises Failed when the agent could not be made, when its time or the task's ran out, and when the page could not be
    read and the agent did not handle that.
    """
    if run.agent is None:
        return await run.ports.agent.propose(run.plan_now, tuple(run.journal.history), _Sight(run, ()))
    if ending := await unknown_outcome(run):
        return ending
    refused: History = ()
    while True:
        answer = await _answer(run, (*run.journal.history, *refused))
        if answer is None or isinstance(answer, TaskStop):
            return answer
        try:
            return await _allowed(run, step_of(answer, run.plan))
        except BadProposalError as error:
            record = _record(run, answer, error, number=len(refused) + 1)
        refused = (*refused, record)
        if len(refused) == _INVALID_IN_A_ROW and record.failure:
            return TaskStop(record.failure, record.index, GiveUp())


async def unknown_outcome(run: Run) -> TaskStop | None:
    """End the task if a write has an unknown outcome: an agent that sees the failure would do the write again.

    If the write is known to be done, and only what follows it failed, the same step is not simply done again either.
    """
    last = run.journal.history[-1] if run.journal.history else None
    if last is None or (failed := last.failure) is None:
        return None
    if may_go_on(last.step, failed):
        await stop_sending(run, failure=failed)
        last = run.journal.history[-1]  # with what has left since
    known = await knowledge(run, last.step, failed, last.sent)
    if again(RepeatWay.NEXT_STEP, known) is RepeatVerdict.AGAIN:
        done = failed.act_done or known.answer is EffectAnswer.DONE
        if done and last.may_have_written and last not in run.journal.unsure and not isinstance(last.step, Tool):
            run.journal.unsure.append(last)
        await run.stage.session.release()
        return None
    message = f"Whether step {last.index} took effect is not known, so the agent was not asked for another step: "
    details = {**failed.details, "last_code": failed.code}
    how = failed.circumstances
    failure = Failure("OUTCOME_UNKNOWN", message + failed.message, failed.selector, details, circumstances=how)
    return TaskStop(failure, last.index, GiveUp())


async def _answer(run: Run, history: History) -> Any:
    """The agent's unchecked answer, or a TaskStop if the agent failed."""
    limit = asyncio.timeout(run.left)
    sight = _Sight(run, history, limit)
    try:
        async with limit:
            return await run.ports.agent.propose(run.plan_now, history, sight)
    except Failed as failed:
        if failed.failure.code == _INVALID:
            return _Refused(failed.failure)
        raise
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything; this is the one place
        if limit.expired():
            thinking = Failure("AGENT_TIMEOUT", f"agent `{run.agent}` was choosing the next step")
            raise Failed(task_timeout(run, thinking)) from None
        message = f"Agent `{run.agent}` failed: {type(error).__name__}: {error}"
        return TaskStop(Failure("AGENT_FAILED", message, cause=error), run.journal.under_way, GiveUp())
    finally:
        sight.close()


class _Refused(Struct, frozen=True):
    """A proposal that the agent itself found invalid: its model has said something that is no step."""

    failure: Failure


async def _allowed(run: Run, step: Step) -> Step:
    """The step, if the agent may do its act; the call of a tool with its effect, before which nothing is sent.

    Raises BadProposalError.
    """
    policy = run.ports.policy(run.plan_now)
    if why := act_refusal(policy, step.act):
        raise BadProposalError(why, "POLICY_ACT")
    if not isinstance(step, Tool):
        return step
    if why := tool_refusal(policy, step):
        raise BadProposalError(why, "POLICY_ACT")
    step = await _weighed(run, step)
    if why := await undeclared_call(run, step):
        raise BadProposalError(why, HELD_BACK)
    return with_evidence(run.plan, step) if step.effect_class == "write" else step


_BY_STRENGTH: tuple[EffectClass, ...] = ("read", "idempotent", "write")


async def _weighed(run: Run, step: Tool) -> Tool:
    """The step with the effect that holds for it: the agent's own `effect` may only raise it.

    The effect of a tool that cannot be learned is a write.
    """
    toolbox = run.stage.toolbox
    said: EffectClass = "write"
    if toolbox is not None:
        with contextlib.suppress(Failed):
            said = await toolbox.effect_of(step.model_copy(update={"effect": None}), min(run.limit(step), run.left))
    return step.model_copy(update={"effect": max(said, step.effect or said, key=_BY_STRENGTH.index)})


class _Sight:
    """The `observe` of one proposal (ports.Sight)."""

    def __init__(self, run: Run, history: History, limit: asyncio.Timeout | None = None) -> None:
        """`limit`: that of the proposal, by the task's time."""
        self._run, self._history, self._limit = run, history, limit
        self._suspended_at: float | None = None
        """The moment from which a suspension is still to be counted."""

    async def __call__(self, *, screenshot: bool = False) -> Observation:
        """Return the page within the time of a step. Raises Failed when the page cannot be read."""
        run = self._run
        own = run.plan.step_timeout * run.stretch
        within = min(own, run.left)
        tools = await _offered(run, within)
        try:
            seen = await run.seat.observe(within, screenshot=screenshot)
        except Failed as failed:
            if failed.failure.type == "timeout_step" and within < own:
                raise Failed(task_timeout(run, failed.failure)) from failed
            raise
        last = self._history[-1].attempts[-1:] if self._history else ()
        return replace(seen, last=last[0].outcome if last else None, left=_left(run), tools=tools)

    async def suspend(self) -> Resume:
        """Close the pages until the returned function is called (ports.Sight). Raises Failed."""
        run, began = self._run, self._run.ports.clock.now()
        self._end_within(None)  # it must not end while its pages are being closed
        try:
            saved = await suspend(run)
        except BaseException:
            self._end_within(run.left)
            raise
        self._suspended_at = began

        async def again() -> tuple[str, ...]:
            self.count_suspension()  # so that enough is left for what is asked on the way
            self._suspended_at = run.ports.clock.now()
            differences = await resume(run, saved)
            self.count_suspension(differences)
            self._suspended_at = None
            self._end_within(run.left)
            return differences

        return again

    def count_suspension(self, differences: tuple[str, ...] = ()) -> None:
        """Write down a suspension until now, also one that has no end: its seconds are not the task's."""
        if self._suspended_at is None:
            return
        journal, now = self._run.journal, self._run.ports.clock.now()
        journal.suspensions.append(Suspension(len(journal.history), now - self._suspended_at, differences))
        self._suspended_at = now

    def close(self) -> None:
        """The proposal is over, perhaps in a suspension."""
        self.count_suspension()
        self._suspended_at = self._limit = None

    def _end_within(self, seconds: float | None) -> None:
        """End the proposal after so many seconds; None: never."""
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(None if seconds is None else asyncio.get_running_loop().time() + seconds)


def _record(run: Run, proposal: Any, error: BadProposalError, *, number: int) -> StepRecord:
    """Make and emit the record of an invalid proposal; the agent sees it until it proposes a step.

    `number`: the count of successive invalid proposals.
    """
    index, started = run.journal.under_way, run.ports.clock.wall()
    step = cast("Step", Invalid(value=_describe_proposal(proposal)))
    what = "is not a step" if error.code == _INVALID else "it may not do"
    failure = Failure(error.code, f"Agent `{run.agent}` proposed something that {what}: {error}")
    attempt = Attempt(step, run.t, 0.0, started, failure)
    answers = (Answer(failure.family, Retry()),) if number < _INVALID_IN_A_ROW else ()
    record = StepRecord(index, step, (attempt,), answers=answers, agent=run.agent or "")
    run.journal.trace.append(record)
    run.ports.emit(StepStarted(run.plan, index, step, started))
    attempt_ended(run, index, step, attempt)
    proposal_refused(run, index, failure, number, _INVALID_IN_A_ROW)
    step_ended(run, record)
    return record


_LEARNING = 15.0
"""Seconds that the first look at the page waits for tools of servers, so that who is quicker changes no question."""


async def _offered(run: Run, within: float) -> tuple[OfferedTool, ...]:
    """The tools beside the page that the agent may call, as far as they are known now."""
    toolbox, policy = run.stage.toolbox, run.ports.policy(run.plan_now)
    if toolbox is None or not policy.tools:
        return ()
    await toolbox.learn(min(_LEARNING, within))
    return tuple(each for each in toolbox.offered() if policy.offers(each.server, each.tool.name))


def _left(run: Run) -> dict[str, float]:
    """What the task may still use, as an agent is told."""
    most = run.plan.spec.budget.max_steps or AGENT_STEPS
    return {"steps": max(0, most - run.journal.begun), "seconds": round(max(0.0, run.left)), **_of_models(run)}


def _of_models(run: Run) -> dict[str, float]:
    """What is left of the budget for models; a cost that is not known counts as nothing."""
    budget = run.plan.spec.budget
    limits = {"model calls": budget.max_model_calls, "tokens": budget.max_tokens, "US dollars": budget.max_cost}
    if not any(limits.values()):
        return {}
    calls = run.ports.model_calls(run.plan)
    tokens, cost = sum(call.usage.total for call in calls), sum(call.cost or 0.0 for call in calls)
    used = {"model calls": len(calls), "tokens": tokens, "US dollars": cost}
    return {name: round(max(0.0, most - used[name]), 4) for name, most in limits.items() if most is not None}


def is_stuck(history: list[StepRecord]) -> bool:
    """Return whether the last three steps were the same, of the same agent, and failed."""
    last = history[-3:]
    same = (record.step == last[0].step and record.agent == last[0].agent for record in last)
    return len(last) == 3 and all(same) and not any(record.passed for record in last)


# Converts a proposal of an agent to a step: it is checked like a step of a file, references are filled in.

_LONGEST_SHOWN = 300
_PLACE = "steps[0]"


class BadProposalError(ValueError):
    """An agent's proposal is no step, or none that it may do; the message says why."""

    def __init__(self, message: str, code: str = _INVALID) -> None:
        super().__init__(message)
        self.code = code


def step_of(proposal: Any, plan: Plan) -> Step:
    """Check a proposal and make it a step. It may refer to inputs, persona, memory, and the file's variables.

    Raises BadProposalError.
    """
    document = _document(proposal, plan)
    origin = Origin(_PLACE, Source(_PLACE, json.dumps(document), document, is_json=True))
    environ = {name: value for name, value in os.environ.items() if not value or value in plan.known_secrets}
    spec = _typed(document, origin)
    if foreign := [name for name in environment_names(spec) if name not in environ]:
        raise BadProposalError(f"the task does not use the variable {foreign[0]}, so its agents may not either")
    spec.inputs, spec.persona = escape_references(plan.spec.inputs), escape_references(plan.spec.persona)
    _refuse(check_spec(spec, origin, plan.folder, None, environ), plan)
    step = _fill_references(spec.steps[0], plan, environ)
    _refuse(check_steps((step,), origin, plan.folder, hiding(plan.secrets)), plan)
    return step


def _describe_proposal(proposal: Any) -> str:
    """A proposal as reports show it, shortened."""
    if isinstance(proposal, _Refused):
        return hidden(str(proposal.failure.details.get("proposal", "something")))[:_LONGEST_SHOWN]
    text = str(_plain(proposal)) if isinstance(proposal, BaseModel | Mapping) else repr(proposal)
    text = hidden(text)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def _document(proposal: Any, plan: Plan) -> dict[str, Any]:
    """A task document whose only step is the proposal."""
    if isinstance(proposal, _Refused):
        raise BadProposalError(proposal.failure.message)
    if not isinstance(proposal, BaseModel | Mapping):
        what = f"it is a {type(proposal).__name__}, not a step, a mapping with `act`, or None"
        raise BadProposalError(f"{what} ({_describe_proposal(proposal)})")
    document = {"task_id": plan.task_id, "steps": [_plain(proposal)]}
    try:
        return json.loads(json.dumps(document, allow_nan=False))  # type: ignore[no-any-return]
    except (TypeError, ValueError, RecursionError) as error:
        raise BadProposalError(f"it contains a value that JSON cannot represent: {error}") from None


def _plain(proposal: BaseModel | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(proposal, BaseModel):
        act = {"act": proposal.act} if hasattr(proposal, "act") else {}
        return {**act, **proposal.model_dump(exclude_unset=True, warnings=False)}
    return dict(proposal)


def _typed(document: dict[str, Any], origin: Origin) -> TaskSpec:
    try:
        return validated(document)
    except ValidationError as error:
        problems = (each for _, _, each in problems_of_error(error, document, origin))
        raise BadProposalError(_problem_lines(problems)) from None


def _fill_references(step: Step, plan: Plan, environ: Mapping[str, str]) -> Step:
    """Fill in references as for a step of the file: memory when it is done, and limits by `--task-timeout-scale`."""
    try:
        scope = ReferenceScope(plan.spec.inputs, plan.spec.persona, environ, generated=plan.generated)
        made = interpolate_step(step, scope)
        if unknown := [name for name in one_time_names(made) if plan.one_time is None or name not in plan.one_time]:
            raise BadReferenceError(str(Reference("totp", unknown[0])), "the file does not use this one-time password")
    except BadReferenceError as error:
        raise BadProposalError(hiding(plan.secrets)(str(error))) from None
    if made.timeout is None or plan.timeout_scale == 1:
        return made
    return made.model_copy(update={"timeout": made.timeout * plan.timeout_scale})


def _refuse(problems: Iterable[Problem], plan: Plan) -> None:
    if errors := [problem for problem in problems if problem.severity == "error"]:
        raise BadProposalError(hiding(plan.secrets)(_problem_lines(errors)))


def _problem_lines(problems: Iterable[Problem]) -> str:
    return "; ".join(map(_line, problems))


def _line(problem: Problem) -> str:
    place = problem.path.removeprefix(_PLACE).removeprefix(".")
    head = ": ".join(part for part in (place, problem.message) if part)
    more = (("expected", problem.expected), ("found", problem.found), ("", problem.hint))
    said = ", ".join(f"{name} {text}".strip() for name, text in more if text)
    return f"{head} ({said})" if said else head
