"""Where one state is shared, a task runs in a slot that it has to itself: one set of services, one state."""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock
from harness.resilience.events import Emit, SlotAwaited, nobody

POLL = 0.05
"""Seconds between two looks for a free slot: another process may hold it, and nothing tells when it lets go."""
PATIENCE = 5.0
"""Seconds that a task waits for its slot before that is told."""
HOLD = 30.0
"""Seconds that an episode keeps its slot between two of its tasks. Afterwards others may have it."""


@dataclass(slots=True, eq=False)
class Slot:
    """A slot that is held. Its lock is the kernel's, which releases it when this process ends, however it ends."""

    number: int
    """Counted from 0, as `Services.hosts_of` does."""
    goes_on: bool
    """Whether the state is the one that an earlier task of the same episode has left: it is not reset."""
    lock: IO[str]

    def occupy(self, world: str) -> None:
        """From now on the state is that of this world; empty: nobody's."""
        self.lock.seek(0)
        self.lock.truncate()
        self.lock.write(world)
        self.lock.flush()


class Slots:
    """The slots of a project, shared by all of its processes that run tasks at this moment.

    `count` is asked each time: it is known when the services are. `folder` is the same for all of these processes.
    """

    def __init__(self, count: Callable[[], int], folder: Path, clock: Clock, emit: Emit = nobody) -> None:
        """`emit` hears a SlotAwaited, once for each task that waits for long."""
        self._count = count
        self._folder = folder
        self._clock = clock
        self._emit = emit
        self._places: dict[str, int] = {}
        """Episode's world -> the number of the slot that it has begun in."""
        self._kept: dict[str, tuple[Slot, asyncio.TimerHandle]] = {}
        """Slots of episodes between two of their tasks."""

    async def take(self, world: str, *, episode: bool, task: str = "") -> Slot:
        """Wait until a slot is free, and hold it. `task`: whose id is told when that takes long.

        Raises Failed(EPISODE_STATE_LOST) when another task was in the slot of this episode, after its last task.
        """
        if world in self._kept:
            slot, timer = self._kept.pop(world)
            timer.cancel()
            slot.goes_on = True
            return slot
        begun, told = self._clock.now(), False
        while (slot := self._free(world)) is None:  # type: ignore[assignment]
            waited = self._clock.now() - begun
            if waited >= PATIENCE and not told:
                told = True
                self._emit(SlotAwaited(task, str(self._folder), waited))
            await self._clock.sleep(POLL)
        if episode and not slot.goes_on and world in self._places:
            self._let_go(slot)
            raise Failed(_lost(world))
        if episode:
            self._places[world] = slot.number
        return slot

    def give_back(self, slot: Slot, world: str, *, more: bool) -> None:
        """The task is over. `more`: its episode has further tasks, for which the slot is kept a while."""
        if more:
            timer = asyncio.get_running_loop().call_later(HOLD, self._expired, world)
            self._kept[world] = slot, timer
        else:
            self._let_go(slot)

    def close(self) -> None:
        """Nobody waits any more: let go of what is kept for episodes."""
        for slot, timer in self._kept.values():
            timer.cancel()
            self._let_go(slot)
        self._kept.clear()

    def _free(self, world: str) -> Slot | None:
        """A slot that nobody holds: that of this world, when it has one."""
        place = self._places.get(world)
        for number in range(self._count()) if place is None else (place,):
            if lock := self._locked(number):
                return Slot(number, lock.read() == world, lock)
        return None

    def _locked(self, number: int) -> IO[str] | None:
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = (self._folder / f"{number}.lock").open("a+", encoding="utf-8")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return None
        lock.seek(0)
        return lock

    def _expired(self, world: str) -> None:
        slot, _ = self._kept.pop(world)
        self._let_go(slot)

    @staticmethod
    def _let_go(slot: Slot) -> None:
        slot.lock.close()


def _lost(world: str) -> Failure:
    message = (
        "another task has run between two tasks of this episode, and the one state of the system under test was reset "
        "for it: what the earlier tasks of the episode have done is gone"
    )
    return Failure("EPISODE_STATE_LOST", message, details={"world": world})
