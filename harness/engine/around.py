"""What is done around every task: the steps of `before_each` and of `after_each`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from harness.engine.attempt import StepRequest
from harness.engine.due import rest_of_group
from harness.engine.handle import handle
from harness.engine.run import RewindRequest, Run, StepTransition, TaskStop, overspent
from harness.engine.step import do_step
from harness.recovery import GiveUp
from harness.recovery.catalog import Family
from harness.recovery.failure import Failed, Failure
from harness.recovery.families import Suspect
from harness.spec.steps import Step
from harness.values import replace

AFTER_SECONDS = 60.0
"""The most seconds for `after_each`, also after a task whose time is over."""
_AT_ONCE = 10.0
"""The same after an interruption: a person waits for the end."""
_BEFORE = -1
_ITS_OWN = (Suspect.MACHINE, Suspect.PROJECT)
"""Where a failure belongs that says more about its cause than that it was in these steps."""


async def before_each(run: Run) -> StepTransition:
    """Do the steps before those of the task, once. A way back to before them ends the task: it is not set up."""
    if run.journal.prepared:
        return None
    run.journal.prepared = True
    turn = await _do(run, _BEFORE, run.plan.before_each, budgeted=True)
    return None if turn is None else _ended(run, "before_each", turn, _BEFORE)


async def after_each(run: Run, *, interrupted: bool) -> TaskStop | None:
    """Do the steps after those of the task, however it ended, within a time of their own. Returns why they failed."""
    if not (run.plan.after_each and run.journal.prepared):
        return None
    within = (_AT_ONCE if interrupted else AFTER_SECONDS) * max(1.0, run.plan.timeout_scale)
    index = max(run.journal.under_way + 1, len(run.plan.steps))
    more = run.ports.clock.now() + within - run.deadline.at
    try:
        turn = await _do(replace(run, more=more), index, run.plan.after_each, budgeted=False)
    except Failed as failed:
        turn = TaskStop(failed.failure, index, GiveUp())
    except Exception as error:  # noqa: BLE001 - a defect of ours must not take the evidence of the task along
        turn = TaskStop(Failure("INTERNAL_ERROR", f"{type(error).__name__}: {error}", cause=error), index, GiveUp())
    return None if turn is None else _ended(run, "after_each", turn, index)


async def _do(run: Run, index: int, steps: Sequence[Step], *, budgeted: bool) -> StepTransition:
    """Do steps that are not counted among those of the task, with the handlers before each."""
    left = list(steps)
    while left:
        if budgeted and (over := overspent(run, another=True)):
            return over
        step = left.pop(0)
        clear = partial(handle, run, index, step) if run.plan.handlers else None
        if clear and (turn := await clear()):
            return turn
        run.journal.begun += 1
        record, turn = await do_step(run, StepRequest(index, step, expect=run.plan.expect_timeout, clear=clear))
        others = rest_of_group(run, record, left)
        run.journal.trace += [record, *others.told]
        del left[: len(others.told) + len(others.unused)]
        if turn:
            return turn
    return None


def _ended(run: Run, key: str, turn: TaskStop | RewindRequest, index: int) -> TaskStop:
    """The end by a step of a hook. What is known about machine, project, browser or a write stays the cause."""
    failure, give_up = turn.failure, turn.give_up if isinstance(turn, TaskStop) else GiveUp()
    note = run.journal.trace[-1].step.note if run.journal.trace else None
    message = f"A step of `{note or key}` failed: {failure.message}"
    keeps_code = failure.code in ("OUTCOME_UNKNOWN", "BUDGET_EXCEEDED") or failure.family is Family.BROWSER
    details = {**failure.details, "hook": key}
    if keeps_code or failure.row.suspect in _ITS_OWN:
        return TaskStop(replace(failure, message=message, details=details), index, give_up)
    details["code"] = failure.code
    told = Failure("HOOK_FAILED", f"{message} ({failure.code})", failure.selector, details=details, cause=failure.cause)
    return TaskStop(told, index, give_up)
