"""What one running task carries through the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from harness.failure import Failure
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


@dataclass(frozen=True, slots=True)
class PageSources:
    """What criteria read from: the page, the memory and the environment of a run (criteria.Sources)."""

    run: Run

    async def page(self, function: str, selector: str | None, name: str | None) -> Json:
        within = min(self.run.plan.step_timeout, max(self.run.left, 0.1))
        return await self.run.stage.session.read(function, selector, name, within)

    def memory(self) -> Mapping[str, Json]:
        return self.run.stage.world.memory()

    async def channel(self, name: str) -> Json:
        return await self.run.stage.world.channel(name)

    def now(self) -> datetime:
        return self.run.world_time()
