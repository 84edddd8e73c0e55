"""Thresholds: the table, the windows, and that only changes are told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.resilience.events import (
    CircuitChanged,
    ClientChanged,
    GaveUp,
    HookRefused,
    Recovered,
    ResilienceEvent,
    Retrying,
)
from harness.resilience.thresholds import THRESHOLDS, SlidingWindow, Threshold, ThresholdCrossed, Thresholds, metric_of
from tests.unit.fakes import FakeClock

LOST = GaveUp("click", "the page crashed", False, "session")


def refused(attempt: int) -> Retrying:
    return Retrying("open", attempt, 3, 1.0, "refused", "network")


def test_the_table_of_001() -> None:
    assert {row.metric: (row.warning, row.critical, row.unit) for row in THRESHOLDS} == {
        "error_rate": (0.05, 0.15, "share"),
        "reconnection_failures": (10, 50, "per minute"),
        "session_drops": (5, 20, "per minute"),
        "hook_validation_failures": (20, 100, "per minute"),
    }


@pytest.mark.parametrize("row", THRESHOLDS, ids=lambda row: row.metric)
def test_a_limit_is_passed_not_reached(row: Threshold) -> None:
    values = (0, row.warning, row.warning * 1.01, row.critical, row.critical * 1.01)
    levels = [row.level(value) for value in values]
    assert levels == ["ok", "ok", "warning", "warning", "critical"]


@pytest.mark.parametrize(
    ("event", "metric"),
    [
        (refused(1), ""),
        (refused(2), "reconnection_failures"),
        (GaveUp("open", "refused", True, "network"), "reconnection_failures"),
        (GaveUp("open", "refused", False, "network"), ""),
        (GaveUp("open", "503", True, "unavailable"), "reconnection_failures"),
        (CircuitChanged("c", "half_open", "open", "consecutive_failures_6"), "reconnection_failures"),
        (CircuitChanged("c", "closed", "open", "consecutive_failures_5"), ""),
        (LOST, "session_drops"),
        (Retrying("click", 1, 1, 0, "the browser is gone", "session"), "session_drops"),
        (Retrying("proposal", 1, 2, 0, "no step", "validation"), "hook_validation_failures"),
        (ClientChanged("S1", "mine", "attached", "detached"), "session_drops"),
        (ClientChanged("S1", "mine", "detached", "lost"), "reconnection_failures"),
        (ClientChanged("S1", "", "detached", "refused", code="SESS_NOT_FOUND"), "reconnection_failures"),
        (ClientChanged("S1", "mine", "attached", "closed"), ""),
        (HookRefused("HOOK_VALIDATION_FAILED", "event: Required"), "hook_validation_failures"),
        (Recovered("click", 1.0, 2, "session"), ""),
        (GaveUp("click", "x", True, "element_not_found"), ""),
    ],
)
def test_what_counts_towards_what(event: ResilienceEvent, metric: str) -> None:
    assert metric_of(event) == metric


def test_only_changes_are_told() -> None:
    clock, told = FakeClock(), list[ThresholdCrossed]()
    thresholds = Thresholds(clock.now, told.append)
    for _ in range(5):
        thresholds.count(LOST)
    assert told == []
    for _ in range(16):
        thresholds.count(LOST)
    assert [(each.before, each.after, each.value, each.limit) for each in told] == [
        ("ok", "warning", 6, 5),
        ("warning", "critical", 21, 20),
    ]
    clock.time += 60
    thresholds.look()
    thresholds.look()
    assert [(each.before, each.after, each.value) for each in told[2:]] == [("critical", "ok", 0)]
    worst = {reading.metric: reading for reading in thresholds.worst}
    assert (worst["session_drops"].level, worst["session_drops"].value) == ("critical", 21)
    assert worst["session_drops"].shown == "21 lost sessions a minute (critical: over 20)"


def test_the_error_rate_needs_some_attempts() -> None:
    clock, told = FakeClock(), list[ThresholdCrossed]()
    thresholds = Thresholds(clock.now, told.append)
    thresholds.count_attempts(10, 10)
    assert told == []
    thresholds.count_attempts(90, 0)
    assert [(each.after, each.value) for each in told] == [("warning", 0.1)]
    thresholds.count_attempts(0, 6)
    assert told[-1].reading.shown == "16 % of the attempts failed (critical: over 15 %)"


@given(st.lists(st.tuples(st.floats(0, 40), st.integers(0, 5)), max_size=40), st.floats(1, 60))
def test_a_window_counts_exactly_what_is_young_enough(additions: list[tuple[float, int]], seconds: float) -> None:
    clock = FakeClock()
    window = SlidingWindow(seconds, clock.now)
    added: list[tuple[float, int]] = []
    for wait, number in additions:
        clock.time += wait
        before = window.total
        window.add(number)
        added.append((clock.time, number))
        assert window.total == before + number
        assert window.total == sum(n for at, n in added if clock.time - at < seconds)
    last = window.total
    for _ in range(3):
        clock.time += seconds / 2
        assert window.total <= last
        last = window.total
    assert last == 0


@given(st.integers(0, 60), st.integers(0, 60))
def test_more_failures_are_never_less_alarming(some: int, more: int) -> None:
    def level(number: int) -> str:
        thresholds = Thresholds(FakeClock().now)
        for _ in range(number):
            thresholds.count(LOST)
        return next(each.level for each in thresholds.look() if each.metric == "session_drops")

    order = ("ok", "warning", "critical")
    assert order.index(level(some)) <= order.index(level(some + more))
