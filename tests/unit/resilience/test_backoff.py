"""Backoff: monotone, capped, finite."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.resilience import Backoff, Deadline


def test_the_series_of_specs_003() -> None:
    assert list(Backoff(3, 1, 2).delays()) == [1, 2, 4]


def test_no_delay_is_longer_than_the_cap() -> None:
    assert list(Backoff(4, 1, 10, cap=30).delays()) == [1, 10, 30, 30]


@given(
    st.integers(0, 20), st.floats(0, 100), st.floats(1, 10), st.floats(0.1, 100), st.floats(0, 1), st.floats(0, 0.999)
)
def test_delays_are_finite_in_number_never_negative_never_over_the_cap(
    retries: int, initial: float, multiplier: float, cap: float, jitter: float, random: float
) -> None:
    delays = list(Backoff(retries, initial, multiplier, cap, jitter).delays(lambda: random))
    assert len(delays) == retries
    assert all(0 <= delay <= cap for delay in delays)


@given(st.integers(0, 20), st.floats(0, 100), st.floats(1, 10))
def test_without_jitter_delays_never_shrink(retries: int, initial: float, multiplier: float) -> None:
    delays = list(Backoff(retries, initial, multiplier).delays())
    assert delays == sorted(delays)


@pytest.mark.parametrize(("wait", "allowed"), [(4.9, True), (5.0, False), (6.0, False)])
def test_a_wait_that_would_outlast_the_deadline_is_not_allowed(wait: float, allowed: bool) -> None:
    assert Deadline.after(5, now=10).allows(wait, now=10) is allowed


def test_a_deadline_clips() -> None:
    deadline = Deadline.after(5, now=10)
    assert (deadline.clip(3, 10), deadline.clip(9, 10), deadline.left(20)) == (3, 5, 0)
