"""Slots for tasks that share one state: a task has its slot, with one set of services and one state, to itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import IO

from msgspec import Struct

from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock
from harness.resilience.events import Emit, SlotAwaited, discard
from harness.resilience.replaced import try_lock

POLL = 0.05
"""Seconds between two tries for a free slot: another process may hold it, and its release is not announced."""
PATIENCE = 5.0
"""Seconds that a task waits for its slot before an event reports it."""
HOLD = 30.0
"""Seconds that an episode keeps its slot between two of its tasks. Afterwards other tasks may have it."""


class Slot(Struct, eq=False):
    """A slot that is held. Its lock is the kernel's, which releases it when this process ends, however it ends."""

    number: int
    """Its number, counted from 0 as in `Services.hosts_of`."""
    goes_on: bool
    """Whether its state is from an earlier task of the same episode: then it is not reset."""
    lock: IO[str]

    def occupy(self, world: str) -> None:
        """Record that the state belongs to this world; empty: to none."""
        self.lock.seek(0)
        self.lock.truncate()
        self.lock.write(world)
        self.lock.flush()


class Slots:
    """The slots of a project, shared by all processes that run its tasks at this moment.

    `count` is called each time, since the number is known only with the services. `folder` is the same for all of these
    processes.
    """

    def __init__(self, count: Callable[[], int], folder: Path, clock: Clock, emit: Emit = discard) -> None:
        """`emit` receives a SlotAwaited, once for each task that waits long."""
        self._count, self._folder, self._clock, self._emit = count, folder, clock, emit
        self._places: dict[str, int] = {}
        """Episode's world -> the number of the slot that it began in."""
        self._kept: dict[str, tuple[Slot, asyncio.TimerHandle]] = {}
        """Slots of episodes between two of their tasks."""

    async def take(self, world: str, *, episode: bool, task: str = "") -> Slot:
        """Wait until a slot is free, and hold it. `task`: the id for the event about a long wait.

        Raises Failed(EPISODE_STATE_LOST) if another task has used the episode's slot after its last task.
        """
        if world in self._kept:
            slot, timer = self._kept.pop(world)
            timer.cancel()
            slot.goes_on = True
            return slot
        begun, told = self._clock.now(), False
        while (slot := self._take_free(world)) is None:  # type: ignore[assignment]
            waited = self._clock.now() - begun
            if waited >= PATIENCE and not told:
                told = True
                self._emit(SlotAwaited(task, str(self._folder), waited))
            await self._clock.sleep(POLL)
        if episode and not slot.goes_on and world in self._places:
            slot.lock.close()
            message = (
                "another task ran between two tasks of this episode, and the state of the system under test was "
                "reset for it: what the earlier tasks of the episode did is lost"
            )
            raise Failed(Failure("EPISODE_STATE_LOST", message, details={"world": world}))
        if episode:
            self._places[world] = slot.number
        return slot

    def give_back(self, slot: Slot, world: str, *, more: bool) -> None:
        """Release the slot after a task. `more`: its episode has further tasks, for which the slot is kept a while."""
        if more:
            timer = asyncio.get_running_loop().call_later(HOLD, self._expired, world)
            self._kept[world] = slot, timer
        else:
            slot.lock.close()

    def close(self) -> None:
        """Release the slots that are kept for episodes; no task waits any more."""
        for slot, timer in self._kept.values():
            timer.cancel()
            slot.lock.close()
        self._kept.clear()

    def _expired(self, world: str) -> None:
        slot, _ = self._kept.pop(world)
        slot.lock.close()

    def _take_free(self, world: str) -> Slot | None:
        """Lock a free slot: that of this world, if it has one."""
        place = self._places.get(world)
        for number in range(self._count()) if place is None else (place,):
            if lock := self._locked(number):
                return Slot(number, lock.read() == world, lock)
        return None

    def _locked(self, number: int) -> IO[str] | None:
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = (self._folder / f"{number}.lock").open("a+", encoding="utf-8")
        if not try_lock(lock):
            lock.close()
            return None
        lock.seek(0)
        return lock
