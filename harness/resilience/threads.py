"""A thread of its own for work that may never return: foreign code, a file that is a pipe or lies on a dead server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")

NOT_CARRIED = (StopIteration, GeneratorExit, asyncio.CancelledError, SystemExit, KeyboardInterrupt)
"""What a future cannot carry, or what would end the loop of who waits, or be taken for the cancellation of its task."""


class ThreadReply(Generic[T]):
    """What a thread has to say to whoever awaits this on a loop. It belongs to the loop that it is made on."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[T] = self._loop.create_future()

    def __await__(self) -> Generator[Any, None, T]:
        return self._future.__await__()

    def give(self, result: T) -> None:
        """From any thread, once; unheard when nobody waits any more."""
        self._tell(self._future.set_result, result)

    def fail(self, error: BaseException) -> None:
        """Like `give`; who waits gets the error, or RuntimeError with its cause for one of `NOT_CARRIED`."""
        self._tell(self._future.set_exception, plain(error) if isinstance(error, NOT_CARRIED) else error)

    def _tell(self, setter: Callable[[Any], None], value: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._settle, setter, value)

    def _settle(self, setter: Callable[[Any], None], value: Any) -> None:
        if not self._future.done():
            setter(value)


async def on_own_thread(function: Callable[..., T], *arguments: Any) -> T:
    """What the function returns or raises; for the rest as `asyncio.to_thread`, with the caller's context variables.

    Each call has a new daemon thread. When this is cancelled, the function is left to itself: no other work lacks the
    thread that it keeps, and the end of the process does not wait for it. `asyncio.to_thread` has a handful of threads,
    which the end of the process joins: it is for work that is sure to end.
    """
    reply = ThreadReply[T]()
    work = partial(copy_context().run, function, *arguments)
    name = f"taskspec {getattr(function, '__qualname__', type(function).__name__)}"
    threading.Thread(target=_answer, args=(reply, work), name=name, daemon=True).start()
    return await reply


def _answer(reply: ThreadReply[T], work: Callable[[], T]) -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - whatever it is belongs to who asked
        reply.fail(error)
    else:
        reply.give(result)


def plain(error: BaseException) -> RuntimeError:
    """An error that stands for one that ends more than the work it comes from."""
    stand_in = RuntimeError(f"{type(error).__name__}: {error}")
    stand_in.__cause__ = error
    return stand_in
