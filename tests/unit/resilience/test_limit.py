"""Limit: its own timeout, told apart from every other."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.resilience.limit import DEFAULT, OPERATIONS, TOOL_TIMEOUTS, LimitExceeded, limit
from harness.resilience.verdict import CallErrorCategory, classify
from tests.unit.resilience.virtual import Scripted, now, play

pytestmark = pytest.mark.fake_clock


def test_timeout_en_tool_execution() -> None:
    """A call over 120 seconds is cancelled with TimeoutError, which counts as retryable."""

    async def main() -> float:
        with pytest.raises(TimeoutError, match="tool-execution took longer than 120 s") as caught:
            await limit(120, "tool-execution")(call)()
        verdict = classify(caught.value)
        assert (verdict.category, verdict.retryable) == (CallErrorCategory.TIMEOUT, True)
        return now()

    call = Scripted([1000.0])
    assert play(main()) == 120


def test_the_tools_of_specs_001() -> None:
    assert TOOL_TIMEOUTS == {"bash": 300, "read_file": 10, "edit_file": 30, "search": 60}


@pytest.mark.parametrize(("name", "seconds"), [*OPERATIONS.items(), ("anything else", DEFAULT)])
def test_an_operation_has_a_limit_by_its_name_as_in_004(name: str, seconds: float) -> None:
    with pytest.raises(LimitExceeded) as caught:
        play(limit(name=name)(Scripted([1e6]))())
    assert (caught.value.operation, caught.value.seconds) == (name, seconds)


def test_the_limits_of_specs_004() -> None:
    assert OPERATIONS == {"llm-call": 60, "tool-execution": 120, "file-read": 5, "web-fetch": 30}
    assert DEFAULT == 30


def test_a_call_in_time_is_left_alone() -> None:
    assert play(limit(2)(Scripted([1.9]))()) == 1.9


def test_the_call_is_cancelled_and_its_clearing_up_is_waited_for() -> None:
    seen: list[str] = []

    async def call() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            seen.append("cleared up")
            raise

    async def main() -> float:
        with pytest.raises(LimitExceeded):
            await limit(2)(call)()
        return now()

    assert (play(main()), seen) == (3, ["cleared up"])


@pytest.mark.parametrize("error", [TimeoutError("the call's own"), asyncio.CancelledError(), ValueError("no")])
def test_an_error_of_the_call_passes_as_it_is(error: BaseException) -> None:
    async def main() -> BaseException:
        try:
            await limit(2)(Scripted([error]))()
        except BaseException as passed:
            return passed
        raise AssertionError("it was swallowed")

    assert play(main()) is error


async def test_a_cancellation_from_outside_is_not_its_own() -> None:
    task = asyncio.create_task(limit(20)(Scripted([60.0]))())
    await asyncio.sleep(10)
    task.cancel("enough")
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await task
    assert now() == 10


@given(st.sampled_from([1.0, 2.0, 3.0]), st.sampled_from([1.0, 2.0, 3.0]), st.booleans())
def test_of_two_rings_the_one_whose_time_is_up_says_so(inner: float, outer: float, plain: bool) -> None:
    async def main() -> tuple[str, float]:
        try:
            if plain:
                async with asyncio.timeout(outer):
                    await limit(inner, "inner")(Scripted([60.0]))()
            await limit(outer, "outer")(limit(inner, "inner")(Scripted([60.0])))()
        except LimitExceeded as error:
            return error.operation, now()
        except TimeoutError:
            return "outer", now()
        return "none", now()

    who, when = play(main())
    assert when == min(inner, outer)
    assert who == ("inner" if inner < outer else "outer")


def test_no_time_at_all_still_lets_through_what_need_not_wait() -> None:
    assert play(limit(0)(Scripted(["at once"]))()) == "at once"
    with pytest.raises(LimitExceeded):
        play(limit(0)(Scripted([0.001]))())


@pytest.mark.parametrize("seconds", [-1.0, math.nan])
def test_what_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="limit of fetch: expected seconds from 0 on; found"):
        limit(seconds, "fetch")
