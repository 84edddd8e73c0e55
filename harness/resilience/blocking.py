"""Policies around plain functions, for code that has no event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import cache, partial, wraps
from typing import Final, Generic, ParamSpec, TypeVar

from harness.resilience.breaker import Call, Policy
from harness.resilience.escalate import retrieve_error
from harness.resilience.threads import on_own_thread

P = ParamSpec("P")
T = TypeVar("T")

_POLL_SECONDS: Final = 0.5
"""Seconds between two wake-ups of the waiting thread, so that Ctrl-C is noticed on every platform."""
_STARTING: Final = threading.Lock()


def blocking(policy: Policy[T]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Put a policy around a plain, blocking function; the result is a blocking function too.

    All policies made here run on one loop in one shared thread, so that work which `escalate` leaves behind goes on
    after the caller has its error. Each attempt of the function runs in a thread of its own, with the caller's context
    variables. Python cannot stop a thread: when a `limit` is exceeded, or the caller is interrupted, the function runs
    to its end and its result is dropped. Events are emitted on the loop's thread. A policy with memory (a breaker, a
    cache) belongs to either this loop or another one, not to both. Raises RuntimeError where a loop is running already,
    since waiting would stop it; use `await policy(call)()` there.
    """

    def around(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def blocked(*args: P.args, **kwargs: P.kwargs) -> T:
            attempt = _Attempt(partial(function, *args, **kwargs))
            return attempt.outcome(policy(attempt))

        return blocked

    return around


class _Attempt(Generic[T]):
    """The function as a call: it runs in a new thread each time and is awaited on the loop."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._context = copy_context()
        self._interruption: BaseException | None = None

    async def __call__(self) -> T:
        done: Future[T] = Future()

        def work() -> None:
            try:
                done.set_result(self._context.copy().run(self._function))
            except BaseException as error:  # noqa: BLE001 - whatever it is belongs to who called
                done.set_exception(error)

        await on_own_thread(work)
        error = done.exception()
        if error is None or isinstance(error, Exception):
            return done.result()
        # SystemExit and the like would end the loop's thread. A cancellation passes all policies instead, and `outcome`
        # converts it back.
        self._interruption = error
        raise asyncio.CancelledError

    def outcome(self, call: Call[T]) -> T:
        """Wait in the calling thread until the call has ended; return its result, or raise its error."""
        _refuse_inside_a_loop()
        loop, ended, tasks = _loop(), threading.Event(), list[asyncio.Task[T]]()

        def begin() -> None:
            tasks.append(loop.create_task(_await_call(call)))
            tasks[0].add_done_callback(retrieve_error)
            tasks[0].add_done_callback(lambda _: ended.set())

        try:
            loop.call_soon_threadsafe(begin)
            while not ended.wait(_POLL_SECONDS):
                continue
        except BaseException:
            # The interruption may have come at any point above; the loop has begun when it runs this.
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            raise
        if self._interruption is not None:
            raise self._interruption
        return tasks[0].result()


async def _await_call(call: Call[T]) -> T:
    return await call()


def _refuse_inside_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "blocking: an event loop runs in this thread, and waiting would stop it; use `await policy(call)()` here"
    )


def _loop() -> asyncio.AbstractEventLoop:
    with _STARTING:
        return _start_loop(os.getpid())


@cache
def _start_loop(process: int) -> asyncio.AbstractEventLoop:  # noqa: ARG001 - after a fork the thread is gone: another loop
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="resilience", daemon=True).start()
    return loop
