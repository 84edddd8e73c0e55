"""Why a write is not repeated (docs/design/never-twice.md): evidence first, then `done_when`, else it is not known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urldefrag

from harness.criteria import parse
from harness.criteria.syntax import PAGE_FUNCTIONS, Stable, Within, walk
from harness.engine.attempt import ASSERTION, StepState, judge, remember, resolved
from harness.engine.run import Checkpoint, Run, StepTransition, TaskStop
from harness.model.record import Sent, StepRecord, seen_writing, written_addresses
from harness.recovery import GiveUp
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure, Outcome, Passed
from harness.resilience import Deadline
from harness.spec.references import MissingMemory
from harness.spec.steps import Api, Check, Open, Select, Step, Type, Uncheck, Upload

UNCERTAIN = (408, 429)
"""Statuses that, as those from 500 on, do not say that nothing was done."""
_FILLS = (Type, Select, Check, Uncheck, Upload)
AGAIN = 0.5
"""Seconds between two questions to a channel that is away."""
SOON = 2.0
"""Seconds that a site has after a write has passed to show it: what a script sends may still be under way."""
LEAST = 1.0
"""Seconds that the question may take even when the task's time is over: a wrong answer would cost more."""


def posted(failure: Failure) -> bool:
    """Whether the act has sent a request that must not be sent twice."""
    return failure.effect is not Effect.NONE and failure.details.get("method", "GET") not in ("GET", "HEAD")


def collect(run: Run, progress: StepState, outcome: Outcome) -> None:
    """Note what has left the pages during an attempt. Where nothing was done, it follows from the act before."""
    opening = isinstance(progress.declared, Open)
    sent = run.stage.session.take_sent()
    run.journal.attribute(tuple(each for each in sent if each.before), opening=opening)
    sent = tuple(each for each in sent if not each.before)
    undone = isinstance(outcome, Failure) and outcome.effect is Effect.NONE and not _leaves_open(outcome)
    if progress.declared.looks_only or undone:
        run.journal.attribute(sent)
    else:
        progress.sent += sent
        run.journal.pass_on(progress.declared, sent)


def _untouched(step: Step, failure: Failure) -> bool:
    """Whether it is known that nothing was done: not sent, or refused in a way that says so."""
    if failure.details.get("status") in step.safe_statuses:
        return True
    return failure.effect is Effect.NONE and not (step.effect_class == "write" and _leaves_open(failure))


def _leaves_open(failure: Failure) -> bool:
    """An answer that came too late, too often or broken says nothing of what was done before it."""
    status = failure.details.get("status")
    if not isinstance(status, int) or failure.circumstances.opened_before:
        return False
    return status in UNCERTAIN or status >= 500


async def took_effect(run: Run, step: Step, failure: Failure, sent: Sequence[Sent] = ()) -> bool | None:
    """Whether a step that failed had already done its work; None when that cannot be known.

    What is not a `write`, and sent nothing, may be repeated: that counts as no effect.
    """
    if _untouched(step, failure):
        return False
    unseen = posted(failure) or seen_writing(step, sent)
    unknown = None if step.effect_class == "write" or unseen else False
    done = await is_done(run, step, unseen=unseen or isinstance(step, Api))
    return unknown if done is None else done


def denied(step: Step, failure: Failure, took: bool | None, sent: Sequence[Sent] = ()) -> bool:
    """Whether a write that may have had its effect is free to be done again only because `done_when` was false."""
    wrote = step.effect_class == "write" or posted(failure) or seen_writing(step, sent)
    return took is False and wrote and not _untouched(step, failure)


async def contradicted(run: Run, step: Step) -> bool:
    """Whether `done_when` denies a write that has just passed: what it says of a later failure would be wrong, too.

    Only one that could allow it to be done again is asked, and none that waits by itself for a site that is late.
    """
    until = Deadline.after(min(SOON, run.left), run.ports.clock.now())
    if step.effect_class != "write" or step.done_when is None:
        return False
    try:
        criterion = (await resolved(run, step, until)).done_when
        if criterion is None or not _asks_the_environment(criterion) or _waits(criterion):
            return False
        return isinstance(await judge(run, criterion, until, ASSERTION, expect=SOON), Failure)
    except (Failed, MissingMemory):
        return False


async def barred(run: Run, addresses: Iterable[str]) -> str | None:
    """Why one of these addresses must not be asked for again: a write has produced it, and may stand.

    Its `done_when` is asked, and says that it may when the write has its effect no more.
    """
    wanted = {urldefrag(address).url for address in addresses}
    made = written_addresses(run.journal.trace) if wanted else {}
    for url, record in made.items():
        if url in wanted and await is_done(run, record.step, unseen=True) is not False:
            doing = "a write" if record.step.effect_class == "write" else "which was seen to write"
            return f"{url} came of step {record.index} ({record.step.describe()}), {doing}: it is not asked for again"
    return None


