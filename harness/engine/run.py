"""What one running task carries through the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from harness.failure import Failed, Failure
from harness.plan import Plan
from harness.ports import Json, Ports, Stage
from harness.recovery import GiveUp
from harness.resilience import Deadline


@dataclass(frozen=True, slots=True)
class Run:
    """A plan on its stage. `began` is monotonic, in seconds."""

    plan: Plan
    ports: Ports
    stage: Stage
    began: float
    deadline: Deadline

    @property
    def t(self) -> float:
        """Seconds since the task began."""
        return self.ports.clock.now() - self.began

    @property
    def left(self) -> float:
        """Seconds until the task's deadline."""
        return self.deadline.left(self.ports.clock.now())

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

    def memory(self) -> Mapping[str, Json]:
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
