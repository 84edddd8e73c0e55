"""Success criteria, once, at the end (DESIGN 4.4)."""

from __future__ import annotations

from dataclasses import replace

from harness.engine.attempt import attempt
from harness.engine.progress import Errand
from harness.engine.run import Ending, Run, Turn
from harness.engine.step import do_step
from harness.failure import Failure, Passed
from harness.spec.steps import Assert

UNMET = "CRITERIA_UNMET"


async def success(run: Run) -> Turn:
    """Look at each; after the first that fails, the others are only looked at, and the relaxed ones may do instead."""
    index = run.journal.under_way
    criteria = [Assert(expr=str(criterion)) for criterion in run.plan.success_criteria]
    for number, step in enumerate(criteria):
        record, turn = await do_step(run, Errand(index, step, UNMET))
        run.journal.trace.append(record)
        if isinstance(turn, Ending) and turn.failure.code == UNMET:
            ending = await _with_the_others(run, turn, criteria[number + 1 :])
            return None if await _relaxed(run, ending.failure) else ending
        if turn:
            return turn
    return None


async def _with_the_others(run: Run, ending: Ending, rest: list[Assert]) -> Ending:
    """All criteria that do not hold belong into one report."""
    outcomes = [await attempt(run, ending.index, step, None, UNMET) for step in rest]
    others = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    if not others:
        return ending
    failure, messages = ending.failure, [other.message for other in others]
    criteria = [other.details.get("criterion") for other in others]
    details = {
        **failure.details,
        "also_unmet": messages,
        "unmet_criteria": [failure.details.get("criterion"), *criteria],
    }
    return replace(ending, failure=replace(failure, message="; ".join([failure.message, *messages]), details=details))


async def _relaxed(run: Run, failure: Failure) -> bool:
    """`fallback_plan: relaxed_success_criteria` (specs/003 2.1): whether all of them hold."""
    for criterion in run.plan.relaxed:
        step = Assert(expr=str(criterion))
        if not isinstance(await attempt(run, run.journal.under_way, step, None, UNMET), Passed):
            return False
    run.journal.relaxed = failure if run.plan.relaxed else None
    return bool(run.plan.relaxed)
