"""Whose turn it is to start what does not run: of those who find that at the same moment, only one starts it."""

from __future__ import annotations

import fcntl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TextIO

from harness.recovery.failure import Failed
from harness.resilience import Clock, Deadline
from harness.services.child import POLL
from harness.services.diagnosis import Diagnosis
from harness.services.health import Answer, Health
from harness.services.identity import Identity
from harness.services.ownership import Held

LOCKED = 60.0
"""Seconds that another process may take to start it: some milliseconds, and as long as its template takes to copy."""


class Turn:
    """Of one start of one service."""

    def __init__(self, owner: Callable[[], Held | None], lock: Path, diagnosis: Diagnosis, clock: Clock) -> None:
        """`owner` answers which other process keeps it, on ports that can be used."""
        self._other, self._lock = owner, lock
        self._diagnosis, self._clock = diagnosis, clock
        self._forsaken: Identity | None = None

    async def came_back(self, ask: Callable[[], Awaitable[Answer]], within: float) -> bool:
        """Whether what another process keeps came back; False when there is none. Raises what the parent says."""
        deadline = Deadline.after(within, self._clock.now())
        while held := self._owner():
            if held.failure:
                raise Failed(held.failure)
            if (await ask()).health is Health.HEALTHY:
                return True
            if not deadline.allows(POLL, self._clock.now()):
                self._forsake(held)
            else:
                await self._clock.sleep(POLL)
        return False

    async def take(self, start: Callable[[], Awaitable[None]]) -> bool:
        """Start it, and tell, unless another process does that since; whether it was done. Raises Failed."""
        try:
            async with alone(self._lock, self._clock):
                if self._owner():
                    return False
                await start()
        except OSError as error:
            raise Failed(self._diagnosis.down(f"cannot be started: {error}")) from None
        return True

    def _owner(self) -> Held | None:
        """Who is to bring it back. One that has given up has no say in what is done here, unless it is the parent."""
        held = self._other()
        given_up = held and (held.owner == self._forsaken or (held.failure and not held.above))
        return None if given_up else held

    def _forsake(self, held: Held) -> None:
        """It lives, and does not bring it back."""
        if held.above:
            what = "is kept running by the process that has started this one, and did not come back"
            raise Failed(self._diagnosis.down(what))
        self._forsaken = held.owner


@asynccontextmanager
async def alone(file: Path, clock: Clock) -> AsyncIterator[None]:
    """Of all processes. Of one that dies, the kernel lets go. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    deadline = Deadline.after(LOCKED, clock.now())
    with file.open("a", encoding="utf-8") as lock:
        while not _locked(lock):
            if not deadline.allows(POLL, clock.now()):
                raise TimeoutError(f"another process has held {file} for {LOCKED:g} s")
            await clock.sleep(POLL)
        yield


def _locked(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
