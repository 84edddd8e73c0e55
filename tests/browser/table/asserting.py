"""The last step of a case, an `assert` too: those are the engine's, and read through the session."""

from __future__ import annotations

from typing import Any

from harness.browser import PlaywrightSession
from harness.engine.attempt import attempt
from harness.engine.run import Run, TaskJournal
from harness.model.ports import Stage as EngineStage
from harness.recovery.failure import Failure
from harness.resilience import SystemClock
from harness.values import replace
from tests.browser.stage import STEP, failed
from tests.unit.fakes import FakeInjector, FakeWorld, Theatre

Step = dict[str, Any]


async def last(session: PlaywrightSession, step: Step, within: float, patience: float) -> Failure:
    """Do the step; it must fail."""
    if step["act"] != "assert":
        return await failed(session, step, within, patience)
    outcome = await attempt(_run(session, step, within, patience), 0, STEP.validate_python(step), None)
    assert isinstance(outcome, Failure), outcome
    return outcome


def _run(session: PlaywrightSession, step: Step, within: float, patience: float) -> Run:
    """A task of this one step, on a real page and beside a world in memory."""
    theatre, clock = Theatre(), SystemClock()
    rule = {"strategy": "wait_and_retry", "wait_seconds": patience}
    plan = theatre.plan(steps=[step], step_timeout=within, error_recovery={"on_element_not_found": rule})
    stage = EngineStage(session, FakeWorld(), FakeInjector())
    return Run(plan, replace(theatre.ports(), clock=clock), stage, clock.now(), TaskJournal(), _nothing_inside)


async def _nothing_inside(plan: Any) -> Any:
    raise AssertionError(f"{plan.task_id} is not run inside of a case")
