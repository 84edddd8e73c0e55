"""Asking the agent for the next step; what goes wrong there is the agent's failure, never the site's."""

from __future__ import annotations

from harness.engine.run import Ending, Run
from harness.ports import Observation
from harness.record import StepRecord
from harness.spec.steps import Step


async def proposed(run: Run) -> Step | Ending | None:
    """The next step; None when there is no more to do."""
    history = tuple(run.journal.history)

    async def observe(*, screenshot: bool = False) -> Observation:
        return await run.stage.session.observe(run.left, screenshot=screenshot)

    return await run.ports.agent.propose(run.plan, history, observe)


def stuck(history: list[StepRecord]) -> bool:
    """Whether the last three steps were the same, and failed."""
    last = history[-3:]
    return len(last) == 3 and all(not record.passed and record.step == last[0].step for record in last)
