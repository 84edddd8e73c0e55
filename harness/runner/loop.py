"""One asyncio loop on a thread of its own, with synchronous callers; events reach the caller's thread."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec import Struct

from harness.resilience.threads import ThreadReply

T = TypeVar("T")
_DONE = object()
_POLL_SECONDS = 0.1
"""Seconds between two wake-ups of the waiting thread: for events, and so that Ctrl-C is noticed on every platform."""
_END_SECONDS = 1.0
"""Seconds that what still runs at the end of a loop may take to end."""


class EventQueue:
    """The items from the loop's thread for the waiting one, in order. Urgent items wake it; the others are found later.

    Waking a thread for every event would take processor time from the steps, several times in each.
    """

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._wakeup: queue.SimpleQueue[None] = queue.SimpleQueue()

    def put(self, item: Any, *, ring: bool = False) -> None:
        self._items.append(item)
        if ring:
            self._wakeup.put(None)

    def take(self, seconds: float) -> Iterator[Any]:
        """The present items; if there are none, those after the next wake-up, or after so many seconds."""
        if not self._items:
            with contextlib.suppress(queue.Empty):
                self._wakeup.get(timeout=seconds)
        while self._items:
            yield self._items.popleft()


class Caller:
    """The waiting thread as the loop sees it: it takes events, and runs functions that must not run on the loop."""

    def __init__(self, events: EventQueue, hear: Callable[[Any], None] | None = None) -> None:
        """`hear` receives each event at once, on the loop's thread; the sink may get it much later."""
        self._events = events
        self._hear = hear

    def heard_by(self, hear: Callable[[Any], None]) -> Caller:
        """A caller whose events `hear` receives too."""
        return Caller(self._events, hear)

    def __call__(self, event: Any) -> None:
        """Pass an event to the sink, in order."""
        if self._hear is not None:
            self._hear(event)
        self._events.put(event)

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Run a function on the waiting thread, between events; returns or raises what it does."""
        reply = ThreadReply[T]()
        self._events.put(_Call(partial(function, *args), reply), ring=True)
        return await reply


class _Call(Struct, frozen=True):
    """A function for the waiting thread to run."""

    function: Callable[[], Any]
    reply: ThreadReply[Any]

    def answer(self) -> None:
        try:
            result = self.function()
        except Exception as error:  # noqa: BLE001 - it belongs to who asked
            self.reply.fail(error)
        else:
            self.reply.set_result(result)


class LoopFuture(Generic[T]):
    """A coroutine on the loop, whether or not a thread waits for it already."""

    def __init__(self, loop: asyncio.AbstractEventLoop, events: EventQueue) -> None:
        self._loop = loop
        self._events = events
        self._outcome: Future[T] = Future()
        self._task: asyncio.Task[T] | None = None

    def start(self, main: Coroutine[Any, Any, T]) -> None:
        """Start it; called on the loop's thread."""
        self._task = self._loop.create_task(main)
        self._task.add_done_callback(lambda done: _settle(done, self._outcome))
        self._task.add_done_callback(lambda _: self._events.put(_DONE, ring=True))

    def finish(self, sink: Callable[[Any], None], idle: Callable[[], None] | None = None) -> T:
        """Wait, and return or raise the result; events reach `sink` on this thread (LoopThread.run). Call it once.

        `idle` is called on this thread several times a second.
        """
        try:
            _drain(self._events, sink, idle)
        except BaseException as error:
            self.cancel(None if isinstance(error, Exception) else getattr(error, "msg", None))
            _drain(self._events, sink)
            raise
        return self._outcome.result()

    def cancel(self, why: str | None = None) -> None:
        """Request its end, which may take time. From any thread. `why`: the words of a plugin that ends one test."""
        self._loop.call_soon_threadsafe(lambda: self._task and self._task.cancel(why))


class LoopThread:
    """An event loop on a thread of its own. pytest-playwright and pytest-asyncio keep theirs."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="taskspec", daemon=True)
        self._thread.start()

    def begin(self, main: Callable[[Caller], Coroutine[Any, Any, T]]) -> LoopFuture[T]:
        """Start `main(caller)`; items for the caller wait until a thread finishes it. From any thread."""
        events = EventQueue()
        pending = LoopFuture[T](self._loop, events)
        self._loop.call_soon_threadsafe(lambda: pending.start(main(Caller(events))))
        return pending

    def run(self, main: Callable[[Caller], Coroutine[Any, Any, T]], sink: Callable[[Any], None]) -> T:
        """Run `main(caller)`; the events given to the caller reach `sink` on the calling thread, in order.

        KeyboardInterrupt (or another exception that interrupts the wait) cancels `main`, waits for its regular end,
        delivers the events emitted meanwhile, and is raised again.
        """
        return self.begin(main).finish(sink)

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, without events."""
        return self.run(lambda _: coroutine, lambda _: None)

    def _run(self) -> None:
        """Run until it is stopped; then what still runs is cancelled, as at the end of `asyncio.run`."""
        self._loop.run_forever()
        if left := asyncio.all_tasks(self._loop):
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(left, timeout=_END_SECONDS))

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


def _drain(events: EventQueue, sink: Callable[[Any], None], idle: Callable[[], None] | None = None) -> None:
    while True:
        if idle is not None:
            idle()
        for event in events.take(_POLL_SECONDS):
            if event is _DONE:
                return
            if isinstance(event, _Call):
                event.answer()
            else:
                sink(event)
