"""Breakers of several processes (here: several stores of one file) that share one circuit."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.resilience.breaker import BreakerSettings, CircuitOpen, CircuitState
from harness.resilience.circuit_store import CircuitStore
from harness.resilience.circuits import SharedBreaker
from harness.resilience.events import ResilienceEvent
from harness.values import replace
from tests.unit.fakes import FakeClock

NAME = "origin:http://shop.local"


class Party:
    """A few processes on one file."""

    def __init__(self, path: Path, count: int = 2, **settings: float) -> None:
        self.path = path
        self.clock = FakeClock()
        self.events: list[tuple[int, str]] = []
        self.stores: list[CircuitStore] = []
        self.settings = BreakerSettings(**settings)  # type: ignore[arg-type]
        self.members = [self.join() for _ in range(count)]

    def join(self) -> SharedBreaker:
        number = len(self.stores)
        self.stores.append(CircuitStore(self.path, self.clock))

        def emit(event: ResilienceEvent) -> None:
            self.events.append((number, getattr(event, "reason", "")))

        return SharedBreaker(NAME, self.settings, self.clock, emit, self.stores[-1])

    def states(self) -> list[CircuitState]:
        return [member.state for member in self.members]


@pytest.fixture
def party(tmp_path: Path) -> Iterator[Party]:
    made = Party(tmp_path / "circuits.sqlite3")
    yield made
    for store in made.stores:
        store.close()


def fail(breaker: SharedBreaker, times: int = 1) -> None:
    for _ in range(times):
        breaker.admit().failed("down")


def test_what_one_opens_the_others_see_within_half_a_second(party: Party) -> None:
    one, two = party.members
    two.admit().succeeded()
    fail(one, 5)
    assert two.admit(), "it has just looked"
    party.clock.time += 0.5
    with pytest.raises(CircuitOpen, match=r"5 failures in a row, the last: down; it is tried again in 29\.5 s"):
        two.admit()


def test_who_makes_a_transition_says_it_and_nobody_else(party: Party) -> None:
    one, two = party.members
    fail(one, 5)
    party.clock.time += 30
    assert party.states() == [CircuitState.HALF_OPEN] * 2
    two.admit().succeeded()
    one.admit().succeeded()
    party.clock.time += 1
    assert party.states() == [CircuitState.CLOSED] * 2
    assert party.events == [(0, "consecutive_failures_5"), (1, "reset_timeout_elapsed"), (0, "request_success")]
    assert [t.reason for t in two.history] == ["consecutive_failures_5", "reset_timeout_elapsed", "request_success"]


def test_failures_in_a_row_are_counted_together(party: Party) -> None:
    one, two = party.members
    fail(one, 3)
    fail(two, 2)
    assert party.events == [(1, "consecutive_failures_5")]


def test_a_success_of_one_ends_the_row_of_all(party: Party) -> None:
    one, two = party.members
    fail(one, 4)
    party.clock.time += 1
    two.admit().succeeded()
    fail(one, 4)
    assert one.state is CircuitState.CLOSED


def test_only_one_of_them_probes(party: Party) -> None:
    one, two = party.members
    fail(one, 5)
    party.clock.time += 30
    probe = one.admit()
    with pytest.raises(CircuitOpen) as caught:
        two.admit()
    assert (caught.value.probing, caught.value.reopens_in) == (True, 60)
    probe.released()
    party.clock.time += 0.5
    assert two.rests_for() == 0
    two.admit().failed("still down")
    party.clock.time += 0.5
    assert (one.rests_for(), party.events[-1]) == (pytest.approx(29.5), (1, "consecutive_failures_6"))


def test_a_probe_of_one_that_lost_its_place_counts_no_more(party: Party) -> None:
    one, two = party.members
    fail(one, 5)
    party.clock.time += 30
    lost = one.admit()
    party.clock.time += 60
    probe = two.admit()
    lost.succeeded()
    lost.failed("late")
    probe.succeeded()
    assert [t.reason for t in one.history][-1] == "reset_timeout_elapsed"
    two.admit().succeeded()
    party.clock.time += 1
    assert party.states() == [CircuitState.CLOSED] * 2


def test_calls_that_began_before_another_opened_it_are_dropped(party: Party) -> None:
    one, two = party.members
    tickets = [two.admit() for _ in range(20)]
    fail(one, 5)
    for ticket in tickets[:10]:
        ticket.failed("late")
    for ticket in tickets[10:]:
        ticket.succeeded()
    party.clock.time += 1
    assert (two.failures, two.state, len(party.events)) == (5, CircuitState.OPEN, 1)


def test_a_reset_is_for_all(party: Party) -> None:
    one, two = party.members
    fail(one, 5)
    party.clock.time += 1
    two.reset()
    assert party.events[-1] == (1, "manual_reset")
    party.clock.time += 0.5
    assert one.admit()


def test_a_later_process_finds_it_as_it_was(party: Party) -> None:
    fail(party.members[0], 5)
    party.clock.time += 10
    assert party.join().rests_for() == pytest.approx(20)
    party.clock.time += 3600
    later = party.join()
    assert later.state is CircuitState.HALF_OPEN
    fail(later)
    assert party.events[1:] == [(3, "reset_timeout_elapsed"), (3, "consecutive_failures_6")]


def test_failures_that_did_not_open_it_are_forgotten_after_five_minutes(party: Party) -> None:
    fail(party.members[0], 4)
    party.clock.time += 300
    assert (party.join().state, party.join().failures) == (CircuitState.CLOSED, 0)
    soon = party.join()
    fail(soon)
    assert soon.state is CircuitState.OPEN, "not yet"
    party.clock.time += 30
    soon.admit().succeeded()
    soon.admit().succeeded()
    fail(soon, 4)
    party.clock.time += 301
    later = party.join()
    fail(later)
    assert (later.state, later.failures) == (CircuitState.CLOSED, 1)


def test_ones_own_failures_are_not_forgotten(party: Party) -> None:
    one = party.members[0]
    for _ in range(5):
        party.clock.time += 1000
        fail(one)
    assert one.state is CircuitState.OPEN


def test_calls_that_worked_count_for_the_volume_of_who_made_them(tmp_path: Path) -> None:
    party = Party(tmp_path / "circuits.sqlite3", volume_threshold=10)
    one, two = party.members
    for _ in range(7):
        one.admit().succeeded()
    fail(two, 1)
    party.clock.time += 1
    fail(one, 3)
    assert one.state is CircuitState.CLOSED
    fail(one, 1)
    assert one.state is CircuitState.OPEN
    for store in party.stores:
        store.close()


def test_a_listener_may_ask_about_circuits_and_use_them(party: Party) -> None:
    seen: list[CircuitState] = []
    store = party.stores[0]

    def listen(event: ResilienceEvent) -> None:
        seen.append(mine.state)
        if len(seen) == 1:
            mine.reset()

    mine = SharedBreaker(NAME, party.settings, party.clock, listen, store)
    fail(mine, 5)
    assert seen == [CircuitState.OPEN, CircuitState.CLOSED]
    assert (mine.state, store.usable) == (CircuitState.CLOSED, True)


def test_what_was_not_kept_is_not_taken_back(databases: list[sqlite3.Connection], party: Party) -> None:
    """A disk that is full: the store begins to write and cannot finish."""
    one = party.members[0]
    fail(one, 1)
    store, database = party.stores[0], databases[0]
    database.execute(f"PRAGMA max_page_count = {database.execute('PRAGMA page_count').fetchone()[0]}")
    for _ in range(4):
        one.admit().failed("x" * 100_000)
        party.clock.time += 1
    assert one.state is CircuitState.OPEN
    assert store.away_for() > 0


def test_in_good_times_a_call_asks_the_store_twice_a_second_at_most(
    databases: list[sqlite3.Connection], party: Party
) -> None:
    one = party.members[0]
    asked: list[str] = []
    databases[0].set_trace_callback(asked.append)
    for _ in range(1000):
        one.admit().succeeded()
        party.clock.time += 0.01
    assert 15 <= len(asked) <= 21
    assert all(query.startswith("SELECT") for query in asked)


def test_a_snapshot_of_the_store_is_that_of_the_breaker(party: Party) -> None:
    one = party.members[0]
    fail(one, 5)
    kept = party.stores[1].load(NAME)
    assert kept
    assert replace(kept, saved_at=0) == replace(one.snapshot(party.clock.wall()), saved_at=0)
