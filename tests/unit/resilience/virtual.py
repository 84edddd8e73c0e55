"""A loop whose time passes only when nobody has anything to do: what waits for an hour takes a moment."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from harness.resilience.events import ResilienceEvent
from tests.unit.fakes import START

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Instead of waiting, it moves the time on."""

    time = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise RuntimeError("nothing will ever happen again: a test waits for what nobody does")
        self.time += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.time


class LoopClock:
    """The clock of the loop that runs."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.now())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


def play(main: Coroutine[Any, Any, T]) -> T:
    """Run it under virtual time. A task that nobody waited for, or an error that nobody saw, fails the test."""
    complaints: list[dict[str, Any]] = []
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.get_loop().set_exception_handler(lambda _, context: complaints.append(context))
        answer = runner.run(main)
    assert complaints == []
    return answer


def now() -> float:
    """Virtual seconds since the test began."""
    return asyncio.get_running_loop().time()


@dataclass
class Scripted:
    """A call: each time the next of the script. An exception is raised, a number of seconds passes, else it answers."""

    script: list[Any]
    calls: int = 0
    at: list[float] = field(default_factory=list)
    """When it was called."""

    async def __call__(self) -> Any:
        self.at.append(now())
        step = self.script[min(self.calls, len(self.script) - 1)]
        self.calls += 1
        if isinstance(step, float):
            await asyncio.sleep(step)
            return step
        if isinstance(step, BaseException):
            raise step
        return step


@dataclass
class Story:
    """What was told, in order."""

    events: list[ResilienceEvent] = field(default_factory=list)

    def __call__(self, event: ResilienceEvent) -> None:
        self.events.append(event)

    def of(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]


def answering(value: T) -> Callable[[], Awaitable[T]]:
    async def call() -> T:
        return value

    return call
