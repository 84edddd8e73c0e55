"""Takes checkpoints before the steps that the task names, goes back to them, and verifies the result."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from harness.engine.attempt import task_timeout
from harness.engine.effects import barred_reason, refill_refusal, stop_sending, taken_back, unanswered
from harness.engine.remedies import for_good, with_stretched_limits
from harness.engine.run import Checkpoint, RewindRequest, Run, TaskStop, counts
from harness.model.ports import Saved, WorldCheckpoint
from harness.model.record import Rewound
from harness.recovery import GiveUp
from harness.recovery.catalog import Family, Scope
from harness.recovery.failure import Failed, Failure
from harness.values import replace

_RESTORE_SECONDS = 10.0
_RESTORE_STEPS = 2
"""Going back takes at most `_RESTORE_SECONDS` and the time of so many steps: it needs a browser and a few pages."""
SITE_TRIES, SITE_PAUSE = 3, 1.0
"""How many times a site is asked again on the way back if it does not answer, and the seconds between."""
_LEAST_SECONDS = 0.5
"""Seconds that going back gets for a new page even when the limits are nearly over."""


def at_the_start(run: Run) -> Checkpoint:
    """The checkpoint that a new browser can always go back to: no pages, the initial memory, no environment."""
    return Checkpoint(0, None, WorldCheckpoint(run.stage.world.entries(), {}, whole=False))


async def save_first_checkpoint(run: Run) -> None:
    """Save the state after the preconditions hold, with all that repairs set up: a new browser goes back to it."""
    journal = run.journal
    if not any(record.extra_attempts for record in journal.trace):
        return
    journal.start = at_the_start(run)
    with suppress(Failed):  # the memory is useful alone
        page = await run.stage.session.save(_time_to_save(run))
        journal.start = replace(journal.start, page=page)


async def checkpoint(run: Run, index: int) -> None:
    """Take the checkpoint that the task declares before this step; a failure to do so is reported at the end."""
    journal = run.journal
    if index not in run.plan.spec.checkpoints or index in journal.checkpoints:
        return
    try:
        async with asyncio.timeout(max(_LEAST_SECONDS, _time_to_save(run))):
            page = await run.stage.session.save(_time_to_save(run))
            journal.checkpoints[index] = Checkpoint(index, page, await run.stage.world.save())
            journal.unsaved.pop(index, None)  # saving it failed the first time
    except Failed as failed:
        journal.unsaved[index] = failed.failure.message
    except TimeoutError:
        journal.unsaved[index] = "the environment did not answer in time"


async def rewind(run: Run, back: RewindRequest) -> tuple[Run, TaskStop | None]:
    """Go back to the checkpoint with stretched limits; returns a TaskStop if no page could be opened there."""
    run, journal = with_stretched_limits(run, back.remedy), run.journal
    await stop_sending(run)
    tries = 0
    while isinstance(differences := await _restore_checkpoint(run, back), Failure):
        tries += 1
        if ending := _no_further(run, back, differences, tries):
            return run, ending
        if differences.family is Family.BROWSER and differences.scope is not Scope.PAGE:
            back = replace(back, remedy=replace(back.remedy, restart=True))
        await run.ports.clock.sleep(SITE_PAUSE if differences.family is Family.NETWORK else 0)
    last = journal.trace[-1]
    why = "" if last.failure else back.failure.message
    rewound = Rewound(back.checkpoint.index, differences, back.remedy.restart, back.remedy.stretch, why)
    journal.trace[-1] = replace(last, rewound=rewound)
    return run, None


def _no_further(run: Run, back: RewindRequest, failure: Failure, tries: int) -> TaskStop | None:
    """Return the end of the task after a failure on the way back, or None if it is to be tried again.

    It is tried again if page or browser were lost once more, or if a site did not answer, which may be restarting.
    """
    again = failure.family is Family.BROWSER or (failure.retryable and tries <= SITE_TRIES)
    if failure.family is Family.BROWSER and counts(failure):
        run.journal.lost_on_the_way.append(run.t)
        permanent = for_good(run)
        failure, again = replace(failure, message=f"{failure.message}{permanent}"), not permanent
    return None if again and run.left > 0 else TaskStop(_rewind_failed(run, back, failure), back.index, GiveUp())


def _rewind_failed(run: Run, back: RewindRequest, failure: Failure) -> Failure:
    """The failure of the way back, with the failure that caused it."""
    if run.left <= 0:
        failure = task_timeout(run, failure)
    where = f"the checkpoint before step {back.checkpoint.index}" if back.checkpoint.page else "the start"
    message = f"{failure.message}; this happened on the way back to {where}, after: {back.failure.message}"
    return replace(failure, message=message, details={**failure.details, "back_after": back.failure.code})


async def _restore_checkpoint(run: Run, back: RewindRequest) -> tuple[str, ...] | Failure:
    """Restore the checkpoint; returns the differences from what was saved."""
    saved, journal = back.checkpoint, run.journal
    try:
        async with asyncio.timeout(max(_LEAST_SECONDS, run.left)):
            shown = saved.world.whole and await run.stage.world.has_changed(saved.world)
            state = await run.stage.world.restore(saved.world)
    except Failed as failed:
        return failed.failure
    except TimeoutError as error:
        return Failure("CHANNEL_UNREADABLE", "The environment was not restored in time", cause=error)
    filling = await refill_refusal(run, saved)
    within = max(_LEAST_SECONDS, min(run.left, _time_to_restore(run)))
    page = await run.stage.session.restore(saved.page, within, restart=back.remedy.restart, barred=filling)
    if isinstance(page, Failure):
        return page
    journal.attribute(run.stage.session.take_sent())  # the last that the old pages sent: an open WebSocket is not held
    undone = saved.world.whole and not state
    last = [each for each in journal.trace[-1:] if each.failure and unanswered(each.step, each.sent, each.failure)]
    abandoned = [*journal.set_up, *(record for record in journal.history if record.index >= saved.index), *last]
    certain = undone and shown
    earlier = [each for each in journal.unsure if each.index < saved.index or not taken_back(each, restored=certain)]
    written = [record for record in abandoned if record.may_have_written]
    alone = len(written) == 1
    writes = [each for each in written if not taken_back(each, restored=undone, shown=shown, alone=alone)]
    journal.unshown = undone and not shown
    journal.unsure = [*earlier, *writes]
    if not journal.admitted:
        journal.repaired.clear()
        journal.prepared = False
    journal.history = [record for record in journal.history if record.index < saved.index]
    journal.checkpoints = {number: each for number, each in journal.checkpoints.items() if number <= saved.index}
    return (*state, *page)


# A task that is suspended: its pages are closed, and its time stands still.


async def suspend(run: Run) -> Saved:
    """Save the browser's session, and leave an empty browser. Raises Failed if that is impossible."""
    await stop_sending(run)
    try:
        saved = await run.stage.session.save(_time_to_save(run))
    except Failed:
        await run.stage.session.release()
        raise
    emptied = await run.stage.session.restore(None, _time_to_restore(run), restart=False)
    if isinstance(emptied, Failure):
        raise Failed(emptied)
    return saved


