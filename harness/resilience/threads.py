"""A separate thread for work that may never return: foreign code, a file that is a pipe or lies on a dead server."""

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
"""Exceptions that a future cannot carry, or that would end the awaiting loop, or look like a cancellation of its task.
"""


class ThreadReply(Generic[T]):
    """The result of a thread for a coroutine that awaits it. It belongs to the loop that it is made on."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[T] = self._loop.create_future()

    def __await__(self) -> Generator[Any, None, T]:
        return self._future.__await__()

    def set_result(self, result: T) -> None:
        """Set the result, once, from any thread; it is dropped if nobody waits any more."""
        self._tell(self._future.set_result, result)

    def fail(self, error: BaseException) -> None:
        """Set the error, like `set_result`; an error of `NOT_CARRIED` becomes the cause of a RuntimeError."""
        self._tell(self._future.set_exception, plain_error(error) if isinstance(error, NOT_CARRIED) else error)

    def _tell(self, setter: Callable[[Any], None], value: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._settle, setter, value)

    def _settle(self, setter: Callable[[Any], None], value: Any) -> None:
        if not self._future.done():
            setter(value)


async def on_own_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Run the function in a new daemon thread, as `asyncio.to_thread`, with the caller's context variables.

    Returns or raises what the function does. When this is cancelled, the function runs on alone: it takes no thread
    from other work, and the end of the process does not wait for it. `asyncio.to_thread` has a handful of threads,
    which the end of the process joins: it is for work that is sure to end.
    """
    reply = ThreadReply[T]()
    work = partial(copy_context().run, function, *arguments)
    name = f"taskspec {getattr(function, '__qualname__', type(function).__name__)}"
    thread = threading.Thread(target=_answer, args=(reply, work), name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # Python 3.12 starts none while the process ends, and what is left to clean up must be done
        _answer(reply, work)
    return await reply


def _answer(reply: ThreadReply[T], work: Callable[[], T]) -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - whatever it is belongs to who asked
        reply.fail(error)
    else:
        reply.set_result(result)


def plain_error(error: BaseException) -> RuntimeError:
    """A RuntimeError in place of an error that would end more than the work that raised it."""
    stand_in = RuntimeError(f"{type(error).__name__}: {error}")
    stand_in.__cause__ = error
    return stand_in
