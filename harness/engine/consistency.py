"""Memory against the environment, where `state_bindings` ties them together (DESIGN 4.4)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import TypeVar

from harness.criteria import lookup, memory_lookup
from harness.engine.progress import Errand
from harness.engine.run import Run, Turn
from harness.engine.step import do_step
from harness.model.ports import Json
from harness.recovery import Repair, Trust
from harness.recovery.failure import Failed
from harness.spec.steps import Assert, Step
from harness.spec.task import StateBinding

T = TypeVar("T")
SOURCE = "environment"
"""Who wrote a memory entry."""


async def consistent(run: Run, index: int, step: Step | None) -> Turn:
    """Compare what is bound, after a step that may have changed it (None: at the end of the task)."""
    if step is not None and not (step.may_change or step.remember):
        return None
    if run.plan.spec.state_bindings:
        await run.synchronize(run.deadline)
    for key, binding in run.plan.spec.state_bindings.items():
        if _known(run, key) is None:
            continue  # nothing is remembered yet
        errand = Errand(index, Assert(expr=_equal(key, binding)), "STATE_INCONSISTENT", _Truth(run, key, binding))
        record, turn = await do_step(run, errand)
        if record.answers or turn:
            run.journal.trace.append(record)
        if turn:
            return turn
    return None


def _equal(key: str, binding: StateBinding) -> str:
    memory, channel, path = (json.dumps(each, ensure_ascii=False) for each in (key, binding.channel, binding.path))
    return f"mem({memory}) == json({channel}, {path})"


def _known(run: Run, key: str) -> Json:
    found = memory_lookup(run.stage.world.memory(), key)
    return found[0] if found else None


class _Truth:
    """Makes one side of a binding take the value of the other."""

    def __init__(self, run: Run, key: str, binding: StateBinding) -> None:
        self._run = run
        self._key = key
        self._binding = binding

    async def __call__(self, remedy: Repair | Trust) -> str | None:
        source = remedy.source if isinstance(remedy, Trust) else "environment"
        try:
            found = await self._in_time(self._there())
            there = found[0] if found else None
            if source == "person":
                chosen = await self._asked(there)
                if chosen is None:
                    return "nobody has decided which is right"
                source = "environment" if chosen == ENVIRONMENT else "memory"
            if source == "environment" and not found:
                return f"nothing is at {self._binding.path} of the channel `{self._binding.channel}` to be trusted"
            await self._in_time(self._take(source, there))
        except Failed as failed:
            return failed.failure.message
        except TimeoutError:
            return f"channel `{self._binding.channel}` did not answer before the task's end"
        return None

    async def _in_time(self, work: Awaitable[T]) -> T:
        """Raises TimeoutError when the task's time is over."""
        async with asyncio.timeout(self._run.left):
            return await work

    async def _there(self) -> list[Json]:
        """What stands in the environment; empty when the path leads nowhere."""
        return lookup(await self._run.stage.world.channel(self._binding.channel), self._binding.path)

    async def _take(self, source: str, there: Json) -> None:
        world = self._run.stage.world
        if source == "environment":
            world.remember(self._key, there, SOURCE)
            await world.synchronize()
        else:
            await world.merge(self._binding.channel, self._binding.path, _known(self._run, self._key))

    async def _asked(self, there: Json) -> str | None:
        ask = self._run.ports.ask
        return await ask(f"{self._run.plan.task_id}: {self._sides(there)}. Which is right?", CHOICES) if ask else None

    def _sides(self, there: Json) -> str:
        here = json.dumps(_known(self._run, self._key))
        place = f"{self._binding.channel} {self._binding.path}"
        return f"memory {self._key!r} is {here}, {place} is {json.dumps(there)}"


ENVIRONMENT = "environment"
CHOICES = (ENVIRONMENT, "memory")
