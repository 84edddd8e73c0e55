"""Runs one task from start to end: preconditions, steps, success criteria, evidence, report."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from harness.engine.agent import is_stuck, looking, next_proposal, unknown_outcome
from harness.engine.attempt import StepRequest, StepState
from harness.engine.checkpoints import at_the_start, checkpoint, rewind
from harness.engine.conditions import UNMET, consistent, preconditions, success, with_others
from harness.engine.due import rest_of_group
from harness.engine.effects import barred_reason, observed_write, once_more, stop_sending, taken_back
from harness.engine.events import agent_relieved
from harness.engine.handle import handle
from harness.engine.remedies import is_unsure, nearest
from harness.engine.result import TaskRun, close_task
from harness.engine.run import Checkpoint, RewindRequest, Run, StepTransition, Suspension, TaskStop, overspent
from harness.engine.step import do_step, go_on, handle_loss, skippable
from harness.masking import secrets_of
from harness.model.events import Event, TaskStarted, WriteSeen
from harness.model.outcome import shortcomings
from harness.model.plan import Plan
from harness.model.ports import LeftOut, Ports, Stage
from harness.model.record import StepRecord, TakeOver, TaskResult
from harness.recovery import GiveUp, Rewind
from harness.recovery.catalog import Family
from harness.recovery.failure import Failed, Failure
from harness.recovery.never_twice import Known, RepeatVerdict, RepeatWay, again
from harness.spec.agents import SCRIPTED
from harness.spec.names import slug
from harness.spec.steps import Step
from harness.task_secrets import learn_named, masking
from harness.values import replace

_MENDABLE = ("INVALID_INPUT", "MEMORY_MISSING", "AGENT_STALE_REF", "POLICY_WRITE")
"""Failures that an agent can avoid with another step, although in a file only its author can."""


async def run_task(plan: Plan, ports: Ports, written: Sequence[StepRecord] = ()) -> TaskResult:
    """Run a task to its end. Cancellation ends it as `aborted`, with its report, and the result says so.

    `written`: writes that stand already, which the task may be about to do again.
    """
    with masking(lambda text: secrets_of(frozenset(plan.all_secrets)).mask(text), plan.learned):
        learn_named((plan.spec.inputs, plan.spec.persona))
        folder, unready = _scratch(plan, ports)
        played = TaskRun(plan, ports, folder, ports.clock.wall(), ports.clock.now(), unready)
        played.journal.unsure = list(written)
        ports.emit(TaskStarted(plan, played.started))
        played.run, played.ending = await _play(played)
        played.alternative = await _alternative(played)
        return await _shield_from_interruption(close_task(played))


def _scratch(plan: Plan, ports: Ports) -> tuple[Path, Failure | None]:
    """Make a folder for the task's files; if that fails, return a path that does not exist, and the failure."""
    try:
        return ports.archive.scratch(plan), None
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        message = f"No folder for the task's files could be made: {error.strerror or error}{where}"
        return plan.folder / ".no-scratch-folder", Failure("ARTIFACTS_UNWRITABLE", message, cause=error)


async def _shield_from_interruption(closing: Coroutine[Any, Any, TaskResult]) -> TaskResult:
    """Await bounded work that an interruption must not cut off: half an artifact directory helps nobody."""
    task = asyncio.ensure_future(closing)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if (current := asyncio.current_task()) is not None:
                current.uncancel()
    return task.result()


