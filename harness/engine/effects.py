"""A `write` is never done twice (DESIGN 4.2): evidence first, then `done_when`, else it is not known."""

from __future__ import annotations

from harness.criteria import parse
from harness.criteria.syntax import Read, walk
from harness.criteria.vocabulary import PAGE_FUNCTIONS
from harness.engine.attempt import ASSERTION, judge, remember
from harness.engine.progress import Progress
from harness.engine.run import Ending, Run, Turn
from harness.failure import Effect, Failed, Failure, Passed
from harness.record import StepRecord
from harness.recovery import GiveUp
from harness.resilience import Deadline
from harness.spec.interpolate import MissingMemory, resolve
from harness.spec.steps import Api, Step

AGAIN = 0.5
"""Seconds between two questions to a channel that is away."""
LEAST = 1.0
"""Seconds that the question may take even when the task's time is over: a wrong answer would cost more."""


def posted(failure: Failure) -> bool:
    """Whether the act has sent a request that must not be sent twice."""
    return failure.effect is not Effect.NONE and failure.details.get("method", "GET") not in ("GET", "HEAD")


async def took_effect(run: Run, step: Step, failure: Failure) -> bool | None:
    """Whether a step that failed had already done its work; None when that cannot be known.

    What is not a `write`, and sent nothing, may be repeated: that counts as no effect.
    """
    if failure.effect is Effect.NONE:
        return False
    unknown = None if step.effect_class == "write" or posted(failure) else False
    done = await is_done(run, step, unseen=posted(failure) or isinstance(step, Api))
    return unknown if done is None else done


async def is_done(run: Run, step: Step, *, unseen: bool) -> bool | None:
    """What `done_when` says; None when it cannot be read, or cannot know.

    `unseen`: the page and the memory are those of before the step, so a criterion that asks them cannot deny it.
    """
    try:
        criterion = resolve(step, run.stage.world.memory).done_when
        if criterion is None:
            return None
        done = await _answered(run, criterion, _until(run, step))
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


def _asks_the_environment(text: str) -> bool:
    """Whether it reads channels, and no page."""
    read = {node.function for node in walk(parse(text).tree) if isinstance(node, Read)}
    return "json" in read and not read & PAGE_FUNCTIONS


def doubt(step: Step) -> str:
    """Why nobody can tell whether a step took effect."""
    if step.done_when is None:
        return "it has no `done_when`"
    if "json(" in step.done_when and not any(f"{name}(" in step.done_when for name in PAGE_FUNCTIONS):
        return "its `done_when` could not be read"
    return "its `done_when` asks the page or the memory, which are as before the step: ask a channel, with json(...)"


def _until(run: Run, step: Step) -> Deadline:
    return Deadline.after(max(LEAST, min(run.limit(step), run.left)), run.ports.clock.now())


async def settled(run: Run, progress: Progress) -> tuple[StepRecord, Turn]:
    """The record of a step that failed and had taken effect. What it is to remember is still to be had."""
    step = resolve(progress.declared, run.stage.world.memory)
    values = await remember(run, progress.index, step, _until(run, step)) if step.remember else {}
    if isinstance(values, Failure):
        return progress.record(), Ending(values, progress.index, GiveUp())
    return progress.record(done=True, remembered=values), None


async def done_before(run: Run, progress: Progress, earlier: StepRecord) -> tuple[StepRecord, Turn] | None:
    """Of a write that was done before a rewind: its record when it stands, None when it is to be done again."""
    done = await is_done(run, progress.declared, unseen=True)
    if done is None:
        why = doubt(progress.declared)
        message = f"Whether step {progress.index} still has its effect is not known, so it was not done again: {why}"
        failure = Failure("OUTCOME_UNKNOWN", message, progress.declared.target)
        return progress.record(), Ending(failure, progress.index, GiveUp())
    if not done:
        return None
    for key, value in earlier.remembered.items():
        run.stage.world.remember(key, value, f"{run.plan.task_id}#{progress.index}")
    return progress.record(done=True, remembered=earlier.remembered), None
