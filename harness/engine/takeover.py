"""Another agent goes on with a task whose agent has failed (docs/decisions/025-takeover.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.engine.agent import unknown_outcome
from harness.engine.conditions import UNMET
from harness.engine.effects import barred_reason, stop_sending, taken_back
from harness.engine.events import agent_relieved
from harness.engine.remedies import nearest
from harness.engine.run import Checkpoint, RewindRequest, Run, StepTransition, TaskStop
from harness.engine.step import go_on
from harness.model.record import StepRecord, TakeOver
from harness.recovery import Rewind
from harness.recovery.failure import Failure
from harness.recovery.never_twice import Known, RepeatVerdict, RepeatWay, again
from harness.spec.agents import SCRIPTED
from harness.values import replace

LEAST_SECONDS = 10.0
"""The task's time that an agent needs at least: with less it is not begun."""
START = Rewind(to_start=True)


async def take_over(run: Run, ending: TaskStop) -> StepTransition:
    """What follows an ending: None, or a way back to the start, if another agent goes on; else the end of the task."""
    if run.plan.chain is None or ending.skipped or not _says_nothing_of_the_site(run, ending):
        return ending
    name = await run.ports.agent.relieve(run.plan_now, ending.failure)
    if name is None:
        return _exhausted(run, ending)
    if why := _cannot_begin(run):
        message = f"{ending.failure.message}; `{name}` was not begun, since {why}"
        return _exhausted(run, replace(ending, failure=replace(ending.failure, message=message)))
    return (
        await unknown_outcome(run)
        or await go_on(run, ending.index, ending.failure)
        or await _hand_over(run, ending, name)
    )


def _cannot_begin(run: Run) -> str:
    """Why no other agent may be asked; empty if one may. It would not see a write that the task has gone back over."""
    if run.left < LEAST_SECONDS:
        return f"the task has only {run.left:.0f}s left"
    gone = next((each for each in run.journal.unsure if each not in run.journal.history), None)
    if gone is None or again(RepeatWay.TAKEOVER, Known(gone.may_have_written)) is RepeatVerdict.AGAIN:
        return ""
    return f"step {gone.index} ({gone.step.describe()}), which the task has gone back over, may have written"


def _says_nothing_of_the_site(run: Run, ending: TaskStop) -> bool:
    """Return whether the agent failed, its last step did, or the criteria do not hold: not the site or a check."""
    last = run.journal.history[-1] if run.journal.history else None
    broke = last is not None and last.failure is not None and last.index == ending.index
    return ending.failure.row.relieves or broke or ending.failure.code == UNMET


async def _hand_over(run: Run, ending: TaskStop, name: str) -> StepTransition:
    checkpoint = _way_back(run, name)
    if checkpoint is not None:
        await stop_sending(run)
    refused = await _restart_refusal(run, checkpoint) if checkpoint else ""
    takeover = TakeOver(run.agent or SCRIPTED, name, ending.failure, ending.index, run.t, refused)
    run.journal.takeovers.append(takeover)
    run.journal.given_up.discard(ending.index)
    agent_relieved(run, takeover)
    if name == SCRIPTED and refused:
        why = f"The task's own steps were not executed: {refused}"
        return await take_over(run, replace(ending, failure=Failure("AGENT_UNAVAILABLE", why)))
    if ending.failure.code == UNMET:
        _show_unmet(run)
    return RewindRequest(ending.failure, ending.index, checkpoint, START) if checkpoint and not refused else None


def _way_back(run: Run, name: str) -> Checkpoint | None:
    """The state from which the agent begins anew; None if it goes on, or if nothing was done so far."""
    anew = run.plan.chain is not None and name in run.plan.chain.restarts
    return nearest(run, 0, START) if anew and run.journal.history else None


async def _restart_refusal(run: Run, checkpoint: Checkpoint) -> str:
    """Return why the task cannot begin anew; empty if it can.

    Another agent may do a write in another way, so that nobody would notice that it was done before: only an
    environment that is put back takes it back.
    """
    wrote = next((each for each in run.journal.history if _forbids(each, checkpoint)), None)
    if wrote is not None:
        environment = checkpoint.world.refused or "the environment cannot be restored"
        environment = "no checkpoint holds what a tool did" if checkpoint.world.whole else environment
        return f"step {wrote.index} may have written, and {environment}"
    return await barred_reason(run, checkpoint.page.addresses if checkpoint.page else ()) or ""


def _forbids(record: StepRecord, checkpoint: Checkpoint) -> bool:
    undone = taken_back(record, restored=checkpoint.world.whole)
    return again(RepeatWay.TAKEOVER, Known(record.may_have_written, undone=undone)) is not RepeatVerdict.AGAIN


def _show_unmet(run: Run) -> None:
    """Show the criterion that does not hold to the next agent, as the last record of its history."""
    unmet = (each for each in reversed(run.journal.trace) if each.failure and each.failure.code == UNMET)
    if record := next(unmet, None):
        run.journal.history.append(record)


def _exhausted(run: Run, ending: TaskStop) -> TaskStop:
    """The end after the last agent has failed: it names each of them. Any other end is as it was."""
    if not (ending.failure.row.relieves and run.journal.takeovers):
        return ending
    tried = list(_tried(run, ending))
    said = ", ".join(f"`{each['agent']}` at step {each['step_index']} ({each['code']})" for each in tried)
    message = f"Every agent failed: {said}. First: {tried[0]['message']}. Last: {ending.failure.message}"
    failure = Failure("AGENTS_EXHAUSTED", message, details={"tried": tried}, cause=ending.failure.cause)
    return replace(ending, failure=failure)


def _tried(run: Run, ending: TaskStop) -> Iterator[dict[str, Any]]:
    last = TakeOver(run.agent or SCRIPTED, "", ending.failure, ending.index)
    for each in (*run.journal.takeovers, last):
        failure = each.failure
        yield {"agent": each.before, "code": failure.code, "message": failure.message, "step_index": each.index}