async def refilled(run: Run, checkpoint: Checkpoint) -> str | None:
    """Why no field of the checkpoint's page must be filled again: a step that filled one was a write, and may stand."""
    for record in reversed(run.journal.history[: checkpoint.index]):
        if isinstance(record.step, Open) or any(each.page and each.arrived for each in record.sent):
            return None  # the fields before it were another page's
        wrote = isinstance(record.step, _FILLS) and record.may_have_written
        if wrote and await is_done(run, record.step, unseen=True) is not False:
            doing = f"step {record.index} ({record.step.describe()}), which fills one, is a write"
            return f"{doing}{seen(record)}: it is not done again"
    return None


async def is_done(run: Run, step: Step, *, unseen: bool) -> bool | None:
    """What `done_when` says; None when it cannot be read, or cannot know.

    `unseen`: the page and the memory are those of before the step, so a criterion that asks them cannot deny it.
    """
    try:
        until = _until(run, step)
        criterion = (await resolved(run, step, until)).done_when
        if criterion is None:
            return None
        done = await _answered(run, criterion, until)
    except (Failed, MissingMemory):
        return None
    return done if done or not unseen or _asks_the_environment(criterion) else None


async def _answered(run: Run, criterion: str, until: Deadline) -> bool:
    """Ask; again while a channel is away, since a site that has just died is started again. Raises Failed."""
    while True:
        try:
            return isinstance(await judge(run, criterion, until, ASSERTION), Passed)
        except Failed as failed:
            if failed.failure.code != "CHANNEL_UNREADABLE" or not until.allows(AGAIN, run.ports.clock.now()):
                raise
            await run.ports.clock.sleep(AGAIN)


def _waits(text: str) -> bool:
    return any(isinstance(node, Within | Stable) for node in walk(parse(text).tree))


def _asks_the_environment(text: str) -> bool:
    """Whether it reads channels, and no page."""
    criterion = parse(text)
    return bool(criterion.channels) and not criterion.looks_at_page


def seen(record: StepRecord) -> str:
    """By what a step of which its file says nothing was seen to write; empty for one that is a `write` by its file."""
    left = next((each for each in record.sent if each.unsafe), None)
    if record.step.effect_class == "write" or left is None:
        return ""
    return f" (it sent {left.method} {left.url}; `effect: idempotent` would say that it may be done twice)"


def doubt(step: Step, sent: Iterable[Sent] = ()) -> str:
    """Why nobody can tell whether a step took effect."""
    if step.done_when is None:
        left = next((each for each in sent if each.unsafe), None)
        return "it has no `done_when`" + (f", and sent {left.method} {left.url}" if left else "")
    if "json(" in step.done_when and not any(f"{name}(" in step.done_when for name in PAGE_FUNCTIONS):
        return "its `done_when` could not be read"
    return "its `done_when` asks the page or the memory, which are as before the step: ask a channel, with json(...)"


def _until(run: Run, step: Step) -> Deadline:
    return Deadline.after(max(LEAST, min(run.limit(step), run.left)), run.ports.clock.now())


async def settled(run: Run, progress: StepState) -> tuple[StepRecord, StepTransition]:
    """The record of a step that failed and had taken effect. What it is to remember is still to be had."""
    until = _until(run, progress.declared)
    step = await resolved(run, progress.declared, until)
    values = await remember(run, progress.index, step, until) if step.remember else {}
    if isinstance(values, Failure):
        return progress.record(), TaskStop(values, progress.index, GiveUp())
    return progress.record(done=True, remembered=values), None


async def done_before(run: Run, progress: StepState, earlier: StepRecord) -> tuple[StepRecord, StepTransition] | None:
    """The record of a write that was done before a rewind, when it stands; None when it is to be done again."""
    done = await is_done(run, progress.declared, unseen=True)
    if done is None:
        why = doubt(progress.declared)
        why += ", and no channel showed what it did, so that nothing was put back" if run.journal.unshown else ""
        message = f"Whether step {progress.index} still has its effect is not known, so it was not done again: {why}"
        failure = Failure("OUTCOME_UNKNOWN", message, progress.declared.target)
        return progress.record(), TaskStop(failure, progress.index, GiveUp())
    if not done:
        progress.repeated = True
        return None
    for key, value in earlier.remembered.items():
        run.stage.world.remember(key, value, f"{run.plan.task_id}#{progress.index}")
    await run.synchronize(_until(run, progress.declared))
    return progress.record(done=True, remembered=earlier.remembered), None
