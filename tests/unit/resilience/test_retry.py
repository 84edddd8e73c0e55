"""Retry: how often, after which waits, what is told, and what passes untouched."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tenacity import TryAgain

from harness.resilience import Backoff, Deadline
from harness.resilience.breaker import Policy
from harness.resilience.events import GaveUp, Recovered, Retrying
from harness.resilience.retry import BACKOFF, SCHEDULES, Delays, DelayTable, retry, schedule
from harness.resilience.verdict import CallErrorCategory, RetryVerdict
from tests.unit.resilience.virtual import LoopClock, Scripted, Story, now, play

REFUSED = ConnectionRefusedError(111, "Connection refused")
DNS = socket.gaierror(-2, "Name or service not known")
PLAIN = Backoff(3, 1, 2)


class Limited(Exception):
    """A 429."""

    def __init__(self, seconds: str) -> None:
        super().__init__("429 Too Many Requests")
        self.response = SimpleNamespace(status_code=429, headers={"Retry-After": seconds})


class Unavailable(Exception):
    """A 503."""

    response = SimpleNamespace(status_code=503, headers={})


def retrying(delays: Delays = PLAIN, **terms: Any) -> Policy[Any]:
    return retry(delays, **{"clock": LoopClock(), "random": lambda: 0.5, **terms})


def test_retry_en_error_transitorio() -> None:
    """An answer 503 is retried up to three times, after growing delays, and each retry is told: 2 of 3."""
    call, story = Scripted([Unavailable("503 Service Unavailable")]), Story()
    with pytest.raises(Unavailable):
        play(retrying(emit=story, name="claude")(call)())
    assert call.at == [0, 1, 3, 7]
    assert [(event.attempt, event.retries, event.delay) for event in story.of(Retrying)] == [
        (1, 3, 1),
        (2, 3, 2),
        (3, 3, 4),
    ]
    assert story.events[1] == Retrying("claude", 2, 3, 2, "Unavailable: 503 Service Unavailable", "unavailable")
    assert story.events[-1] == GaveUp("claude", "Unavailable: 503 Service Unavailable", True, "unavailable")


def test_the_default_is_that_of_specs_004() -> None:
    assert (BACKOFF.retries, BACKOFF.initial, BACKOFF.multiplier, BACKOFF.cap, BACKOFF.jitter) == (3, 1, 2, 30, 0.2)
    call = Scripted([REFUSED])
    with pytest.raises(ConnectionRefusedError):
        play(retry(clock=LoopClock(), random=lambda: 0.0)(call)())
    assert call.at == pytest.approx([0, 0.8, 0.8 + 1.6, 0.8 + 1.6 + 3.2])


def test_a_call_that_succeeds_is_made_once_and_nothing_is_told() -> None:
    call, story = Scripted(["answer"]), Story()
    assert play(retrying(emit=story)(call)()) == "answer"
    assert (call.calls, story.events) == (1, [])


def test_a_recovery_says_after_how_long_and_how_many_attempts() -> None:
    call, story = Scripted([REFUSED, 0.5, "answer"]), Story()
    slow_failure = Scripted([REFUSED, REFUSED, "answer"])
    assert play(retrying(emit=story, name="db")(slow_failure)()) == "answer"
    assert story.events[-1] == Recovered("db", 3.0, 3, "network")
    assert play(retrying(emit=story)(call)()) == 0.5
    assert story.events[-1] == Recovered("call", 1.5, 2, "network")


def test_the_error_at_the_end_is_the_last_one_itself() -> None:
    errors = [ConnectionResetError(str(number)) for number in range(4)]
    with pytest.raises(ConnectionResetError) as caught:
        play(retrying()(Scripted([*errors]))())
    assert caught.value is errors[-1]


def test_an_error_that_no_retry_helps_ends_it_at_once() -> None:
    call, story = Scripted([PermissionError(13, "denied")]), Story()
    with pytest.raises(PermissionError) as caught:
        play(retrying(emit=story)(call)())
    assert (call.calls, caught.value) == (1, call.script[0])
    assert story.events == [GaveUp("call", "PermissionError: [Errno 13] denied", False, "auth")]


def test_nothing_is_waited_for_after_the_last_failure() -> None:
    async def main() -> float:
        with pytest.raises(ConnectionRefusedError):
            await retrying()(Scripted([REFUSED]))()
        return now()

    assert play(main()) == 1 + 2 + 4


def test_each_kind_of_error_has_a_budget_of_its_own() -> None:
    call = Scripted([REFUSED, DNS, DNS, "answer"])
    assert play(retrying()(call)()) == "answer"
    assert call.calls == 4
    call = Scripted([DNS])
    with pytest.raises(socket.gaierror):
        play(retrying()(call)())
    assert call.calls == 3, "two retries for name resolution"
    call, story = Scripted([DNS, MemoryError(), DNS, MemoryError(), "never"]), Story()
    with pytest.raises(MemoryError):
        play(retrying(Backoff(9, 1, 1), emit=story)(call)())
    assert call.calls == 4, "out of memory: retry once, then fail"
    assert [(event.attempt, event.retries) for event in story.of(Retrying)] == [(1, 2), (2, 2), (3, 3)]


def test_all_kinds_together_have_the_budget_of_the_schedule() -> None:
    call = Scripted([REFUSED, TimeoutError(), DNS, Unavailable()])
    with pytest.raises(Unavailable):
        play(retrying()(call)())
    assert call.calls == 4


def test_what_the_server_suggests_takes_the_place_of_the_schedules_delay() -> None:
    call = Scripted([Limited("7"), REFUSED, Limited("0"), "answer"])
    assert play(retrying()(call)()) == "answer"
    assert call.at == [0, 7, 9, 9]


def test_a_server_that_asks_for_too_much_is_not_waited_for_and_that_is_said() -> None:
    call, story = Scripted([Limited("61")]), Story()
    with pytest.raises(Limited) as caught:
        play(retrying(emit=story)(call)())
    said = "not tried again: the other side asks to wait 61 s, more than the 60 s allowed"
    assert (call.calls, caught.value.__notes__) == (1, [said])
    assert story.events == [GaveUp("call", f"Limited: 429 Too Many Requests; {said}", True, "rate_limit")]
    call = Scripted([Limited("61"), "answer"])
    assert play(retrying(max_suggested=120)(call)()) == "answer"


def test_the_cap_shortens_the_schedule_and_not_what_the_server_suggests() -> None:
    call = Scripted([REFUSED, Limited("20"), REFUSED, "answer"])
    assert play(retrying(DelayTable((10.0,), 5), cap=3)(call)()) == "answer"
    assert call.at == [0, 3, 23, 26]


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_named_schedule_in_action(name: str) -> None:
    call = Scripted([REFUSED])
    with pytest.raises(ConnectionRefusedError):
        play(retrying(schedule(name))(call)())
    waits = [after - before for before, after in zip(call.at, call.at[1:], strict=False)]
    assert waits == pytest.approx(list(SCHEDULES[name]))


def test_a_wait_that_would_not_end_before_the_deadline_is_not_started() -> None:
    async def main() -> float:
        with pytest.raises(ConnectionRefusedError) as caught:
            await retrying(until=Deadline(3.0), emit=story)(call)()
        assert caught.value.__notes__ == ["not tried again: a wait of 2 s would not end before the deadline"]
        return now()

    call, story = Scripted([ConnectionRefusedError()]), Story()
    assert play(main()) == 1.0
    assert call.calls == 2
    assert story.of(GaveUp)[0].exhausted


def test_switched_off_it_is_the_call_itself() -> None:
    """RESILIENCE_ENABLED=false turns retries off."""
    call = Scripted([REFUSED])
    assert retry(enabled=False)(call) is call


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError(), GeneratorExit()])
@pytest.mark.parametrize("before", [0, 1])
def test_what_is_no_exception_passes_untouched(error: BaseException, before: int) -> None:
    call, story = Scripted([REFUSED] * before + [error]), Story()

    async def main() -> BaseException:
        # Driven by hand: a task would hand KeyboardInterrupt and SystemExit on to the loop.
        try:
            await retrying(DelayTable((0.0,), 3), emit=story)(call)()
        except BaseException as passed:
            return passed
        raise AssertionError("it was swallowed")

    assert play(main()) is error
    assert (call.calls, story.of(GaveUp), story.of(Recovered)) == (before + 1, [], [])


def test_a_cancellation_ends_the_wait_at_once() -> None:
    async def main() -> None:
        task = asyncio.create_task(retrying(DelayTable((1000.0,), 3), emit=story)(call)())
        await asyncio.sleep(10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (now(), call.calls) == (10, 1)

    call, story = Scripted([REFUSED]), Story()
    play(main())
    assert story.of(GaveUp) == []


def test_the_loops_own_exception_is_an_error_like_others() -> None:
    call = Scripted([TryAgain("tenacity would go on for ever")])
    with pytest.raises(TryAgain):
        play(retrying()(call)())
    assert call.calls == 1


def test_calls_at_once_do_not_share_a_budget() -> None:
    async def main() -> list[Any]:
        return await asyncio.gather(*(policy(call)() for call in calls))

    calls, policy = [Scripted([REFUSED, REFUSED, REFUSED, number]) for number in range(20)], retrying()
    assert play(main()) == list(range(20))
    assert {call.calls for call in calls} == {4}


@given(
    st.lists(st.sampled_from(["network", "dns", "memory", "suggested", "defect"]), max_size=12),
    st.integers(0, 8),
    st.floats(0, 1),
)
def test_never_more_often_than_the_budgets_and_never_longer_than_what_was_told(
    kinds: list[str], retries: int, jitter: float
) -> None:
    errors = {"network": REFUSED, "dns": DNS, "memory": MemoryError(), "suggested": Limited("5"), "defect": KeyError()}
    call, story = Scripted([*(errors[kind] for kind in kinds), "answer"]), Story()

    async def main() -> tuple[Any, float]:
        try:
            answer = await retrying(Backoff(retries, jitter=jitter), emit=story, random=lambda: 0.3)(call)()
        except Exception as error:
            answer = error
        return answer, now()

    answer, waited = play(main())
    assert answer is call.script[call.calls - 1]
    made = kinds[: call.calls - 1]
    assert len(made) <= retries
    assert made.count("dns") <= 2
    assert made.count("memory") <= 1
    assert "defect" not in made
    assert waited == pytest.approx(sum(event.delay for event in story.of(Retrying)))
    assert len(story.of(Retrying)) == call.calls - 1
    assert len(story.of(Recovered)) + len(story.of(GaveUp)) == (1 if kinds else 0)


def test_delays_that_are_fewer_than_said_end_it() -> None:
    call = Scripted([REFUSED])
    with pytest.raises(ConnectionRefusedError):
        play(retrying(SimpleNamespace(retries=5, delays=lambda _: iter([1.0])))(call)())
    assert call.calls == 2


def test_a_classifier_of_ones_own() -> None:
    call = Scripted([KeyError("late"), "answer"])
    own = lambda error: RetryVerdict(CallErrorCategory.VALIDATION, retryable=True, message=str(error))  # noqa: E731
    assert play(retrying(classify=own)(call)()) == "answer"
