"""Makes trials: several at once, as far as isolation and shared faults allow; each is taken on the waiting thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from msgspec import Struct

from harness.model.plan import Plan
from harness.model.record import TaskResult
from harness.model.settings import Settings
from harness.resilience import SystemClock
from harness.runner.capacity import AdaptiveCapacity
from harness.runner.compile import plans_of
from harness.runner.schedule import SHARED, Job, Schedule
from harness.spec.faults import Fault
from harness.spec.task import TaskSpec

if TYPE_CHECKING:
    from harness.runner.loop import Caller
    from harness.runner.sync import SyncHarness

T = TypeVar("T")
_POLL = 0.5
"""Seconds after which the limit is looked at again, which the load of the machine decides (`auto`)."""


class Play(Protocol):
    """Runs one task of a trial. A task that was interrupted ends the trial."""

    def __call__(self, plan: Plan, *, quiet: bool = False) -> Awaitable[TaskResult]:
        """`quiet`: its events are no news."""


class TrialJob(Struct, Generic[T], frozen=True):
    """Something to try: tasks that run one after the other, and what is found by them."""

    job: Job
    make: Callable[[Play], Awaitable[T]]
    take: Callable[[T], None]
    """Takes what was found, on the waiting thread. Until it returns, nothing begins in this trial's place."""


def declared_faults(spec: TaskSpec, settings: Settings) -> Iterator[Fault]:
    """The faults that strike a task: its own, and those of the fault plans of its project."""
    yield from spec.faults
    for loaded in plans_of(settings):
        yield from (fault for _, fault in loaded.plan.of(spec))


def runs_alone(specs: Sequence[TaskSpec], settings: Settings, faults: Iterable[Fault] = ()) -> bool:
    """Whether nothing else may run beside a trial of these tasks, with these faults more.

    Its faults strike what other tasks use too, or a slot that its episode leaves for a moment could become another's.
    """
    several = (*faults, *(fault for spec in specs for fault in declared_faults(spec, settings)))
    leaves = settings.shared_state and len(specs) > 1 and any(spec.episode_id for spec in specs)
    return leaves or any(fault.kind in SHARED for fault in several)


class TrialRunner:
    """Makes trials in one harness, as many at once as `task_workers` says."""

    def __init__(
        self, harness: SyncHarness, hear: Callable[[Any], None], workers: int | Literal["auto"] | None = None
    ) -> None:
        """`hear` receives each event at once, on the loop's thread. Without `workers` the settings say how many."""
        self.settings = harness.settings
        self._harness = harness
        self._hear = hear
        self._workers = workers or self.settings.task_workers
        self._limit = 1 if self._workers == "auto" else self._workers

    def run(self, trials: Sequence[TrialJob[Any]]) -> None:
        """Make the trials; they begin in this order.

        Raises what `take` raises. Ctrl-C, and a task that was interrupted, raise KeyboardInterrupt: what had ended by
        then was taken.
        """
        try:
            self._harness.begin(partial(self._all, trials)).finish(lambda _event: None)
        except CancelledError:
            raise KeyboardInterrupt from None

    async def _all(self, trials: Sequence[TrialJob[Any]], caller: Caller) -> None:
        named = {each.job.name: each for each in trials}
        schedule = Schedule.of((each.job for each in trials), len(trials), self._harness.slots)
        running: dict[asyncio.Task[None], str] = {}
        measuring = asyncio.create_task(self._measure(running))
        try:
            while True:
                for name in schedule.startable(self._limit):
                    schedule.begin(name)
                    running[asyncio.create_task(self._one(named[name], caller))] = name
                if not running:
                    return
                done, _ = await asyncio.wait(running, timeout=_POLL, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    schedule.end(running.pop(each), True)
                    each.result()
        finally:
            await _cancelled((*running, measuring))

    async def _one(self, trial: TrialJob[Any], caller: Caller) -> None:
        await caller.call(trial.take, await trial.make(partial(self._play, caller)))

    async def _play(self, caller: Caller, plan: Plan, *, quiet: bool = False) -> TaskResult:
        result = await self._harness.play(plan, caller if quiet else caller.heard_by(self._hear))
        if result.failure is not None and result.failure.code == "INTERRUPTED":
            raise asyncio.CancelledError  # the trial was not made
        return result

    async def _measure(self, running: Mapping[asyncio.Task[None], str]) -> None:
        if self._workers == "auto":
            await AdaptiveCapacity(SystemClock(), lambda: len(running), self._take, 1).watch()

    def _take(self, limit: int) -> None:
        self._limit = limit


async def _cancelled(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel what still runs, and wait for its regular end."""
    left = [each for each in tasks if not each.done()]
    for each in left:
        each.cancel()
    if left:
        await asyncio.wait(left)
