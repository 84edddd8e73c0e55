"""How often resilience was needed and how often it helped, counted from events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.reporting.telemetry.metrics import Meter, ResilienceMetrics
from harness.resilience.events import (
    CircuitChanged,
    Degraded,
    FellBack,
    GaveUp,
    Recovered,
    ResilienceEvent,
    Retrying,
    ServiceChanged,
)


def retry(number: int, name: str = "call") -> Retrying:
    return Retrying(name, number, 3, 1.0, "refused", "network")


def metered(*events: ResilienceEvent) -> ResilienceMetrics:
    meter = Meter()
    for event in events:
        meter.count(event)
    return meter.metrics


def test_the_names_of_004() -> None:
    assert ResilienceMetrics().as_json() == {
        "totalAttempts": 0, "successfulRetries": 0, "failedRetries": 0, "circuitOpens": 0, "fallbacksUsed": 0,
        "avgRecoveryTime": None,
    }  # fmt: skip


def test_a_call_that_recovers_at_its_second_retry() -> None:
    metrics = metered(retry(1), retry(2), Recovered("call", 3.0, 3))
    assert metrics == ResilienceMetrics(3, 1, 1, recoveries=1, recovery_seconds=3.0)
    assert metrics.retries == 2


def test_a_call_that_is_given_up() -> None:
    assert metered(retry(1), retry(2), GaveUp("call", "refused", True)) == ResilienceMetrics(3, 0, 2)
    assert metered(GaveUp("call", "401", False)) == ResilienceMetrics(1)


def test_a_fallback_ends_the_retries_before_it() -> None:
    events = (retry(1), FellBack("call", "a", "b", "refused"), Recovered("call", 2.0, 3))
    metrics = metered(*events)
    assert (metrics.successful_retries, metrics.failed_retries, metrics.fallbacks_used) == (0, 1, 1)
    assert metrics.avg_recovery_time == 2.0


def test_a_retry_whose_end_is_not_known_does_not_count_yet() -> None:
    assert metered(retry(1)).retries == 0


def test_circuits() -> None:
    changes = [("closed", "open"), ("open", "half_open"), ("half_open", "open"), ("half_open", "closed")]
    assert metered(*(CircuitChanged("c", a, b, "r") for a, b in changes)).circuit_opens == 2


def test_other_events_count_nothing() -> None:
    assert metered(Degraded("c", "r"), ServiceChanged("s", "up", "down", "r")) == ResilienceMetrics()


def test_calls_of_one_name_in_two_tasks_are_two() -> None:
    meter = Meter()
    meter.count(retry(1), "a")
    meter.count(GaveUp("call", "refused", True), "b")
    meter.count(Recovered("call", 1.0, 2), "a")
    assert meter.metrics == ResilienceMetrics(3, 1, 0, recoveries=1, recovery_seconds=1.0)


def test_what_was_counted_elsewhere_is_added() -> None:
    meter = Meter()
    meter.add(ResilienceMetrics(30, 1, 2))
    meter.count(retry(1))
    assert meter.metrics == ResilienceMetrics(31, 1, 2)


_CALLS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["recovered", "given up", "fell back"]), st.floats(0, 100)), max_size=8
)


def _events(retries: int, end: str, after: float, name: str) -> list[ResilienceEvent]:
    made: list[ResilienceEvent] = [retry(number + 1, name) for number in range(retries)]
    if end == "recovered":
        return [*made, Recovered(name, after, retries + 1)] if retries else made
    return [*made, GaveUp(name, "e", True) if end == "given up" else FellBack(name, "x", "y", "e")]


@given(_CALLS, _CALLS)
def test_every_retry_worked_or_failed_and_processes_add_up(
    mine: list[tuple[int, str, float]], its: list[tuple[int, str, float]]
) -> None:
    def of(calls: list[tuple[int, str, float]], prefix: str) -> list[ResilienceEvent]:
        return [event for n, call in enumerate(calls) for event in _events(*call, f"{prefix}{n}")]

    first, second = of(mine, "a"), of(its, "b")
    added, together = metered(*first) + metered(*second), metered(*first, *second)
    assert added.retries == sum(retries for retries, _, _ in (*mine, *its))
    assert (added.total_attempts, added.failed_retries) == (together.total_attempts, together.failed_retries)
    assert (added.avg_recovery_time is None) == (added.recoveries == 0)