async def _play(played: TaskRun) -> tuple[Run | None, TaskStop | None]:
    """Return the run, if its stage could be opened, and the early end of the task, if any."""
    plan, ports, journal = played.plan, played.ports, played.journal
    run: Run | None = None
    try:
        run = Run(plan, ports, await _open_stage(played), played.began, journal, partial(_run_subtask, played))
        run.stage.injector.begin(played.began)
        await run.stage.world.begin()
        return run, await _perform(run)
    except Failed as failed:
        give_up = next(plan.rulebook.remedies(failed.failure, ports.random), GiveUp())
        ended = give_up if isinstance(give_up, GiveUp) else GiveUp()
        return run, TaskStop(failed.failure, journal.under_way, ended)
    except LeftOut as left:
        why = Failure("PRECONDITION_NOT_MET", str(left))
        return run, TaskStop(why, journal.under_way, GiveUp("aborted"), skipped=True)
    except asyncio.CancelledError as cancelled:
        if task := asyncio.current_task():
            task.uncancel()
        failure = Failure("INTERRUPTED", "The run was interrupted")
        if cancelled.args:
            told = f"Another plugin of pytest ended the task: {cancelled.args[0]}"
            failure = Failure("TASK_TIMEOUT", told, advice="Raise that plugin's limit, or see where the time went.")
        return run, TaskStop(failure, journal.under_way, GiveUp("aborted"))
    except Exception as error:  # noqa: BLE001 - a defect of ours must not take the other tasks along
        failure = Failure("INTERNAL_ERROR", f"{type(error).__name__}: {error}", cause=error)
        return run, TaskStop(failure, journal.under_way, GiveUp())


async def _open_stage(played: TaskRun) -> Stage:
    """Open the stage within the task's own limit. Raises Failed."""
    plan = played.plan
    if played.unready is not None:
        raise Failed(played.unready)
    try:
        async with asyncio.timeout(plan.timeout):
            return await played.ports.stage(plan, played.folder)
    except TimeoutError as error:
        message = f"The browser was not ready within {plan.timeout:g}s"
        raise Failed(Failure("TASK_TIMEOUT", message, cause=error)) from error


async def _perform(run: Run) -> TaskStop | None:
    """Run everything from the first precondition to the last criterion, with all rewinds that the rules allow."""
    run.journal.start = at_the_start(run)
    while True:
        turn = await _onward(run)
        if isinstance(turn, TaskStop):
            turn = await take_over(run, turn)
            if turn is None:
                continue
        if not isinstance(turn, RewindRequest):
            return _with_soft(run, turn or _missing_at_the_end(run))
        run, ending = await rewind(run, turn)
        if ending:
            return _with_soft(run, ending)


def _with_soft(run: Run, ending: TaskStop | None) -> TaskStop | None:
    """The end of the task with all soft assertions that failed; the first of them is the end if nothing else failed."""
    soft = [stop for index, stop in sorted(run.journal.soft.items()) if index < len(run.journal.history)]
    if ending is None:
        ending, soft = (soft[0], soft[1:]) if soft else (None, [])
    if ending is None or ending.skipped or not soft:
        return ending
    messages = [f"at step {stop.index}: {stop.failure.message}" for stop in soft]
    return replace(ending, failure=with_others(ending.failure, messages))


async def _onward(run: Run) -> StepTransition:
    """Run everything that is still to be done, from the present end of the history."""
    return (
        await preconditions(run)
        or await _steps(run)
        or await consistent(run, run.journal.under_way, None)
        or await success(run)
    )


async def _steps(run: Run) -> StepTransition:
    journal = run.journal
    while True:
        index = journal.under_way = len(journal.history)
        step = await _next_step(run, index)
        if isinstance(step, TaskStop | RewindRequest):
            return step
        if ending := overspent(run, another=step is not None):
            return ending
        if step is None:
            unmet = await _missing_dialog(run) if run.agent is None else None
            return TaskStop(unmet, max(0, index - 1), GiveUp()) if unmet else None
        await checkpoint(run, index)
        if turn := await _do_one(run, index, step):
            return turn


async def _missing_dialog(run: Run) -> Failure | None:
    """The failure for a dialog that a step declares, of any user, and that has not opened by the end."""
    for user in run.plan.users:
        if unmet := await run.stage.session.of(user.name).await_dialogs(0):
            return unmet
    return None


