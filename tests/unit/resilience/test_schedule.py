"""The named schedules, how they go on, and their jitter."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.resilience import Backoff
from harness.resilience.retry import JITTER, SCHEDULES, Delays, DelayTable, schedule


@pytest.mark.parametrize(
    ("name", "delays"),
    [
        ("spec-000", [0, 1, 2, 4, 8, 30]),
        ("reconnect", [1, 2, 5, 10, 30]),
        ("tool-server", [0.5, 1, 2]),
        ("connect", [1, 2, 5, 10]),
    ],
)
def test_a_named_schedule(name: str, delays: list[float]) -> None:
    assert list(schedule(name).delays()) == delays
    assert schedule(name).retries == len(delays)


def test_the_last_delay_repeats_up_to_the_retries_asked() -> None:
    assert list(schedule("spec-000", retries=9).delays()) == [0, 1, 2, 4, 8, 30, 30, 30, 30]
    assert list(schedule("connect", retries=2).delays()) == [1, 2]
    assert list(schedule("connect", retries=0).delays()) == []


def test_an_unknown_name_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(ValueError, match=r"expected one of spec-000, reconnect, tool-server, connect; found 'spec-00'"):
        schedule("spec-00")


@pytest.mark.parametrize(
    ("values", "retries", "jitter", "said"),
    [
        ((), 1, 0.0, "values: expected one delay or more"),
        ((1.0, -1.0), 1, 0.0, "values: expected"),
        ((math.inf,), 1, 0.0, "values: expected"),
        ((math.nan,), 1, 0.0, "values: expected"),
        ((1.0,), -1, 0.0, "retries: expected 0 or more extra attempts; found -1"),
        ((1.0,), 1, 1.1, "jitter: expected a share from 0 to 1; found 1.1"),
    ],
)
def test_what_makes_no_series_is_refused(values: tuple[float, ...], retries: int, jitter: float, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        DelayTable(values, retries, jitter)


def test_jitter_is_twenty_percent_either_way_and_clamped_to_the_cap_again() -> None:
    low, high = (list(schedule("reconnect", jitter=JITTER).delays(lambda at=at: at)) for at in (0.0, 0.999999))
    assert low == pytest.approx([0.8, 1.6, 4, 8, 24])
    assert high == pytest.approx([1.2, 2.4, 6, 12, 30], rel=1e-5)
    assert high[-1] == 30


@given(st.sampled_from([*SCHEDULES, "backoff"]), st.integers(0, 20), st.floats(0, 1), st.floats(0, 1, exclude_max=True))
def test_any_delays_are_as_many_as_asked_never_negative_never_above_the_cap(
    name: str, retries: int, jitter: float, random: float
) -> None:
    series: Delays = Backoff(retries, jitter=jitter) if name == "backoff" else schedule(name, retries, jitter)
    cap = 30 if name == "backoff" else max(SCHEDULES[name])
    delays = list(series.delays(lambda: random))
    assert len(delays) == series.retries == retries
    assert all(0 <= delay <= cap for delay in delays)
