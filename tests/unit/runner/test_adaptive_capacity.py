"""The number of tasks at once follows what the machine measures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count, repeat
from pathlib import Path

import psutil
import pytest

from harness.runner.capacity import AdaptiveCapacity, Share, allowed, busy, cores

GIB = 2**30
FREE = Share()


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


def limits(
    late: float,
    monkeypatch: pytest.MonkeyPatch,
    busy: float = 10.0,
    share: Share | Iterator[Share] = FREE,
    processes: int = 1,
) -> list[int]:
    """The first limits that are set on a machine with four processors, when every place is taken."""
    shares = repeat(share) if isinstance(share, Share) else share
    monkeypatch.setattr("harness.runner.capacity.cores", lambda: 4)
    monkeypatch.setattr("harness.runner.capacity.allowed", lambda: next(shares))
    monkeypatch.setattr(psutil, "cpu_percent", lambda percpu: [busy] * 256 if percpu else busy)
    memory = type("Memory", (), {"available": 8 * GIB, "total": 16 * GIB})
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    found: list[int] = []

    async def main() -> None:
        task = asyncio.create_task(AdaptiveCapacity(Slow(late), lambda: found[-1], found.append, processes).watch())
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


def test_a_quota_is_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits(0.0, monkeypatch, share=Share(cores=1.5)) == [1, 2, 3, 4]


def test_a_group_that_is_full_gets_less(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits(0.0, monkeypatch, share=Share(memory=4 * GIB, free=2 * GIB)) == [4, 5, 6, 7]
    assert limits(0.0, monkeypatch, share=Share(memory=64 * GIB, free=GIB)) == [3, 2, 1, 1]


def test_several_processes_share_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a part of the memory that is free, and of what there is: half of it is free for all of them."""
    assert limits(0.0, monkeypatch, processes=4) == [1, 2, 3, 4]


def test_a_quota_that_is_used_up_gets_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is idle, as far as psutil can see."""
    used = (Share(cores=2.0, used_seconds=seconds) for seconds in count(0.0, 2.0))
    assert limits(0.0, monkeypatch, share=used) == [2, 2, 2, 2]
    unused = (Share(cores=2.0, used_seconds=0.0) for _ in count())
    assert limits(0.0, monkeypatch, share=unused) == [2, 3, 4, 5]


def test_there_is_a_processor_and_its_load_is_known() -> None:
    assert cores() >= 1
    assert 0 <= busy() <= 1


def test_what_this_machine_allows_is_read() -> None:
    assert allowed().cores > 0
    assert allowed().free <= allowed().memory


def test_where_there_are_no_groups_there_is_no_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """macOS."""
    monkeypatch.setattr("harness.runner.capacity.MEMBERSHIP", tmp_path / "none")
    assert allowed() == Share()