async def resume(run: Run, saved: Saved) -> tuple[str, ...]:
    """Open the saved pages again; returns the differences that remain. Raises Failed if they cannot be opened.

    If a write produced one of them, none is opened: the agent sees an empty page, and why.
    """
    if barred := await barred_reason(run, saved.addresses):
        return (f"no page was opened again: {barred}",)
    filling = await refill_refusal(run, Checkpoint(len(run.journal.history), saved, at_the_start(run).world))
    pages = await run.stage.session.restore(saved, _time_to_restore(run), restart=False, barred=filling)
    if isinstance(pages, Failure):
        if filling is None or pages.code != "OUTCOME_UNKNOWN":
            raise Failed(pages)
        pages = (pages.message,)  # they are open: the agent sees what is not filled
    if not saved.posted:
        return pages
    return (
        *pages,
        f"{saved.url} was the answer to a form that was sent; it was opened anew, and may show another page",
    )


def _time_to_save(run: Run) -> float:
    """A page may have much to read: it gets what a step gets."""
    return min(run.plan.step_timeout * run.stretch, run.left)


def _time_to_restore(run: Run) -> float:
    """Seconds for a restore, whatever is left of the task."""
    return _RESTORE_SECONDS + _RESTORE_STEPS * run.plan.step_timeout * run.stretch
