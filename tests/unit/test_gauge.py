"""A gauge sets the limit from what it measures."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import psutil
import pytest

from harness.gauge import Gauge, cores

GIB = 2**30


class Slow:
    """A clock on which every sleep takes so much longer than it was to."""

    def __init__(self, late: float) -> None:
        self.t, self.late = 0.0, late

    def now(self) -> float:
        return self.t

    def wall(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        self.t += seconds + self.late
        await asyncio.sleep(0)


def limits(late: float, monkeypatch: pytest.MonkeyPatch, busy: float = 10.0) -> list[int]:
    """The first limits that are set on a machine with four processors, when every place is taken."""
    monkeypatch.setattr("harness.gauge.cores", lambda: 4)
    monkeypatch.setattr(psutil, "cpu_percent", lambda: busy)
    memory = type("Memory", (), {"available": 8 * GIB, "total": 16 * GIB})
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    found: list[int] = []

    async def main() -> None:
        task = asyncio.create_task(Gauge(Slow(late), lambda: found[-1], found.append, 1).watch())
        while len(found) < 4:
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(main())
    return found[:4]


def test_a_calm_machine_gets_more(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits(0.0, monkeypatch) == [4, 5, 6, 7]


def test_a_loop_that_is_late_gets_less(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits(0.5, monkeypatch) == [4, 3, 2, 1]


def test_busy_processors_get_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits(0.0, monkeypatch, busy=99.0) == [4, 4, 4, 4]


def test_there_is_a_processor() -> None:
    assert cores() >= 1
