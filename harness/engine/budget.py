"""What a task may use up (DESIGN 4.4). `max_seconds` is part of the deadline, `max_retries` of the permission."""

from __future__ import annotations

from harness.engine.run import Ending, Run
from harness.recovery import GiveUp
from harness.recovery.failure import Failure


def overspent(run: Run, *, another: bool) -> Ending | None:
    """The ending, when `another` step would go over `max_steps`, or the requests are over `max_requests`."""
    budget, index = run.plan.spec.budget, run.journal.under_way
    most = budget.max_steps
    if most is None and run.plan.agent is not None:
        most = AGENT_STEPS
    if another and most is not None and run.journal.begun >= most:
        return _ended(f"Budget exceeded: max_steps {most}", index)
    sent = run.stage.session.requests
    if budget.max_requests is not None and sent > budget.max_requests:
        return _ended(f"Budget exceeded: max_requests {budget.max_requests} ({sent} were sent)", index)
    return None


AGENT_STEPS = 30
"""Steps of an agent whose task has no `max_steps` (issue 3, 12)."""


def _ended(message: str, index: int) -> Ending:
    return Ending(Failure("BUDGET_EXCEEDED", message), index, GiveUp("aborted"))
