"""One task from start to end: preconditions, steps, success criteria, evidence, report (DESIGN 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.engine.attempt import attempt
from harness.engine.closing import close_task
from harness.engine.ending import shortcomings
from harness.engine.run import Ending, Run
from harness.engine.step import do_step
from harness.events import TaskStarted
from harness.failure import Failed, Failure
from harness.plan import Plan
from harness.ports import Ports, Stage
from harness.record import StepRecord, TaskResult
from harness.recovery import GiveUp
from harness.resilience import Deadline
from harness.spec.steps import Assert


@dataclass(slots=True)
class Journal:
    """What has happened so far; kept outside of the run so that an interruption loses nothing."""

    records: list[StepRecord] = field(default_factory=list)
    under_way: int = -1
    """Index of the step that runs; -1 before the first."""


async def run_task(plan: Plan, ports: Ports) -> TaskResult:
    """Run a task to its end. Cancellation ends it as `aborted`, with its report; the result says so."""
    started, began = ports.clock.wall(), ports.clock.now()
    ports.emit(TaskStarted(plan, started))
    folder = ports.archive.scratch(plan)
    journal = Journal()
    stage, ending = await _play(plan, ports, folder, journal, began)
    result = TaskResult(
        task_id=plan.task_id,
        key=plan.key,
        final_state="completed",
        history=tuple(journal.records),
        started=started,
        elapsed=ports.clock.now() - began,
        steps_total=len(plan.steps),
    )
    return await _undisturbed(close_task(plan, ports, stage, folder, result, ending))


async def _undisturbed(closing: Coroutine[Any, Any, TaskResult]) -> TaskResult:
    """Bounded work that an interruption must not cut off: half an artifact directory helps nobody."""
    task = asyncio.ensure_future(closing)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if (current := asyncio.current_task()) is not None:
                current.uncancel()
    return task.result()


async def _play(
    plan: Plan, ports: Ports, folder: Path, journal: Journal, began: float
) -> tuple[Stage | None, Ending | None]:
    """The stage, if it could be opened, and why the task ended early, if it did."""
    stage: Stage | None = None
    try:
        stage = await _opened(plan, ports, folder)
        run = Run(plan, ports, stage, began, Deadline(began + plan.timeout))
        await stage.world.begin()
        return stage, await _perform(run, journal)
    except Failed as failed:
        give_up = next(plan.rulebook.remedies(failed.failure, ports.random), GiveUp())
        ended = give_up if isinstance(give_up, GiveUp) else GiveUp()
        return stage, Ending(failed.failure, journal.under_way, ended)
    except asyncio.CancelledError:
        if task := asyncio.current_task():
            task.uncancel()
        return stage, Ending(Failure("INTERRUPTED", "The run was interrupted"), journal.under_way, GiveUp("aborted"))
    except Exception as error:  # noqa: BLE001 - a defect of ours must not take the other tasks along
        failure = Failure("INTERNAL_ERROR", f"{type(error).__name__}: {error}", cause=error)
        return stage, Ending(failure, journal.under_way, GiveUp())


async def _opened(plan: Plan, ports: Ports, folder: Path) -> Stage:
    """The stage, inside the task's own limit. Raises Failed."""
    try:
        async with asyncio.timeout(plan.timeout):
            return await ports.stage(plan, folder)
    except TimeoutError as error:
        message = f"The browser was not ready within {plan.timeout:g}s"
        raise Failed(Failure("TASK_TIMEOUT", message, cause=error)) from error


async def _perform(run: Run, journal: Journal) -> Ending | None:
    return (
        await _preconditions(run, journal)
        or await _steps(run, journal)
        or await _criteria(run, journal)
        or _missing_at_the_end(run)
    )


async def _preconditions(run: Run, journal: Journal) -> Ending | None:
    """specs/003 4.5; step_index -1."""
    journal.under_way = -1
    for criterion in run.plan.preconditions:
        record, ending = await do_step(run, -1, Assert(expr=str(criterion)))
        journal.records.append(record)
        if ending:
            return ending
    return None


async def _steps(run: Run, journal: Journal) -> Ending | None:
    while True:
        history = tuple(record for record in journal.records if record.index >= 0)
        journal.under_way = index = len(history)
        step = await run.ports.agent.propose(run.plan, history)
        if step is None:
            return None
        await run.stage.injector.before_step(index)
        record, ending = await do_step(run, index, step)
        journal.records.append(record)
        if ending:
            return ending


async def _criteria(run: Run, journal: Journal) -> Ending | None:
    """Success criteria, once, at the end (DESIGN 4.4); after the first that fails, the others are only looked at."""
    journal.under_way = index = len(run.plan.steps)
    criteria = [Assert(expr=str(criterion)) for criterion in run.plan.success_criteria]
    for number, step in enumerate(criteria):
        record, ending = await do_step(run, index, step)
        journal.records.append(record)
        if ending:
            return await _with_the_others(run, ending, criteria[number + 1 :])
    return None


async def _with_the_others(run: Run, ending: Ending, rest: list[Assert]) -> Ending:
    """All criteria that do not hold belong into one report."""
    unmet = []
    for step in rest:
        outcome = await attempt(run, ending.index, step, None)
        if isinstance(outcome, Failure):
            unmet.append(outcome.message)
    if not unmet:
        return ending
    failure = ending.failure
    more = "; ".join(unmet)
    failure = replace(failure, message=f"{failure.message}; {more}", details={**failure.details, "also_unmet": unmet})
    return replace(ending, failure=failure)


def _missing_at_the_end(run: Run) -> Ending | None:
    """Under `--taskspec-strict` what is missing at the end is a failure (DESIGN 4.1)."""
    if not run.plan.strict:
        return None
    world, session = run.stage.world, run.stage.session
    texts = [warning.message for warning in shortcomings(run.plan.spec, world.memory(), session.files)]
    if not texts:
        return None
    return Ending(Failure("INCOMPLETE", "; ".join(texts)), len(run.plan.steps), GiveUp())
