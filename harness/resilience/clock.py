"""Time as a dependency: the only module that reads a clock or sleeps."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the harness knows of time. All durations are seconds."""

    def now(self) -> float:
        """Monotonic seconds; only differences mean anything."""
        ...

    def wall(self) -> datetime:
        """The time of day, aware, UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; zero or less returns after one turn of the loop."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))
