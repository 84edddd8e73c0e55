"""The breaker: its scenarios by name, its events and reasons, its rules."""

from __future__ import annotations

import pickle

import pytest

from harness.resilience.breaker import TRANSITIONS, Breaker, BreakerSettings, CircuitOpen, CircuitState, Signal, Ticket
from harness.resilience.events import CircuitChanged, ResilienceEvent
from harness.values import replace
from tests.unit.fakes import FakeClock

CLOSED, OPEN, HALF_OPEN = CircuitState.CLOSED, CircuitState.OPEN, CircuitState.HALF_OPEN
NAME = "provider:claude"


class Bench:
    """A breaker, its clock, and what it said."""

    def __init__(self, **settings: float) -> None:
        self.clock = FakeClock()
        self.events: list[ResilienceEvent] = []
        self.breaker = Breaker(NAME, BreakerSettings(**settings), now=self.clock.now, emit=self.events.append)  # type: ignore[arg-type]

    def fail(self, times: int = 1, error: str = "503") -> None:
        for _ in range(times):
            self.breaker.admit().failed(error)

    def succeed(self, times: int = 1) -> None:
        for _ in range(times):
            self.breaker.admit().succeeded()

    def opened(self) -> Breaker:
        self.fail(self.breaker.settings.failure_threshold)
        assert self.breaker.state is OPEN
        return self.breaker

    def rested(self) -> Breaker:
        self.opened()
        self.clock.time += self.breaker.settings.reset_seconds
        return self.breaker

    def refused(self) -> CircuitOpen:
        with pytest.raises(CircuitOpen) as caught:
            self.breaker.admit()
        return caught.value

    @property
    def reasons(self) -> list[tuple[str, str, str]]:
        return [(e.before, e.after, e.reason) for e in self.events if isinstance(e, CircuitChanged)]


OPENED = ("closed", "open", "consecutive_failures_5")
RESTED = ("open", "half_open", "reset_timeout_elapsed")
CLOSED_AGAIN = ("half_open", "closed", "request_success")
REOPENED = ("half_open", "open", "consecutive_failures_6")


# Scenarios ----------------------------------------------------------------------------------------------------------


def test_scenario_circuit_breaker_opens() -> None:
    """Given 5 consecutive errors, when a new call is tried, then the circuit is open and the call fails at once."""
    bench = Bench()
    bench.fail(4)
    assert bench.breaker.state is CLOSED
    bench.fail(1, "503 Service Unavailable")
    assert bench.breaker.state is OPEN
    bench.clock.time += 12
    refusal = bench.refused()
    assert (refusal.name, refusal.reopens_in, refusal.failures, refusal.probing) == (NAME, 18, 5, False)
    assert str(refusal) == (
        "circuit provider:claude is open after 5 failures in a row, the last: 503 Service Unavailable; "
        "it is tried again in 18.0 s"
    )


def test_scenario_circuit_breaker_recovers() -> None:
    """Given an open circuit, when 30 s pass, then it is half-open, the next call is a probe, and success closes it."""
    bench = Bench(success_threshold=1)
    breaker = bench.opened()
    bench.clock.time += 29.999
    assert (breaker.state, breaker.rests_for()) == (OPEN, pytest.approx(0.001))
    bench.refused()
    bench.clock.time = 30
    assert (breaker.state, breaker.rests_for()) == (HALF_OPEN, 0)
    probe = breaker.admit()
    assert bench.refused().probing
    probe.succeeded()
    assert breaker.state is CLOSED
    assert bench.reasons == [OPENED, RESTED, CLOSED_AGAIN]


# Events and reasons ------------------------------------------------------------------------------------------------


def test_the_events_and_reasons_of_spec_000() -> None:
    bench = Bench()
    bench.rested()
    bench.fail()
    assert bench.reasons == [OPENED, RESTED, REOPENED]
    bench.clock.time += 30
    bench.succeed(2)
    assert bench.reasons[3:] == [RESTED, CLOSED_AGAIN]
    bench.opened()
    bench.breaker.reset()
    assert bench.reasons[5:] == [OPENED, ("open", "closed", "manual_reset")]
    assert bench.events[0] == CircuitChanged(NAME, "closed", "open", "consecutive_failures_5")


def test_the_count_goes_on_until_it_closes() -> None:
    bench = Bench()
    for _ in range(3):
        bench.rested() if bench.breaker.state is CLOSED else bench.fail()
        bench.clock.time += 30
    bench.succeed(1)
    bench.fail()
    opened = [reason for _, after, reason in bench.reasons if after == "open"]
    assert opened == [f"consecutive_failures_{n}" for n in (5, 6, 7, 8)]


