"""The fallback chain: primary, secondaries, cached, degraded, notification."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.resilience.breaker import Call
from harness.resilience.events import Degraded, FellBack
from harness.resilience.fallback import Secondary, fallback
from tests.unit.resilience.virtual import LoopClock, Scripted, Story, play

pytestmark = pytest.mark.fake_clock

DOWN = ConnectionRefusedError("claude is down")


def test_the_primary_answer_is_given_and_nothing_else_is_asked() -> None:
    other, story = Scripted(["other"]), Story()
    assert play(fallback(Secondary("openai", other), emit=story)(Scripted(["answer"]))()) == "answer"
    assert (other.calls, story.events) == (0, [])


def test_secondaries_are_tried_in_order() -> None:
    openai, xai, story = Scripted([TimeoutError("slow")]), Scripted(["answer of xai"]), Story()
    policy = fallback(Secondary("openai", openai), Secondary("xai", xai), primary="claude", name="ask", emit=story)
    assert play(policy(Scripted([DOWN]))()) == "answer of xai"
    assert story.events == [
        FellBack("ask", "claude", "openai", "ConnectionRefusedError: claude is down"),
        FellBack("ask", "openai", "xai", "TimeoutError: slow"),
    ]


def test_a_secondary_whose_condition_does_not_hold_is_left_out() -> None:
    quiet, asked = Scripted(["no"]), []

    def condition(error: Exception) -> bool:
        asked.append(error)
        return isinstance(error, TimeoutError)

    policy = fallback(Secondary("openai", quiet, condition), Secondary("xai", Scripted(["yes"])))
    assert play(policy(Scripted([DOWN]))()) == "yes"
    assert (quiet.calls, asked) == (0, [DOWN])


def test_the_last_good_answer_is_given_while_it_is_fresh() -> None:
    async def main() -> None:
        policy = fallback(max_age=60, clock=LoopClock(), emit=story, name="prices")
        call = policy(Scripted(["first", DOWN, "second", DOWN]))
        assert await call() == "first"
        await asyncio.sleep(60)
        assert await call() == "first"
        assert story.events == [FellBack("prices", "primary", "cached", "ConnectionRefusedError: claude is down")]
        assert await call() == "second"
        assert await call() == "second"
        await asyncio.sleep(60.1)
        with pytest.raises(ConnectionRefusedError):
            await call()

    story = Story()
    play(main())


async def test_a_good_answer_may_be_none_and_may_come_from_a_secondary() -> None:
    policy = fallback(Secondary("b", Scripted([None, DOWN])), max_age=60, clock=LoopClock(), degraded=lambda: "no")
    call = policy(Scripted([DOWN]))
    assert [await call(), await call()] == [None, None]


async def test_without_an_age_nothing_is_kept() -> None:
    call = fallback()(Scripted(["answer", ValueError("no")]))
    assert await call() == "answer"
    with pytest.raises(ValueError, match="no"):
        await call()


def test_the_degraded_answer_comes_after_all_others() -> None:
    story = Story()
    policy = fallback(Secondary("openai", Scripted([DOWN])), max_age=1, degraded=lambda: "read-only", emit=story)
    assert play(policy(Scripted([TimeoutError("slow")]))()) == "read-only"
    assert story.events[-1] == Degraded("call", "TimeoutError: slow")


def test_when_nothing_works_somebody_is_told_and_the_original_error_is_raised_with_the_others_noted() -> None:
    def nothing() -> str:
        raise KeyError("no template")

    told: list[Exception] = []
    story = Story()
    policy = fallback(
        Secondary("openai", Scripted([TimeoutError("slow")])), degraded=nothing, notify=told.append, emit=story
    )
    error = ConnectionResetError("gone")
    with pytest.raises(ConnectionResetError) as caught:
        play(policy(Scripted([error]))())
    assert caught.value is error
    assert told == [error]
    assert error.__notes__ == ["openai failed too: TimeoutError: slow", "degraded failed too: KeyError: 'no template'"]
    assert story.of(Degraded) == []


def test_a_notification_that_fails_hides_nothing() -> None:
    def notify(error: Exception) -> None:
        raise OSError("no mail today")

    with pytest.raises(ValueError, match="original") as caught:
        play(fallback(notify=notify)(Scripted([ValueError("original")]))())
    assert caught.value.__notes__ == ["notify failed too: OSError: no mail today"]


CANCELLED = asyncio.CancelledError()


def _cancel() -> Any:
    raise CANCELLED


STAGES: dict[str, Callable[[Call[Any]], Call[Any]]] = {
    "primary": fallback(Secondary("b", Scripted(["no"])), degraded=lambda: "no"),
    "secondary": lambda bad: fallback(Secondary("b", bad), degraded=lambda: "no")(Scripted([DOWN])),
    "degraded": lambda _: fallback(degraded=_cancel, notify=lambda _: None)(Scripted([DOWN])),
    "notify": lambda _: fallback(notify=lambda _: _cancel())(Scripted([DOWN])),
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_cancellation_passes_at_every_stage(stage: str) -> None:
    async def main() -> BaseException:
        try:
            await STAGES[stage](Scripted([CANCELLED]))()
        except BaseException as passed:
            return passed
        raise AssertionError("it was swallowed")

    assert play(main()) is CANCELLED
