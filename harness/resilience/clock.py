"""Time as a dependency: the only module that reads a clock or sleeps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Protocol

from msgspec import Struct


class Deadline(Struct, frozen=True):
    """A moment: `at` is in monotonic seconds of the clock that the caller reads."""

    at: float

    @classmethod
    def after(cls, seconds: float, now: float) -> Deadline:
        return cls(now + seconds)

    def left(self, now: float) -> float:
        """Seconds until the deadline, never below zero."""
        return max(0.0, self.at - now)

    def clip(self, seconds: float, now: float) -> float:
        """Return `seconds`, or the time that is left if that is less."""
        return min(seconds, self.left(now))

    def allows(self, seconds: float, now: float) -> bool:
        """Return whether a wait of `seconds` would end before the deadline; a wait that would not is not started."""
        return seconds < self.left(now)


class Clock(Protocol):
    """The time as the harness sees it. All durations are seconds."""

    def now(self) -> float:
        """Monotonic seconds; only differences mean anything."""

    def wall(self) -> datetime:
        """The time of day, timezone-aware, in UTC."""

    async def sleep(self, seconds: float) -> None:
        """Wait; zero or less returns after one turn of the loop."""


async def poll_until(
    clock: Clock, condition: Callable[[], bool | Awaitable[bool]], interval: float, within: float
) -> bool:
    """Evaluate the condition every `interval` seconds until it holds; return False if it does not `within` seconds.

    It is evaluated first at once, and a last time when the time is over.
    """
    deadline = Deadline.after(within, clock.now())
    while True:
        late, holds = deadline.left(clock.now()) <= 0, condition()
        if holds if isinstance(holds, bool) else await holds:
            return True
        if late:
            return False
        await clock.sleep(deadline.clip(interval, clock.now()))


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))