@pytest.mark.parametrize("state", CircuitState)
def test_any_state_is_reset_by_hand(state: CircuitState) -> None:
    bench = Bench()
    {CLOSED: lambda: bench.fail(4), OPEN: bench.opened, HALF_OPEN: lambda: bench.rested().admit()}[state]()
    told = len(bench.events)
    bench.breaker.reset()
    assert (bench.breaker.state, bench.breaker.failures, bench.breaker.error) == (CLOSED, 0, "")
    assert bench.reasons[told:] == ([(state, "closed", "manual_reset")] if state is not CLOSED else [])
    bench.fail(4)
    assert bench.breaker.state is CLOSED


def test_the_table_has_the_reasons_and_no_others() -> None:
    assert {(before, after, signal.value) for before, row in TRANSITIONS.items() for signal, after in row.items()} == {
        (CLOSED, OPEN, "consecutive_failures_{failures}"),
        (OPEN, HALF_OPEN, "reset_timeout_elapsed"),
        (OPEN, CLOSED, "manual_reset"),
        (HALF_OPEN, CLOSED, "request_success"),
        (HALF_OPEN, CLOSED, "manual_reset"),
        (HALF_OPEN, OPEN, "consecutive_failures_{failures}"),
    }
    assert {signal for row in TRANSITIONS.values() for signal in row} == set(Signal)


# Rules ------------------------------------------------------------------------------------------------------------


def test_only_failures_in_a_row_open_it() -> None:
    bench = Bench()
    for _ in range(10):
        bench.fail(4)
        bench.succeed()
    assert (bench.breaker.state, bench.events) == (CLOSED, [])


def test_volume_threshold_is_the_calls_before_it_may_open() -> None:
    bench = Bench(volume_threshold=10)
    bench.fail(9)
    assert bench.breaker.state is CLOSED
    bench.fail()
    assert bench.reasons == [("closed", "open", "consecutive_failures_10")]
    bench = Bench(volume_threshold=10)
    bench.succeed(5)
    bench.fail(5)
    assert bench.reasons == [OPENED]


def test_a_failed_probe_reopens_whatever_the_volume() -> None:
    bench = Bench(volume_threshold=7, failure_threshold=5)
    bench.fail(7)
    bench.clock.time += 30
    bench.fail()
    assert bench.reasons[-1] == ("half_open", "open", "consecutive_failures_8")


def test_a_failed_probe_reopens_when_the_threshold_was_raised_meanwhile() -> None:
    bench = Bench(failure_threshold=1)
    saved = bench.rested().snapshot(bench.clock.wall())
    bench.breaker = Breaker(NAME, now=bench.clock.now, emit=bench.events.append)
    bench.breaker.restore(saved, bench.clock.wall())
    bench.fail()
    assert bench.reasons[-1] == ("half_open", "open", "consecutive_failures_2")


def test_the_volume_counts_since_it_closed() -> None:
    bench = Bench(volume_threshold=10, failure_threshold=2)
    bench.fail(10)
    bench.clock.time += 30
    bench.succeed(2)
    bench.fail(9)
    assert bench.breaker.state is CLOSED
    bench.fail()
    assert bench.breaker.state is OPEN


def test_two_successes_close_and_one_when_it_is_set_so() -> None:
    bench = Bench()
    bench.rested()
    bench.succeed()
    assert (bench.breaker.state, bench.breaker.rests_for()) == (HALF_OPEN, 0)
    bench.succeed()
    assert bench.breaker.state is CLOSED
    bench = Bench(success_threshold=1)
    bench.rested()
    bench.succeed()
    assert bench.breaker.state is CLOSED


def test_a_success_between_probes_does_not_carry_over_a_failure() -> None:
    bench = Bench()
    bench.rested()
    bench.succeed()
    bench.fail()
    bench.clock.time += 30
    bench.succeed()
    assert bench.breaker.state is HALF_OPEN


def test_half_open_admits_one_at_a_time() -> None:
    bench = Bench()
    breaker = bench.rested()
    probe = breaker.admit()
    refusals = [bench.refused() for _ in range(49)]
    assert {(r.probing, r.reopens_in) for r in refusals} == {(True, 60)}
    assert "another call is trying it now" in str(refusals[0])
    probe.succeeded()
    second = breaker.admit()
    assert bench.refused().probing
    second.succeeded()
    assert breaker.state is CLOSED


