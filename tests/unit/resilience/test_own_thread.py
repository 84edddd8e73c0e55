"""A thread of its own for what may never return."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from harness.resilience.threads import on_own_thread

LONG = 60.0
"""Seconds: far more than any of these tests takes."""
TASK: ContextVar[str] = ContextVar("task", default="nobody")


class Stop(BaseException):
    """Like an outcome of pytest: no Exception, and none that ends a loop."""


def raising(error: BaseException) -> None:
    raise error


async def outcome(error: BaseException) -> BaseException | None:
    try:
        async with asyncio.timeout(LONG):
            await on_own_thread(raising, error)
    except BaseException as found:
        return found
    return None


def test_it_runs_in_the_context_of_who_waits_for_it() -> None:
    async def main() -> str:
        TASK.set("T-1")
        return await on_own_thread(TASK.get)

    assert asyncio.run(main()) == "T-1"


@pytest.mark.parametrize("error", [KeyError("k"), TimeoutError(), Stop("s")])
def test_an_error_comes_as_it_is(error: BaseException) -> None:
    assert asyncio.run(outcome(error)) is error


@pytest.mark.parametrize("error", [StopIteration(1), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_what_would_end_the_loop_or_be_never_heard_comes_as_a_plain_error(error: BaseException) -> None:
    found = asyncio.run(outcome(error))
    assert type(found) is RuntimeError
    assert str(found) == f"{type(error).__name__}: {error}"
    assert found.__cause__ is error


async def test_work_that_nobody_waits_for_ends_quietly_after_its_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    begun, released, threads = threading.Event(), threading.Event(), list[threading.Thread]()

    def work() -> None:
        threads.append(threading.current_thread())
        begun.set()
        released.wait(LONG)

    call = asyncio.ensure_future(on_own_thread(work))
    assert await asyncio.to_thread(begun.wait, LONG)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert [(each.daemon, each.is_alive()) for each in threads] == [(True, True)]
    released.set()
    threads[0].join(LONG)
    assert told == []


async def test_where_no_thread_starts_any_more_the_work_is_done_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")  # as Python 3.12 says

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert await on_own_thread(threading.get_ident) == threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await on_own_thread(lambda: 1 / 0)
