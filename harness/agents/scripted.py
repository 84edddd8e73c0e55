"""The agent that plays back the steps of the task's file."""

from __future__ import annotations

from harness.model.plan import Plan
from harness.model.ports import Observe
from harness.model.record import History
from harness.spec.steps import Step


class ScriptedAgent:
    """Proposes `steps[len(history)]`: rewinding is slicing the history (DESIGN 3)."""

    async def propose(self, plan: Plan, history: History, observe: Observe) -> Step | None:  # noqa: ARG002
        """The next step; None after the last. `history` holds only records of steps (index >= 0)."""
        place = len(history)
        return plan.steps[place] if place < len(plan.steps) else None
