"""Async core, sync face: one loop on one thread of its own; events reach the caller's thread (DESIGN 3)."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")
_DONE = object()
_LOOK_UP = 0.5
"""Seconds after which the waiting thread looks up, so that Ctrl-C is seen on every platform."""


class Caller:
    """The thread that waits, as the loop sees it: it takes events, and runs what must not run on the loop."""

    def __init__(self, events: queue.SimpleQueue[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._events = events
        self._loop = loop

    def __call__(self, event: Any) -> None:
        """Give an event to the sink, in order."""
        self._events.put(event)

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Run a function on the waiting thread, between events; its result, or what it raises."""
        reply: asyncio.Future[T] = self._loop.create_future()
        self._events.put(_Call(self._loop, partial(function, *args), reply))
        return await reply


@dataclass(frozen=True, slots=True)
class _Call:
    """Something for the waiting thread to do."""

    loop: asyncio.AbstractEventLoop
    function: Callable[[], Any]
    reply: asyncio.Future[Any]

    def answer(self) -> None:
        try:
            result = self.function()
        except Exception as error:  # noqa: BLE001 - it belongs to who asked
            self.loop.call_soon_threadsafe(self._settle, self.reply.set_exception, error)
        else:
            self.loop.call_soon_threadsafe(self._settle, self.reply.set_result, result)

    def _settle(self, setter: Callable[[Any], None], value: Any) -> None:
        if not self.reply.done():  # who asked may have been cancelled meanwhile
            setter(value)


class LoopThread:
    """An event loop on a thread of its own. pytest-playwright and pytest-asyncio keep theirs."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="taskspec", daemon=True)
        self._thread.start()

    def run(self, main: Callable[[Caller], Coroutine[Any, Any, T]], sink: Callable[[Any], None]) -> T:
        """Run `main(caller)`; the events given to the caller reach `sink` on the calling thread, in order.

        KeyboardInterrupt (or whatever else breaks into the wait) cancels `main`, waits for its orderly end, delivers
        the events emitted meanwhile, and is raised again.
        """
        events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        outcome: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            task = self._loop.create_task(main(Caller(events, self._loop)))
            tasks.append(task)
            task.add_done_callback(lambda done: _settle(done, outcome))
            task.add_done_callback(lambda _: events.put(_DONE))

        self._loop.call_soon_threadsafe(start)
        try:
            _drain(events, sink)
        except BaseException:
            self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            _drain(events, sink)
            raise
        return outcome.result()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, without events."""
        return self.run(lambda _: coroutine, lambda _: None)

    def close(self) -> None:
        """Stop the loop; its thread ends."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()


def _settle(task: asyncio.Task[T], outcome: Future[T]) -> None:
    if task.cancelled():
        outcome.cancel()
    elif error := task.exception():
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


def _drain(events: queue.SimpleQueue[Any], sink: Callable[[Any], None]) -> None:
    while True:
        try:
            event = events.get(timeout=_LOOK_UP)
        except queue.Empty:
            continue
        if event is _DONE:
            return
        if isinstance(event, _Call):
            event.answer()
        else:
            sink(event)
