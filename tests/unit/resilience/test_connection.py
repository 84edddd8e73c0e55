"""States as tables; combinations that exclude each other are warned of once, with a snapshot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.resilience.connection import (
    CIRCUIT,
    EXTENSION,
    POLLING,
    SERVER,
    TABLES,
    ForbiddenTransitionError,
    Invariants,
    Machine,
    TransitionTable,
    snapshot,
)
from harness.resilience.events import CircuitChanged, InvariantBroken, ResilienceEvent, ServiceChanged

FINE = {"server": "up", "extension": "connected", "circuit": "closed", "polling": "running"}
DOWN = "Cannot be `connected` if server is `down`"
BOOTING = "Circuit breaker cannot be `closed` during `booting`"
POLLED = "Polling must be `running` if extension is `connected`"
ACTIVE = "Cannot be `active` while server is `booting`"


@pytest.mark.parametrize(
    ("table", "way"),
    [
        (SERVER, ["down", "booting", "up", "down", "up", "permanently_failed", "booting"]),
        (EXTENSION, ["disconnected", "connected", "active", "connected", "disconnected"]),
        (CIRCUIT, ["closed", "open", "half_open", "open", "half_open", "closed", "open", "closed"]),
        (POLLING, ["stopped", "running", "stopped"]),
    ],
)
def test_the_ways_of_000(table: TransitionTable, way: list[str]) -> None:
    machine = Machine("demo", table)
    states = [machine.state]
    for state in way[1:]:
        machine.enter(state, "because")
        states.append(machine.state)
    assert states == way


def test_a_transition_is_told_and_staying_is_not() -> None:
    told: list[ResilienceEvent] = []
    Machine("demo", SERVER, told.append).enter("booting", "start")
    circuit = Machine("origin:shop", CIRCUIT, told.append)
    circuit.enter("closed", "manual_reset")
    circuit.enter("open", "consecutive_failures_5")
    assert told == [
        ServiceChanged("demo", "down", "booting", "start"),
        CircuitChanged("origin:shop", "closed", "open", "consecutive_failures_5"),
    ]


def test_a_forbidden_transition_says_what_it_can_become() -> None:
    told: list[ResilienceEvent] = []
    machine = Machine("demo", EXTENSION, told.append)
    with pytest.raises(ForbiddenTransitionError) as refused:
        machine.enter("active", "wishful")
    assert str(refused.value) == (
        "`demo`: the extension is `disconnected` and cannot become `active`; it can: `connected`"
    )
    with pytest.raises(ForbiddenTransitionError, match="which is not a state of a extension"):
        machine.enter("asleep", "wishful")
    assert (machine.state, told) == ("disconnected", [])


@pytest.mark.parametrize(
    ("states", "broken"),
    [
        ({}, ()),
        ({"server": "down"}, (DOWN,)),
        ({"server": "permanently_failed", "extension": "active"}, (DOWN,)),
        ({"server": "booting"}, (BOOTING,)),
        ({"server": "booting", "circuit": "open"}, ()),
        ({"server": "booting", "circuit": "half_open", "extension": "active"}, (ACTIVE,)),
        ({"polling": "stopped"}, (POLLED,)),
        ({"polling": "stopped", "extension": "active"}, (POLLED,)),
        ({"polling": "stopped", "extension": "disconnected"}, ()),
        ({"server": "down", "extension": "disconnected"}, ()),
        ({"server": "down", "polling": "stopped"}, (DOWN, POLLED)),
    ],
)
def test_what_excludes_what(states: dict[str, str], broken: tuple[str, ...]) -> None:
    told: list[ResilienceEvent] = []
    assert Invariants(told.append).check({**FINE, **states}) == broken
    assert told == [InvariantBroken(rule, {**FINE, **states}) for rule in broken]


def test_states_that_are_not_known_are_not_judged() -> None:
    assert Invariants(lambda _: None).check({"extension": "connected", "circuit": "closed"}) == ()


def test_a_violation_is_told_once_until_it_is_mended() -> None:
    told: list[ResilienceEvent] = []
    invariants = Invariants(told.append)
    bad = {**FINE, "polling": "stopped"}
    for _ in range(3):
        assert invariants.check(bad, "demo") == (POLLED,)
    assert told == [InvariantBroken(POLLED, {"of": "demo", **bad})]
    invariants.check(bad, "other")
    invariants.check(FINE, "demo")
    invariants.check(bad, "other")
    assert len(told) == 2
    invariants.check(bad, "demo")
    assert len(told) == 3


@given(st.sampled_from(TABLES), st.lists(st.integers(0, 9), max_size=20))
def test_machines_never_leave_their_table(table: TransitionTable, choices: list[int]) -> None:
    told: list[ResilienceEvent] = []
    machine = Machine("m", table, told.append)
    states = [*table.moves]
    for choice in choices:
        before, wanted = machine.state, states[choice % len(states)]
        if wanted == before or wanted in table.moves[before]:
            machine.enter(wanted, "r")
            assert machine.state == wanted
        else:
            with pytest.raises(ForbiddenTransitionError):
                machine.enter(wanted, "r")
            assert machine.state == before
    assert snapshot([machine]) == {table.dimension: machine.state}
    assert all(after in table.moves for moves in table.moves.values() for after in moves)
