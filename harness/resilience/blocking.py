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
from harness.resilience.escalate import seen
from harness.resilience.threads import on_own_thread

P = ParamSpec("P")
T = TypeVar("T")

_LOOK_UP: Final = 0.5
"""Seconds after which the waiting thread looks up, so that Ctrl-C is seen on every platform."""
_STARTING: Final = threading.Lock()


def blocking(policy: Policy[T]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Put a policy around a plain, blocking function; the result is one again.

    The policies run on one loop in a thread that all of these share, so that work which `escalate` leaves behind goes
    on after the caller has its error. Each attempt of the function runs in a thread of its own, with the caller's
    context variables. Python cannot stop a thread: when a `limit` is exceeded, or the caller is interrupted, the
    function runs to its end unheard. Events are emitted on the loop's thread. A policy with memory (a breaker, a cache)
    belongs to either this loop or another one, not to both. Errors: RuntimeError where a loop is running already, since
    waiting would stop it; `await policy(call)()` there.
    """

    def around(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def blocked(*args: P.args, **kwargs: P.kwargs) -> T:
            attempt = _Attempt(partial(function, *args, **kwargs))
            return attempt.outcome(policy(attempt))

        return blocked

    return around


class _Attempt(Generic[T]):
    """The function as a call: each time in a new thread, awaited on the loop."""

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
        # turns it back.
        self._interruption = error
        raise asyncio.CancelledError

    def outcome(self, call: Call[T]) -> T:
        """What the call comes to, waited for here."""
        _refuse_inside_a_loop()
        loop, ended, tasks = _loop(), threading.Event(), list[asyncio.Task[T]]()

        def begin() -> None:
            tasks.append(loop.create_task(_awaited(call)))
            tasks[0].add_done_callback(seen)
            tasks[0].add_done_callback(lambda _: ended.set())

        try:
            loop.call_soon_threadsafe(begin)
            while not ended.wait(_LOOK_UP):
                continue
        except BaseException:
            # It may have come at any point of the above; the loop has begun by the time it comes to this.
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            raise
        if self._interruption is not None:
            raise self._interruption
        return tasks[0].result()


async def _awaited(call: Call[T]) -> T:
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
        return _started(os.getpid())


@cache
def _started(process: int) -> asyncio.AbstractEventLoop:  # noqa: ARG001 - after a fork the thread is gone: another loop
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="resilience", daemon=True).start()
    return loop
