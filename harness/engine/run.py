"""What one running task carries through the engine."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from harness.engine.journal import Checkpoint, Journal
from harness.model.plan import Plan
from harness.model.ports import Json, Ports, Stage
from harness.model.record import TaskResult
from harness.recovery import GiveUp, Rewind
from harness.recovery.failure import Failed, Failure
from harness.resilience import Deadline
from harness.spec.steps import Step


@dataclass(frozen=True, slots=True)
class Run:
    """A plan on its stage. `began` is monotonic, in seconds."""

    plan: Plan
    ports: Ports
    stage: Stage
    began: float
    journal: Journal
    inside: Callable[[Plan], Awaitable[TaskResult]]
    """Runs another task in the middle of this one, in the same world."""
    stretch: float = 1.0
    """Factor for `timeout` and `step_timeout`, after a rewind (specs/003 4.1)."""

    @property
    def t(self) -> float:
        """Seconds since the task began."""
        return self.ports.clock.now() - self.began

    @property
    def deadline(self) -> Deadline:
        """When the task's time is over: its `timeout`, or `budget: max_seconds` when that is less."""
        return Deadline(self.began + min(self.timeout, self.allowance))

    @property
    def timeout(self) -> float:
        """Seconds for the whole task."""
        return self.plan.timeout * self.stretch

    @property
    def allowance(self) -> float:
        """Seconds that the budget allows."""
        return self.plan.spec.budget.max_seconds or math.inf

    @property
    def left(self) -> float:
        """Seconds until the task's deadline."""
        return self.deadline.left(self.ports.clock.now())

    def limit(self, step: Step) -> float:
        """Seconds for one attempt at a step."""
        return (self.plan.step_timeout if step.timeout is None else step.timeout) * self.stretch

    async def synchronize(self, until: Deadline) -> None:
        """Memory, where the system under test keeps it, as it is now (ports.World). Raises Failed."""
        within = max(SHORTEST_READ, until.left(self.ports.clock.now()))
        try:
            async with asyncio.timeout(within):
                await self.stage.world.synchronize()
        except TimeoutError as error:
            message = f"The channel of the memory did not answer within {within:.1f}s"
            raise Failed(Failure("CHANNEL_UNREADABLE", message, cause=error)) from error

    def world_time(self) -> datetime:
        """Now, as the task sees it: its `time` plus what has passed since (DESIGN 4.1)."""
        if self.plan.start is None:
            return self.ports.clock.wall()
        return self.plan.start + timedelta(seconds=self.t)


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a task ends before its time: the failure, where it was, and how to give up."""

    failure: Failure
    index: int
    give_up: GiveUp
    skipped: bool = False
    """The task is left out (`on_precondition_fail: skip_task`)."""


@dataclass(frozen=True, slots=True)
class Back:
    """A step failed, and the task is to go back to a checkpoint."""

    failure: Failure
    index: int
    checkpoint: Checkpoint
    remedy: Rewind


Turn = Ending | Back | None
"""What follows a step; None: the next one."""


SHORTEST_READ = 0.1
"""Seconds that a look at the page may take even when the attempt's time is over."""


@dataclass(frozen=True, slots=True)
class PageSources:
    """What criteria read from: the page, the memory and the environment of a run (criteria.Sources)."""

    run: Run
    until: Deadline
    """Of the attempt that asks."""

    async def page(self, function: str, selector: str | None, name: str | None) -> Json:
        within = max(SHORTEST_READ, self.until.clip(self.run.plan.step_timeout, self.run.ports.clock.now()))
        return await self.run.stage.session.read(function, selector, name, within)

    async def memory(self) -> Mapping[str, Json]:
        await self.run.synchronize(self.until)
        return self.run.stage.world.memory()

    async def channel(self, name: str) -> Json:
        within = max(SHORTEST_READ, self.until.left(self.run.ports.clock.now()))
        try:
            async with asyncio.timeout(within):
                return await self.run.stage.world.channel(name)
        except TimeoutError as error:
            message = f"Environment channel {name!r} did not answer within {within:.1f}s"
            raise Failed(Failure("CHANNEL_UNREADABLE", message, details={"channel": name}, cause=error)) from error

    def now(self) -> datetime:
        return self.run.world_time()