def test_a_failed_probe_reopens_at_once_for_a_whole_rest() -> None:
    bench = Bench()
    breaker = bench.rested()
    probe = breaker.admit()
    bench.clock.time += 7
    probe.failed("still 503")
    assert (breaker.state, breaker.rests_for(), bench.refused().error) == (OPEN, 30, "still 503")


def test_cancellation_counts_as_neither() -> None:
    bench = Bench()
    bench.fail(4)
    bench.breaker.admit().released()
    assert bench.breaker.failures == 4
    bench.fail()
    assert bench.reasons == [OPENED]
    bench.clock.time += 30
    probe = bench.breaker.admit()
    probe.released()
    assert (bench.breaker.state, bench.breaker.rests_for()) == (HALF_OPEN, 0)
    bench.succeed(2)
    assert bench.reasons == [OPENED, RESTED, CLOSED_AGAIN]


# Tickets and generations ---------------------------------------------------------------------------------------------


def late(bench: Bench) -> Ticket:
    """Of a call that began before the circuit opened."""
    ticket = bench.breaker.admit()
    bench.opened()
    return ticket


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "released"])
@pytest.mark.parametrize("when", CircuitState)
def test_an_outcome_of_an_older_generation_is_dropped(outcome: str, when: CircuitState) -> None:
    bench = Bench()
    ticket = late(bench)
    if when is not OPEN:
        bench.clock.time += 30
        probe = bench.breaker.admit()
        if when is CLOSED:
            probe.succeeded()
            bench.succeed()
    before = bench.breaker.snapshot(bench.clock.wall())
    getattr(ticket, outcome)(*(["late"] if outcome == "failed" else []))
    assert bench.breaker.snapshot(bench.clock.wall()) == before
    if when is HALF_OPEN:
        assert bench.refused().probing, "the probe of now keeps its place"


def test_of_fifty_calls_at_once_that_fail_one_opens_it() -> None:
    bench = Bench()
    tickets = [bench.breaker.admit() for _ in range(50)]
    for ticket in tickets:
        ticket.failed("reset")
    assert bench.reasons == [OPENED]
    assert bench.breaker.failures == 5


def test_what_began_before_a_reset_counts_no_more() -> None:
    bench = Bench()
    tickets = [bench.breaker.admit() for _ in range(5)]
    bench.breaker.reset()
    for ticket in tickets:
        ticket.failed("reset")
    assert bench.breaker.failures == 0


def test_only_the_first_outcome_of_a_ticket_counts() -> None:
    bench = Bench()
    ticket = bench.breaker.admit()
    for _ in range(9):
        ticket.failed("once")
    assert bench.breaker.failures == 1
    ticket.succeeded()
    ticket.released()
    assert bench.breaker.failures == 1


def test_a_probe_that_does_not_end_loses_its_place() -> None:
    bench = Bench(probe_seconds=10, success_threshold=1)
    breaker = bench.rested()
    lost = breaker.admit()
    bench.clock.time += 9
    assert (bench.refused().reopens_in, breaker.rests_for()) == (1, 1)
    bench.clock.time += 1
    second = breaker.admit()
    lost.failed("too late")
    assert breaker.state is HALF_OPEN
    second.succeeded()
    assert breaker.state is CLOSED


def test_a_slow_probe_counts_while_nobody_else_has_asked() -> None:
    bench = Bench(probe_seconds=10, success_threshold=1)
    probe = bench.rested().admit()
    bench.clock.time += 100
    probe.succeeded()
    assert bench.breaker.state is CLOSED


# Looking, listening, diagnosing --------------------------------------------------------------------------------------


def test_looking_is_no_transition() -> None:
    bench = Bench()
    breaker = bench.rested()
    assert breaker.state is HALF_OPEN
    assert bench.reasons == [OPENED]
    breaker.admit()
    assert bench.reasons == [OPENED, RESTED]


def test_who_listens_finds_the_circuit_as_it_is_now() -> None:
    bench = Bench()
    seen: list[tuple[str, CircuitState]] = []

    def listen(event: ResilienceEvent) -> None:
        assert isinstance(event, CircuitChanged)
        seen.append((event.after, bench.breaker.state))
        if event.after == "half_open":
            bench.refused()

    bench.breaker = Breaker(NAME, now=bench.clock.now, emit=listen)
    bench.rested()
    bench.succeed(2)
    bench.opened()
    assert seen == [("open", OPEN), ("half_open", HALF_OPEN), ("closed", CLOSED), ("open", OPEN)]


