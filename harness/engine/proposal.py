"""Asking the agent for the next step; what goes wrong there is the agent's failure, never the site's."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, ClassVar, Literal, cast

from harness.engine.attempt import task_timeout
from harness.engine.effects import took_effect
from harness.engine.proposed_step import BadProposalError, described, step_of
from harness.engine.run import Ending, Run
from harness.model.events import AttemptEnded, StepEnded, StepStarted
from harness.model.ports import Observation
from harness.model.record import Answer, Attempt, History, StepRecord
from harness.recovery import GiveUp, Retry
from harness.recovery.failure import Failed, Failure
from harness.spec.steps import EffectClass, Step, StepBase

INVALID_IN_A_ROW = 3
"""So many proposals that are no step end the task; of those before, the agent is told."""


class Invalid(StepBase):
    """Stands in the history for a proposal that is no step: nothing was done."""

    usual_effect: ClassVar[EffectClass] = "read"

    act: Literal["invalid"] = "invalid"
    value: str

    def describe(self) -> str:
        return f"invalid {self.value}"


class Looking(StepBase):
    """Stands in the trace for a look at the page that failed."""

    usual_effect: ClassVar[EffectClass] = "read"

    act: Literal["observe"] = "observe"


def looking() -> Step:
    """A look at the page, as a step of the trace."""
    return cast("Step", Looking())


async def proposed(run: Run) -> Step | Ending | None:
    """The next step; None when there is no more to do.

    Raises Failed when the agent could not be made, when its time or the task's ran out, and when the page could not be
    looked at and the agent did not get over that.
    """
    if run.plan.agent is None:
        return await run.ports.agent.propose(run.plan, tuple(run.journal.history), _Sight(run, ()))
    if ending := await _unknown(run):
        return ending
    refused: History = ()
    while True:
        answer = await _answer(run, (*run.journal.history, *refused))
        if answer is None or isinstance(answer, Ending):
            return answer
        try:
            return step_of(answer, run.plan)
        except BadProposalError as error:
            record = _record(run, answer, error, asks_again=len(refused) + 1 < INVALID_IN_A_ROW)
        refused = (*refused, record)
        if len(refused) == INVALID_IN_A_ROW and record.failure:
            return Ending(record.failure, record.index, GiveUp())


async def _unknown(run: Run) -> Ending | None:
    """A write may not be done twice, and an agent that sees it failed would (DESIGN 4.2)."""
    last = run.journal.history[-1] if run.journal.history else None
    if last is None or last.failure is None or await took_effect(run, last.step, last.failure, last.sent) is not None:
        return None
    message = f"Whether step {last.index} took effect is not known, so the agent was not asked on: "
    details = {**last.failure.details, "last_code": last.failure.code}
    failure = Failure("OUTCOME_UNKNOWN", message + last.failure.message, last.failure.selector, details)
    return Ending(failure, last.index, GiveUp())


async def _answer(run: Run, history: History) -> Any:
    """What the agent says, unchecked; the Ending when it failed."""
    limit = asyncio.timeout(run.left)
    try:
        async with limit:
            return await run.ports.agent.propose(run.plan, history, _Sight(run, history))
    except Failed:
        raise
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything; this is the one place
        if limit.expired():
            raise Failed(task_timeout(run, _thinking(run))) from None
        message = f"Agent `{run.plan.agent}` failed: {type(error).__name__}: {error}"
        return Ending(Failure("AGENT_FAILED", message, cause=error), run.journal.under_way, GiveUp())


def _thinking(run: Run) -> Failure:
    return Failure("AGENT_TIMEOUT", f"agent `{run.plan.agent}` was choosing the next step")


class _Sight:
    """`observe` for one proposal (ports.Observe)."""

    def __init__(self, run: Run, history: History) -> None:
        self._run = run
        self._history = history

    async def __call__(self, *, screenshot: bool = False) -> Observation:
        """Bounded like a step. Raises Failed when the page cannot be looked at."""
        run = self._run
        own = run.plan.step_timeout * run.stretch
        within = min(own, run.left)
        try:
            seen = await run.stage.session.observe(within, screenshot=screenshot)
        except Failed as failed:
            if failed.failure.type == "timeout_step" and within < own:
                raise Failed(task_timeout(run, failed.failure)) from failed
            raise
        last = self._history[-1].attempts[-1:] if self._history else ()
        return replace(seen, last=last[0].outcome if last else None)


def _record(run: Run, proposal: Any, error: BadProposalError, *, asks_again: bool) -> StepRecord:
    """For the trace; the agent sees it until it proposes a step."""
    index, started = run.journal.under_way, run.ports.clock.wall()
    step = cast("Step", Invalid(value=described(proposal)))
    failure = Failure("AGENT_INVALID_STEP", f"Agent `{run.plan.agent}` proposed what is no step: {error}")
    attempt = Attempt(step, run.t, 0.0, started, failure)
    answers = (Answer(failure.family, Retry()),) if asks_again else ()
    record = StepRecord(index, step, (attempt,), answers=answers)
    run.journal.trace.append(record)
    for event in (
        StepStarted(run.plan, index, step, started),
        AttemptEnded(run.plan, index, attempt),
        StepEnded(run.plan, record),
    ):
        run.ports.emit(event)
    return record


def stuck(history: list[StepRecord]) -> bool:
    """Whether the last three steps were the same, and failed."""
    last = history[-3:]
    return len(last) == 3 and all(not record.passed and record.step == last[0].step for record in last)
