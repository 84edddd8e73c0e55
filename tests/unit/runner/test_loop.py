"""The loop thread: events on the caller's thread, interruption with an orderly end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.runner.loop import LoopThread


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


def test_events_arrive_in_order_on_the_callers_thread(loop: LoopThread) -> None:
    seen: list[tuple[Any, int]] = []

    async def main(emit: Callable[[Any], None]) -> str:
        for number in range(3):
            emit(number)
            await asyncio.sleep(0)
        return "done"

    assert loop.run(main, lambda event: seen.append((event, threading.get_ident()))) == "done"
    assert seen == [(number, threading.get_ident()) for number in range(3)]


def test_an_interruption_cancels_waits_for_the_end_and_is_raised_again(loop: LoopThread) -> None:
    seen: list[str] = []

    async def main(emit: Callable[[Any], None]) -> None:
        emit("started")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            emit("ended in order")

    def sink(event: str) -> None:
        seen.append(event)
        if event == "started":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop.run(main, sink)
    assert seen == ["started", "ended in order"]


def test_an_exception_of_main_reaches_the_caller(loop: LoopThread) -> None:
    async def main(emit: Callable[[Any], None]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop.run(main, lambda event: None)


def test_call_runs_a_coroutine(loop: LoopThread) -> None:
    assert loop.call(asyncio.sleep(0, "x")) == "x"
