"""The breaker around a call: who goes through, what counts, who waits."""

from __future__ import annotations

import asyncio
import timeit
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from harness.resilience.breaker import (
    Breaker,
    BreakerSettings,
    CircuitOpen,
    CircuitState,
    WaitPermit,
    admission,
    compose,
    describe_error,
    guard,
)
from harness.resilience.clock import Deadline, SystemClock
from tests.unit.fakes import FakeClock


class SiteDown(Exception):
    """What counts here."""


class TurningClock(FakeClock):
    """Sleeping moves the clock, and lets the others have their turn."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        await asyncio.sleep(0)


def down(error: BaseException) -> bool:
    return isinstance(error, SiteDown)


def answering(answer: Any = "answer") -> Callable[[], Awaitable[Any]]:
    async def call() -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return call


class Bench:
    def __init__(self, **settings: float) -> None:
        self.clock = TurningClock()
        self.breaker = Breaker("origin:http://shop.local", BreakerSettings(**settings), now=self.clock.now)  # type: ignore[arg-type]

    async def through(self, answer: Any = "answer", wait: WaitPermit | None = None) -> Any:
        return await guard(self.breaker, counts=down, wait=wait)(answering(answer))()

    async def fail(self, times: int = 1) -> None:
        for _ in range(times):
            with pytest.raises(SiteDown):
                await self.through(SiteDown("refused"))

    async def rested(self) -> None:
        await self.fail(5)
        self.clock.time += 30

    def until(self, seconds: float) -> WaitPermit:
        return WaitPermit(self.clock, Deadline.after(seconds, self.clock.now()))


def test_a_call_goes_through_and_its_answer_comes_back() -> None:
    bench = Bench()
    assert asyncio.run(bench.through({"a": 1})) == {"a": 1}


def test_scenario_circuit_breaker_opens() -> None:
    """Five errors in a row, and the next call fails at once: it is not made."""
    bench = Bench()
    made = 0

    async def count() -> None:
        nonlocal made
        made += 1

    async def main() -> None:
        await bench.fail(5)
        with pytest.raises(CircuitOpen, match="SiteDown: refused"):
            await guard(bench.breaker, counts=down)(count)()

    asyncio.run(main())
    assert (made, bench.breaker.state, bench.clock.time) == (0, CircuitState.OPEN, 0)


async def test_scenario_circuit_breaker_recovers() -> None:
    bench = Bench()
    await bench.rested()
    assert bench.breaker.state is CircuitState.HALF_OPEN
    await bench.through()
    await bench.through()
    assert bench.breaker.state is CircuitState.CLOSED


@pytest.mark.parametrize("success_threshold", [1, 2])
async def test_of_fifty_callers_on_a_half_open_breaker_exactly_one_goes_through(success_threshold: int) -> None:
    bench = Bench(success_threshold=success_threshold)
    through: list[int] = []
    refused: list[CircuitOpen] = []
    await bench.rested()
    release = asyncio.Event()

    async def caller(number: int) -> None:
        async def call() -> None:
            through.append(number)
            await release.wait()

        try:
            await guard(bench.breaker, counts=down)(call)()
        except CircuitOpen as refusal:
            refused.append(refusal)
            if len(refused) == 49:
                release.set()

    await asyncio.wait_for(asyncio.gather(*map(caller, range(50))), 10)
    assert (len(through), len(refused)) == (1, 49)
    assert all(refusal.probing for refusal in refused)
    assert bench.breaker.state is (CircuitState.CLOSED if success_threshold == 1 else CircuitState.HALF_OPEN)


@pytest.mark.parametrize("error", [KeyError("x"), AssertionError("criterion"), TimeoutError()])
async def test_an_error_that_is_not_the_circuits_counts_as_neither(error: Exception) -> None:
    bench = Bench()
    await bench.fail(4)
    with pytest.raises(type(error)) as caught:
        await bench.through(error)
    assert caught.value is error
    assert bench.breaker.failures == 4
    await bench.fail(1)
    bench.clock.time += 30
    with pytest.raises(type(error)):
        await bench.through(error)
    assert (bench.breaker.state, bench.breaker.rests_for()) == (CircuitState.HALF_OPEN, 0)


def test_cancellation_passes_untouched_and_frees_the_probe() -> None:
    bench = Bench()
    asked: list[BaseException] = []

    def counts(error: BaseException) -> bool:
        asked.append(error)
        return True

    async def hang() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await bench.rested()
        probe = asyncio.create_task(guard(bench.breaker, counts=counts)(hang)())  # type: ignore[arg-type]
        await asyncio.sleep(0)
        with pytest.raises(CircuitOpen):
            await bench.through()
        probe.cancel("enough")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await probe
        assert bench.breaker.state is CircuitState.HALF_OPEN
        await bench.through()

    asyncio.run(main())
    assert asked == []


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_counts_as_neither(interrupt: type[BaseException]) -> None:
    bench = Bench()
    coroutine = guard(bench.breaker, counts=lambda _: True)(answering(interrupt()))()
    with pytest.raises(interrupt):
        coroutine.send(None)  # type: ignore[attr-defined]
    assert bench.breaker.failures == 0


async def test_a_judge_that_raises_keeps_no_probe() -> None:
    bench = Bench()

    def counts(error: BaseException) -> bool:
        raise LookupError("no such code")

    await bench.rested()
    with pytest.raises(LookupError):
        await guard(bench.breaker, counts=counts)(answering(SiteDown()))()
    await bench.through()


def test_an_error_of_an_inner_circuit_is_not_this_ones() -> None:
    inner, outer = Bench(failure_threshold=1), Bench(failure_threshold=1)
    inner.breaker.admit().failed("down")
    both = compose(guard(outer.breaker, counts=down), guard(inner.breaker, counts=down))
    with pytest.raises(CircuitOpen):
        asyncio.run(both(answering())())  # type: ignore[arg-type]
    assert outer.breaker.failures == 0


async def test_the_words_for_an_error_are_the_callers_choice() -> None:
    bench = Bench(failure_threshold=1)
    with pytest.raises(SiteDown):
        await guard(bench.breaker, counts=down, describe=lambda _: "***")(answering(SiteDown("token=1")))()
    assert bench.breaker.error == "***"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("one\ntwo"), "ValueError: one"),
        (TimeoutError(), "TimeoutError"),
        (ValueError("x" * 999), "ValueError: " + "x" * 200),
        (ValueError("\n"), "ValueError"),
    ],
)
def test_an_error_in_brief(error: Exception, said: str) -> None:
    assert describe_error(error) == said


# With leave to wait --------------------------------------------------------------------------------------------------


async def test_it_waits_for_the_probe_when_the_deadline_allows() -> None:
    bench = Bench()
    await bench.fail(5)
    bench.clock.time += 10
    assert await bench.through("at last", bench.until(25)) == "at last"
    assert bench.clock.time == pytest.approx(30)


@pytest.mark.parametrize("seconds", [0, 5, 20])
async def test_it_fails_at_once_when_the_circuit_rests_longer_than_the_deadline(seconds: float) -> None:
    bench = Bench()
    await bench.fail(5)
    bench.clock.time += 10
    with pytest.raises(CircuitOpen):
        await bench.through(wait=bench.until(seconds))
    assert bench.clock.time == 10


async def test_a_circuit_that_is_reset_ends_the_wait() -> None:
    bench = Bench()
    await bench.fail(5)
    waiting = asyncio.create_task(bench.through("early", bench.until(100)))
    while bench.clock.time < 3:
        await asyncio.sleep(0)
    bench.breaker.reset()
    assert await waiting == "early"
    assert bench.clock.time < 6


def test_all_who_wait_get_through_one_after_the_other_and_then_together() -> None:
    bench = Bench()
    running = most = 0

    async def call() -> None:
        nonlocal running, most
        running += 1
        if bench.breaker.state is not CircuitState.CLOSED:
            most = max(most, running)
        await bench.clock.sleep(0.25)
        running -= 1

    async def main() -> None:
        await bench.fail(5)
        waiting = guard(bench.breaker, counts=down, wait=bench.until(100))(call)
        await asyncio.gather(*(waiting() for _ in range(20)))

    asyncio.run(main())
    assert (most, bench.breaker.state) == (1, CircuitState.CLOSED)


async def test_it_does_not_wait_for_a_probe_beyond_the_deadline() -> None:
    bench = Bench()
    await bench.rested()
    probe = bench.breaker.admit()
    with pytest.raises(CircuitOpen) as caught:
        await bench.through(wait=bench.until(4))
    assert caught.value.probing
    assert 3.8 <= bench.clock.time - 30 <= 4
    probe.succeeded()


async def test_when_the_probe_fails_those_who_wait_see_that_it_takes_too_long() -> None:
    bench = Bench()
    await bench.rested()
    probe = bench.breaker.admit()
    waiting = asyncio.create_task(bench.through(wait=bench.until(20)))
    while bench.clock.time < 32:
        await asyncio.sleep(0)
    probe.failed("still down")
    with pytest.raises(CircuitOpen, match="still down"):
        await waiting
    assert bench.clock.time < 34


class CoarseClock(TurningClock):
    """It knows sixteenths of a millisecond, and wakes at the last of them that is not too late."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(int(seconds * 16000) / 16000)


def test_a_wait_for_less_than_the_clocks_grain_ends() -> None:
    bench = Bench(reset_seconds=30.00001)
    bench.clock = CoarseClock()
    bench.breaker = Breaker("service:demo", bench.breaker.settings, now=bench.clock.now)

    async def main() -> None:
        await bench.fail(5)
        await admission(bench.breaker, bench.until(1000))

    asyncio.run(asyncio.wait_for(main(), 10))
    assert bench.clock.time == pytest.approx(30, abs=0.01)


def test_a_successful_call_costs_less_than_20_microseconds() -> None:
    breaker = Breaker("service:demo", now=SystemClock().now)

    async def call() -> None:
        return None

    def seconds(made: Callable[[], Awaitable[None]], times: int = 5000) -> float:
        async def main() -> float:
            started = timeit.default_timer()
            for _ in range(times):
                await made()
            return (timeit.default_timer() - started) / times

        return min(asyncio.run(main()) for _ in range(5))

    assert seconds(guard(breaker, counts=down)(call)) - seconds(call) < 20e-6
