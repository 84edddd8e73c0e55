"""Which agent goes on after a failure, and the agent that is a person."""

from __future__ import annotations

from harness.model.plan import Plan
from harness.model.ports import Ask, Observe
from harness.model.record import History
from harness.recovery.catalog import Family
from harness.recovery.failure import Failed, Failure
from harness.spec.agents import MANUAL
from harness.spec.steps import Step

_UNMET = "CRITERIA_UNMET"
_BREAKS = frozenset({Family.ELEMENT, Family.AMBIGUOUS, Family.ACTION})
"""Failures of a step that another step may avoid, since the page is not as the file expects it."""
_BREAKS_TOO = frozenset({"STEP_TIMEOUT", "INVALID_INPUT", "MEMORY_MISSING"})


def successor(plan: Plan, failure: Failure) -> str | None:
    """The agent that goes on after this failure of the plan's agent; None: there is none, or it ends the task."""
    return plan.chain.after(plan.agent) if plan.chain is not None and _relieves(plan, failure) else None


def _relieves(plan: Plan, failure: Failure) -> bool:
    if failure.row.relieves:
        return True
    if plan.agent is None and not plan.heal:
        return False
    if failure.code == _UNMET:
        return plan.chain is not None and plan.chain.if_unmet
    return plan.agent is None and (failure.family in _BREAKS or failure.code in _BREAKS_TOO)


DONE, ABORT = "done", "abort"


class ManualAgent:
    """A person at the terminal, who ends the task in its browser window."""

    def __init__(self, ask: Ask | None) -> None:
        self._ask = ask

    async def propose(self, plan: Plan, history: History, observe: Observe) -> Step | None:
        """None when the person has done the task. Raises Failed if there is nobody, or if the person gives up."""
        answer = await self._ask(await _question(plan, history, observe), (DONE, ABORT)) if self._ask else None
        if answer is None:
            message = f"Agent `{MANUAL}`: nobody at a terminal took the task over"
            advice = "Run the task at a terminal, with `--task-headed` and without `-n`, or leave `manual` out."
            raise Failed(Failure("AGENT_UNAVAILABLE", message, details={"agent": MANUAL}, advice=advice))
        if answer == ABORT:
            raise Failed(Failure("AGENT_GAVE_UP", f"Agent `{MANUAL}`: the person at the terminal ended the task"))
        return None


async def _question(plan: Plan, history: History, observe: Observe) -> str:
    seen = await observe()
    failure = history[-1].failure if history else None
    last = f" The last step failed: {failure.message}." if failure else ""
    goal = f" Goal: {plan.spec.goal}." if plan.spec.goal else ""
    where = f"{plan.task_id}: no other agent goes on; the page is {seen.url} (a window needs `--task-headed`)."
    return f"{where}{goal}{last} Do the rest by hand, then answer."
