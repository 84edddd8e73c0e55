"""Before the first step: what must hold, and how it is set up (specs/003 4.5, DESIGN 4.4); step_index -1."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from harness.engine.budget import overspent
from harness.engine.progress import Errand
from harness.engine.rewind import begun
from harness.engine.run import Run, Turn
from harness.engine.step import do_step
from harness.model.plan import Plan, ReadyRepair
from harness.model.ports import LeftOut
from harness.recovery import Repair, Trust
from harness.recovery.catalog import Family
from harness.recovery.failure import Failed, Failure
from harness.spec.steps import Assert

BEFORE = -1
SOURCE = "repair"
"""Who wrote a memory entry."""


async def preconditions(run: Run) -> Turn:
    """Look at each, once; what follows the first that does not hold."""
    if run.journal.admitted:
        return None
    run.journal.under_way = BEFORE
    for number, criterion in enumerate(run.plan.preconditions):
        cure = _Repairs(run, number)
        record, turn = await do_step(run, Errand(BEFORE, Assert(expr=str(criterion)), "PRECONDITION_NOT_MET", cure))
        run.journal.trace.append(record)
        if turn:
            return turn
    run.journal.admitted = True
    await begun(run)
    return None


class _Repairs:
    """What can be done about one precondition: the task's `repairs`, then the hook. Whether it helped is looked at."""

    def __init__(self, run: Run, number: int) -> None:
        self._run = run
        self._number = number

    async def __call__(self, remedy: Repair | Trust) -> str | Failure | None:  # noqa: ARG002 - a precondition has one cure
        repairs = [repair for repair in self._run.plan.repairs if self._number in repair.applies]
        for repair in repairs:
            if why := await self._apply(repair):
                return f"its repair failed: {why.message}" if why.family is not Family.BROWSER else why
        try:
            hooked = await self._hook()
        except LeftOut:
            raise
        except Failed as failed:
            return failed.failure.message
        except TimeoutError:
            return f"pytest_taskspec_repair took longer than the task's {self._run.timeout:g}s"
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything, or answer what is not JSON
            return f"pytest_taskspec_repair failed: {type(error).__name__}: {error}"
        return None if repairs or hooked else "no repair is declared for it"

    async def _apply(self, repair: ReadyRepair) -> Failure | None:
        """What it failed with."""
        for key, value in repair.memory.items():
            self._run.stage.world.remember(key, value, SOURCE)
        await self._run.synchronize(self._run.deadline)
        if repair.task and (why := await _first(self._run, repair.task)):
            return why
        for step in repair.steps:
            if over := overspent(self._run, another=True):
                return over.failure
            if down := await self._down():
                return down
            self._run.journal.begun += 1
            record, turn = await do_step(self._run, Errand(BEFORE, step, expect=self._run.plan.expect_timeout))
            self._run.journal.trace.append(record)
            if turn:
                return turn.failure
        return None

    async def _down(self) -> Failure | None:
        """Why a service of the task is not there. One that was lost is started again first: a repair may write."""
        try:
            async with asyncio.timeout(self._run.left):
                await self._run.ports.ready()
        except Failed as failed:
            return failed.failure
        except TimeoutError:
            return Failure("SERVICE_DOWN", "A service that was lost did not come back within the task's time")
        return None

    async def _hook(self) -> bool:
        run = self._run
        if run.ports.repair is None:
            return False
        criterion = str(run.plan.preconditions[self._number])
        await run.synchronize(run.deadline)
        if down := await self._down():
            raise Failed(down)
        async with asyncio.timeout(run.left):
            answer = await run.ports.repair(run.plan, criterion, run.stage.world.memory())
        if isinstance(answer, Mapping):
            for key, value in answer.items():
                run.stage.world.remember(key, value, SOURCE)
            await run.synchronize(run.deadline)
        return answer is not False


async def _first(run: Run, task: Plan) -> Failure | None:
    """Run a task to its end, or to that of the time of this one; what it failed with."""
    result = await run.inside(replace(task, timeout=min(task.timeout, round(run.left, 1))))
    if result.ok:
        return None
    failure = result.failure or Failure("PRECONDITION_NOT_MET", result.skipped or result.final_state)
    return replace(failure, message=f"{task.task_id}: {failure.message}")
