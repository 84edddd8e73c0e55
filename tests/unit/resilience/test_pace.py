"""The pace of calls to one provider: so many at once, and none before the time that it has asked to wait for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.resilience.events import Waiting
from harness.resilience.pace import FloorStore, FloorTooHigh, ProviderPace, pace
from tests.unit.resilience.virtual import LoopClock, Story, now, play

pytestmark = pytest.mark.fake_clock


class Slow(Exception):
    def __init__(self, seconds: float | None = None) -> None:
        super().__init__(seconds)
        self.seconds = seconds


def paced(speed: ProviderPace, call: Any, emit: Any = lambda _: None, longest: float = 60.0) -> Any:
    return pace(
        speed,
        slows=lambda error: isinstance(error, Slow),
        asked=lambda error: error.seconds,
        longest=longest,
        emit=emit,
        who="model it",
    )(call)


def made(most: int = 4, store: FloorStore | None = None) -> ProviderPace:
    return ProviderPace("provider:it", most, LoopClock(), store)


async def refused(speed: ProviderPace, seconds: float | None) -> None:
    async def call() -> None:
        raise Slow(seconds)

    with pytest.raises(Slow):
        await paced(speed, call)()


@given(most=st.integers(1, 6), callers=st.integers(1, 25), slow=st.sets(st.integers(0, 24)))
def test_there_are_never_more_calls_at_once_than_allowed(most: int, callers: int, slow: set[int]) -> None:
    async def story() -> None:
        speed, running, seen = made(most), 0, list[int]()

        def call(number: int) -> Any:
            async def one() -> None:
                nonlocal running
                running += 1
                seen.append(running)
                await asyncio.sleep(1)
                running -= 1
                if number in slow:
                    raise Slow

            return one

        await asyncio.gather(*(paced(speed, call(number))() for number in range(callers)), return_exceptions=True)
        assert len(seen) == callers, "every caller had its turn"
        assert max(seen) <= most
        assert speed.running == 0

    play(story())


async def test_the_number_is_halved_when_the_provider_is_overloaded_and_grows_with_ten_good_answers() -> None:
    speed = made(8)
    await refused(speed, None)
    assert speed.allowed == 4
    await refused(speed, 3)
    assert speed.allowed == 2
    speed.slow_down(3)
    assert speed.allowed == 2, "answers to calls that were under way together are one sign"

    async def good() -> None: ...

    for _ in range(10):
        await paced(speed, good)()
    assert speed.allowed == 3


async def test_nobody_calls_before_the_floor_and_the_wait_is_told_once() -> None:
    speed, told, at = made(), Story(), list[float]()
    await refused(speed, 5)

    async def call() -> None:
        at.append(now())

    await asyncio.gather(*(paced(speed, call, told)() for _ in range(3)))
    assert at == [5, 5, 5]
    assert told.events == [Waiting("model it", 5, "provider:it has asked to wait")] * 2, "the third had no place yet"


async def test_a_floor_that_is_too_high_is_not_waited_for() -> None:
    speed = made()
    await refused(speed, 90)

    async def call() -> None:
        raise AssertionError("it was sent")

    with pytest.raises(FloorTooHigh, match="provider:it asks to wait 90 s, more than the 60 s allowed"):
        await paced(speed, call)()
    assert now() == 0
    assert speed.running == 0


async def test_a_cancelled_caller_leaves_its_place() -> None:
    speed = made(1)

    async def call() -> None:
        await asyncio.sleep(10)

    first, second, third = (asyncio.create_task(paced(speed, call)()) for _ in range(3))
    await asyncio.sleep(1)
    second.cancel()
    await first
    await third
    assert now() == 20
    assert speed.running == 0


async def test_the_processes_of_a_run_share_the_floor(tmp_path: Path) -> None:
    file = tmp_path / "floors" / "run.sqlite3"
    one, other = made(store=FloorStore(file)), made(store=FloorStore(file))
    assert other.rests_for() == 0
    await refused(one, 7)
    assert other.rests_for() == 7
    other.slow_down(2)
    assert one.rests_for() == 7, "a floor is only ever raised"


async def test_a_file_that_cannot_be_used_leaves_each_process_its_own_floor(tmp_path: Path) -> None:
    (tmp_path / "floors").write_text("no folder", "utf-8")
    speed = made(store=FloorStore(tmp_path / "floors" / "run.sqlite3"))
    await refused(speed, 2)
    assert speed.rests_for() == 2