async def _next_step(run: Run, index: int) -> Step | TaskStop | RewindRequest | None:
    """The next step; the agent looks again if its page was lost and could be opened again."""
    while True:
        await run.stage.session.release()
        try:
            return await next_proposal(run)
        except Failed as failed:
            if failed.failure.row.relieves:
                return TaskStop(failed.failure, index, GiveUp())
            if failed.failure.family is not Family.BROWSER:
                raise
            record, turn = await handle_loss(run, StepState(StepRequest(index, looking()), looking()), failed.failure)
            run.journal.trace.append(record)
            if turn:
                return turn


async def _do_one(run: Run, index: int, step: Step) -> StepTransition:
    journal = run.journal
    run.stage.session.act_as(step.user)  # faults strike where it acts
    await run.stage.injector.before_step(index, step)
    clear = partial(handle, run, index, step) if run.plan.handlers else None
    if clear and (turn := await clear()):
        return turn
    journal.begun += 1
    request = StepRequest(index, step, expect=run.plan.expect_timeout, agent=run.agent or SCRIPTED, clear=clear)
    record, turn = await do_step(run, request)
    following = run.plan.steps[index + 1 :] if run.agent is None else ()
    left = rest_of_group(run, record, following)
    journal.history += [record, *left.told, *left.unused]
    journal.trace += [record, *left.told]
    if isinstance(turn, TaskStop) and run.agent is not None:
        turn = await _agent_goes_on(run, turn)
    return turn or await consistent(run, index, record.step)


async def _agent_goes_on(run: Run, ending: TaskStop) -> TaskStop | None:
    """Show a failed step to the agent, which may go on differently; the same failure does not repeat for ever."""
    if ending.skipped or not (skippable(ending.failure) or ending.failure.code in _MENDABLE):
        return ending
    if is_stuck(run.journal.history):
        message = f"The agent proposed the same failing step three times: {ending.failure.message}"
        return TaskStop(Failure("AGENT_STUCK", message, ending.failure.selector), ending.index, GiveUp())
    return await go_on(run, ending.index, ending.failure)


def _missing_at_the_end(run: Run) -> TaskStop | None:
    """Under `--taskspec-strict`, the end for what is missing at the end of the task."""
    if not run.plan.strict:
        return None
    world, session = run.stage.world, run.stage.session
    texts = [warning.message for warning in shortcomings(run.plan.spec, world.memory(), session.files)]
    if not texts:
        return None
    return TaskStop(Failure("INCOMPLETE", "; ".join(texts)), run.journal.under_way, GiveUp())


async def _alternative(played: TaskRun) -> TaskResult | None:
    """Run `fallback_plan: alternative_task_id` after a task that failed, but not after one that was aborted.

    It has the same goal: it does not run if it might repeat a write, and the failure says so. A write of a repair is
    its own to repeat, if its preconditions ask for that: it is told of them.
    """
    other, ending = played.plan.alternative, played.ending
    if ending is None or other is None or ending.give_up.final_state == "aborted":
        return None
    try:
        if why := await _repeated_write(played.run, ending):
            why = f"the alternative task {other.task_id} was not run, because it might repeat {why}"
            played.ending = replace(ending, failure=replace(ending.failure, message=f"{ending.failure.message}; {why}"))
            return None
        return await _run_subtask(played, other, [each for each in played.journal.repairs if each.may_have_written])
    except asyncio.CancelledError:  # the task itself has ended: only its report remains to be made
        if task := asyncio.current_task():
            task.uncancel()
        return None


async def _repeated_write(run: Run | None, ending: TaskStop) -> str | None:
    """The write that a task with the same goal might repeat: no `done_when` denies that it took effect."""
    if is_unsure(ending.failure):
        return "the write"
    if run is not None:
        await stop_sending(run, failure=ending.failure)
        for record in (*run.journal.history, *run.journal.unsure):
            if record.may_have_written and not await once_more(run, RepeatWay.ALTERNATIVE, record):
                return f"the write of step {record.index} ({record.step.describe()}){observed_write(record)}"
    return None


