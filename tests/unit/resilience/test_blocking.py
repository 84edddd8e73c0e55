"""Policies around plain functions, from code without a loop."""

from __future__ import annotations

import _thread
import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from harness.resilience import Backoff
from harness.resilience.blocking import blocking
from harness.resilience.breaker import Breaker, BreakerSettings, CircuitOpen, compose, guard
from harness.resilience.clock import SystemClock
from harness.resilience.escalate import StillRunning, WorkStatus, escalate
from harness.resilience.events import Retrying
from harness.resilience.fallback import Secondary, fallback
from harness.resilience.limit import LimitExceeded, limit
from harness.resilience.retry import retry
from tests.unit.resilience.virtual import Story, answering

AT_ONCE = Backoff(3, 0.0)
LONG = 60.0
"""Seconds: far more than any of these tests takes."""


def test_a_plain_function_is_retried() -> None:
    story, results = Story(), [ConnectionResetError(), TimeoutError(), "answer"]

    @blocking(retry(AT_ONCE, emit=story))
    def fetch(*wanted: str, upper: bool) -> str:
        """Fetch it."""
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return " ".join([result, *wanted]).upper() if upper else result

    assert fetch("a", "b", upper=True) == "ANSWER A B"
    assert [event.category for event in story.of(Retrying)] == ["network", "timeout"]
    assert (fetch.__name__, fetch.__doc__) == ("fetch", "Fetch it.")


def test_a_function_that_hangs_is_left_behind_by_a_limit() -> None:
    release, ended = threading.Event(), threading.Event()

    @blocking(limit(0.05, "hang"))
    def hang() -> None:
        release.wait(LONG)
        ended.set()

    with pytest.raises(LimitExceeded, match=r"hang took longer than 0.05 s"):
        hang()
    assert not ended.is_set()
    release.set()
    assert ended.wait(LONG), "it runs to its end unheard"


def test_work_that_is_left_behind_by_escalation_goes_on_and_its_answer_is_kept() -> None:
    release = threading.Event()

    @blocking(escalate((0.05,)))
    def slow() -> str:
        release.wait(LONG)
        return "late"

    with pytest.raises(StillRunning) as caught:
        slow()
    answer = caught.value.answer
    assert answer.status is WorkStatus.TIMEOUT
    release.set()
    assert _eventually(lambda: answer.status is WorkStatus.COMPLETE)
    assert answer.result() == "late"


def _eventually(condition: Any) -> bool:
    pause = threading.Event()
    return any(condition() or pause.wait(0.01) for _ in range(int(LONG / 0.01)))


def test_all_of_them_around_one_function() -> None:
    breaker = Breaker("provider:claude", BreakerSettings(failure_threshold=2), now=SystemClock().now)
    policy = compose(
        fallback(Secondary("openai", answering("of openai"))),
        retry(AT_ONCE),
        guard(breaker, counts=lambda _: True),
        limit(LONG),
        escalate(),
    )
    calls: list[int] = []

    @blocking(policy)
    def ask() -> str:
        calls.append(1)
        raise ConnectionResetError

    assert [ask(), ask()] == ["of openai", "of openai"]
    assert len(calls) == 2, "then the circuit is open"

    @blocking(guard(breaker, counts=lambda _: True))
    def alone() -> str:
        return "answer"

    with pytest.raises(CircuitOpen):
        alone()


def test_inside_a_running_loop_it_is_refused() -> None:
    calls: list[int] = []

    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"an event loop runs in this thread.*await policy\(call\)\(\)"):
            blocking(limit(1))(lambda: calls.append(1))()

    asyncio.run(main())
    assert calls == []


def test_from_many_threads_at_once() -> None:
    policy, answers = retry(AT_ONCE), []
    failed: set[int] = set()

    def work(number: int) -> int:
        if number not in failed:
            failed.add(number)
            raise ConnectionResetError
        return number

    threads = [
        threading.Thread(target=lambda n=n: answers.append(blocking(policy)(work)(n)), daemon=True) for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert sorted(answers) == list(range(20))


def test_the_function_sees_the_callers_context() -> None:
    user: ContextVar[str] = ContextVar("user", default="nobody")
    user.set("ada")
    assert blocking(limit(LONG))(user.get)() == "ada"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt("in the thread"), asyncio.CancelledError("own")])
def test_what_is_no_exception_reaches_the_caller_through_all_policies(error: BaseException) -> None:
    calls: list[int] = []

    def leave() -> None:
        calls.append(1)
        raise error

    policy = compose(fallback(degraded=lambda: None), retry(AT_ONCE), limit(LONG), escalate())
    with pytest.raises(type(error)) as caught:
        blocking(policy)(leave)()
    assert (caught.value, calls) == (error, [1])
    assert blocking(policy)(lambda: "and the loop still runs")() == "and the loop still runs"


def test_an_iteration_that_stops_does_not_hang() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        blocking(limit(LONG))(lambda: next(iter(())))()


def test_an_interrupt_of_the_waiting_thread_ends_the_waiting_and_cancels() -> None:
    release, cancelled = threading.Event(), threading.Event()

    def watched(call: Any) -> Any:
        async def watching() -> Any:
            try:
                return await call()
            except asyncio.CancelledError:
                cancelled.set()
                raise

        return watching

    def hang() -> None:
        _thread.interrupt_main()
        release.wait(LONG)

    with pytest.raises(KeyboardInterrupt):
        blocking(compose(fallback(degraded=lambda: None), retry(AT_ONCE), watched))(hang)()
    assert cancelled.wait(LONG)
    release.set()