def test_a_listener_that_raises_leaves_a_sound_circuit() -> None:
    bench = Bench()

    def listen(event: ResilienceEvent) -> None:
        raise OSError(event.type)

    bench.breaker = Breaker(NAME, BreakerSettings(failure_threshold=1), now=bench.clock.now, emit=listen)
    with pytest.raises(OSError, match="circuit-state-change"):
        bench.fail()
    assert (bench.breaker.state, bench.refused().error) == (OPEN, "503")


def test_the_last_twenty_transitions_are_kept() -> None:
    bench = Bench()
    bench.rested()
    for _ in range(15):
        bench.fail()
        bench.clock.time += 30
    history = bench.breaker.history
    assert len(history) == 20
    assert [(t.before, t.after, t.reason) for t in history] == bench.reasons[-20:]
    assert (history[-1].at, history[-1].reason) == (bench.clock.time - 30, "consecutive_failures_20")


def test_a_refusal_survives_pickling() -> None:
    bench = Bench(failure_threshold=1)
    bench.opened()
    refusal = bench.refused()
    again = pickle.loads(pickle.dumps(refusal))
    assert (str(again), vars(again)) == (str(refusal), vars(refusal))
    assert "after 1 failure, the last: 503" in str(again)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("failure_threshold", 0, "at least 1"),
        ("success_threshold", 0, "at least 1"),
        ("reset_seconds", -1, "at least 0"),
        ("reset_seconds", float("nan"), "at least 0"),
        ("volume_threshold", -1, "at least 0"),
        ("probe_seconds", 0, "more than 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name: str, value: float, expected: str) -> None:
    with pytest.raises(ValueError, match=f"breaker setting {name}: expected {expected}, found {value}"):
        BreakerSettings(**{name: value})  # type: ignore[arg-type]


def test_the_settings_are_those_of_design_8() -> None:
    assert BreakerSettings() == BreakerSettings(5, 2, 30, 0)


# Saved and restored --------------------------------------------------------------------------------------------------


def moved(bench: Bench, *, later: float) -> Bench:
    """The same circuit in a process that begins `later` seconds on, whose monotonic clock starts anew."""
    saved = bench.breaker.snapshot(bench.clock.wall())
    other = Bench()
    other.clock.time = 1000
    at = bench.clock.wall().timestamp() + later
    other.breaker = Breaker(NAME, bench.breaker.settings, now=other.clock.now, emit=other.events.append)
    other.breaker.restore(saved, type(bench.clock.wall()).fromtimestamp(at, bench.clock.wall().tzinfo))
    return other


def test_an_open_circuit_rests_on_in_the_next_process() -> None:
    bench = Bench()
    bench.opened()
    bench.clock.time += 5
    other = moved(bench, later=10)
    assert (other.breaker.state, other.breaker.rests_for()) == (OPEN, pytest.approx(15))
    refusal = other.refused()
    assert (refusal.error, refusal.failures) == ("503", 5)
    assert other.events == [], "whoever made the transition has said it"
    assert [(t.before, t.after, t.reason) for t in other.breaker.history] == [OPENED]


def test_a_restored_circuit_that_has_rested_is_ready_to_probe() -> None:
    bench = Bench()
    bench.opened()
    other = moved(bench, later=3600)
    assert (other.breaker.state, other.breaker.rests_for()) == (HALF_OPEN, 0)
    other.fail()
    assert other.reasons == [RESTED, REOPENED]


def test_a_clock_that_was_set_back_does_not_lengthen_the_rest() -> None:
    bench = Bench(probe_seconds=20)
    bench.opened()
    assert moved(bench, later=-5000).breaker.rests_for() == 30
    bench.clock.time += 30
    bench.breaker.admit()
    assert moved(bench, later=-5000).breaker.rests_for() == 20


def test_all_that_counts_is_restored() -> None:
    bench = Bench(volume_threshold=7)
    bench.succeed(2)
    bench.fail(4)
    other = moved(bench, later=1)
    there = other.clock.wall().timestamp()
    assert other.breaker.snapshot(other.clock.wall()) == replace(
        bench.breaker.snapshot(bench.clock.wall()), saved_at=there, failed_at=there - 1
    )
    other.fail()
    assert other.reasons == [OPENED]
    other.clock.time += 30
    other.succeed()
    again = moved(other, later=1)
    again.succeed()
    assert again.reasons == [CLOSED_AGAIN]