async def _run_subtask(played: TaskRun, other: Plan, written: Sequence[StepRecord] = ()) -> TaskResult:
    """Run another task in the world of this one, whose clock runs on. Of its events, only its writes are emitted.

    It does none of the writes again that this one has gone back over, nor of those that are given (`written`).
    """
    plan, ports = played.plan, played.ports
    start = plan.start and plan.start + timedelta(seconds=ports.clock.now() - played.began)
    joined = replace(other, world=plan.world, key=slug(f"{other.key}-for-{plan.key}"), fresh=False, start=start)

    def emit(event: Event) -> None:
        if isinstance(event, WriteSeen):
            ports.emit(replace(event, plan=plan, index=played.journal.under_way))

    alone = replace(ports, emit=emit, before_write=lambda _: ports.before_write(plan))
    result = await run_task(joined, alone, (*played.journal.unsure, *written))
    played.inside.append(result)  # also one that is interrupted: what it has used was paid for
    played.journal.inside += result.written
    if result.suspended:
        played.journal.suspensions.append(Suspension(played.journal.under_way, result.suspended, ()))
    if result.failure is not None and result.failure.code == "INTERRUPTED":
        raise asyncio.CancelledError
    return result


# Another agent goes on with a task whose agent has failed (docs/decisions/025-takeover.md).

LEAST_SECONDS = 10.0
"""The task's time that an agent needs at least: with less it is not begun."""
_START = Rewind(to_start=True)


async def take_over(run: Run, ending: TaskStop) -> StepTransition:
    """What follows an ending: None, or a way back to the start, if another agent goes on; else the end of the task.

    One goes on if the agent failed, its last step did, or the criteria do not hold: not after the site, or a check.
    """
    last = run.journal.history[-1] if run.journal.history else None
    broke = last is not None and last.failure is not None and last.index == ending.index
    may_go_on = ending.failure.row.relieves or broke or ending.failure.code == UNMET
    if run.plan.chain is None or ending.skipped or not may_go_on:
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


async def _hand_over(run: Run, ending: TaskStop, name: str) -> StepTransition:
    anew = run.plan.chain is not None and name in run.plan.chain.restarts  # else it goes on where the other one ended
    checkpoint = nearest(run, 0, _START) if anew and run.journal.history else None
    if checkpoint is not None:
        await stop_sending(run, failure=ending.failure)
    refused = await _restart_refusal(run, checkpoint) if checkpoint else ""
    takeover = TakeOver(run.agent or SCRIPTED, name, ending.failure, ending.index, run.t, refused)
    run.journal.takeovers.append(takeover)
    run.journal.given_up.discard(ending.index)
    agent_relieved(run, takeover)
    if name == SCRIPTED and refused:
        why = f"The task's own steps were not executed: {refused}"
        return await take_over(run, replace(ending, failure=Failure("AGENT_UNAVAILABLE", why)))
    if ending.failure.code == UNMET:  # the next agent sees the criterion that does not hold, as the last record
        unmet = (each for each in reversed(run.journal.trace) if each.failure and each.failure.code == UNMET)
        run.journal.history += [*islice(unmet, 1)]
    return RewindRequest(ending.failure, ending.index, checkpoint, _START) if checkpoint and not refused else None


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


def _exhausted(run: Run, ending: TaskStop) -> TaskStop:
    """The end after the last agent has failed: it names each of them. Any other end is as it was."""
    if not (ending.failure.row.relieves and run.journal.takeovers):
        return ending
    tried = [
        {"agent": each.before, "code": each.failure.code, "message": each.failure.message, "step_index": each.index}
        for each in (*run.journal.takeovers, TakeOver(run.agent or SCRIPTED, "", ending.failure, ending.index))
    ]
    said = ", ".join(f"`{each['agent']}` at step {each['step_index']} ({each['code']})" for each in tried)
    message = f"Every agent failed: {said}. First: {tried[0]['message']}. Last: {ending.failure.message}"
    failure = Failure("AGENTS_EXHAUSTED", message, details={"tried": tried}, cause=ending.failure.cause)
    return replace(ending, failure=failure)
