"""The circuits of a run: names, scopes, settings, resets, bounds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from harness.resilience.breaker import Breaker, BreakerSettings, CircuitOpen, CircuitState
from harness.resilience.circuit_store import CircuitStore
from harness.resilience.circuits import CircuitFigures, CircuitName, Circuits, CircuitScope, SharedBreaker
from harness.resilience.events import CircuitChanged, ResilienceEvent
from tests.unit.fakes import FakeClock

SHOP = "origin:http://shop.local"


def circuits(clock: FakeClock | None = None, **given: Any) -> Circuits:
    return Circuits(clock=clock or FakeClock(), **given)


def fail(breaker: Breaker, times: int = 5) -> None:
    for _ in range(times):
        breaker.admit().failed("down")


@pytest.mark.parametrize(
    ("text", "scope", "name"),
    [
        (SHOP, CircuitScope.ORIGIN, "http://shop.local"),
        ("origin:https://shop.local:8443", CircuitScope.ORIGIN, "https://shop.local:8443"),
        ("service:demo", CircuitScope.SERVICE, "demo"),
        ("provider:claude", CircuitScope.PROVIDER, "claude"),
        ("agent:builder", CircuitScope.AGENT, "builder"),
        ("endpoint:ws://browsers:3000", CircuitScope.ENDPOINT, "ws://browsers:3000"),
    ],
)
def test_a_name_has_a_scope(text: str, scope: CircuitScope, name: str) -> None:
    assert CircuitName.parse(text) == CircuitName(scope, name)
    assert str(CircuitName(scope, name)) == text
    assert circuits().breaker(CircuitName(scope, name)).name == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "shop",
            "expected SCOPE:NAME with origin, service, provider, agent, endpoint or tool, found no scope",
        ),
        ("http://shop.local", "found scope 'http'"),
        ("orgin:http://shop.local", "found scope 'orgin'; did you mean 'origin'?"),
        ("", "circuit '': expected SCOPE:NAME"),
        ("agent:", "circuit 'agent:': expected a name after 'agent:', found ''"),
        ("agent: builder", "found ' builder'"),
    ],
)
def test_a_name_that_is_none_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        circuits().breaker(text)


def test_one_breaker_for_each_name_and_each_its_own_failures() -> None:
    them = circuits()
    assert them.breaker(SHOP) is them.breaker(CircuitName(CircuitScope.ORIGIN, "http://shop.local"))
    fail(them.breaker(SHOP))
    assert them.breaker("origin:http://bank.local").admit()
    with pytest.raises(CircuitOpen, match=SHOP):
        them.breaker(SHOP).admit()
    assert them.states() == {"origin:http://bank.local": CircuitState.CLOSED, SHOP: CircuitState.OPEN}


def test_settings_may_differ_by_scope() -> None:
    them = circuits(
        settings=BreakerSettings(volume_threshold=10), scopes={CircuitScope.AGENT: BreakerSettings(failure_threshold=2)}
    )
    fail(them.breaker("agent:builder"), 2)
    fail(them.breaker("provider:claude"), 9)
    assert them.states() == {"agent:builder": CircuitState.OPEN, "provider:claude": CircuitState.CLOSED}


def test_states_are_as_seen_now() -> None:
    clock = FakeClock()
    them = circuits(clock)
    fail(them.breaker(SHOP))
    clock.time += 30
    assert them.states() == {SHOP: CircuitState.HALF_OPEN}


def test_reset_by_name() -> None:
    events: list[ResilienceEvent] = []
    them = circuits(emit=events.append)
    for name in (SHOP, "service:demo", "agent:builder"):
        fail(them.breaker(name))
    them.reset(SHOP)
    assert events[3:] == [CircuitChanged(SHOP, "open", "closed", "manual_reset")]
    assert them.states() == {
        "agent:builder": CircuitState.OPEN,
        SHOP: CircuitState.CLOSED,
        "service:demo": CircuitState.OPEN,
    }


def test_all_are_reset_and_each_has_its_figures() -> None:
    clock = FakeClock()
    circuits = Circuits(BreakerSettings(failure_threshold=2), clock=clock)
    for _ in range(2):
        circuits.breaker("provider:claude").admit().failed("503")
    circuits.breaker("agent:builder").admit().succeeded()
    clock.time += 10
    failed = clock.wall().timestamp() - 10
    assert circuits.figures() == {
        "agent:builder": CircuitFigures(CircuitState.CLOSED, 1, 0, 0, "", None, None),
        "provider:claude": CircuitFigures(CircuitState.OPEN, 2, 2, 0, "503", failed, 20.0),
    }
    circuits.reset_all()
    closed = CircuitFigures(CircuitState.CLOSED, 0, 0, 0, "", failed, None)
    assert circuits.figures()["provider:claude"] == closed, "the time of the last failure stays"


def test_reset_of_one_that_nobody_has_used_names_those_that_were() -> None:
    them = circuits()
    them.breaker(SHOP)
    with pytest.raises(
        LookupError, match=r"'origin:http://shp.local': expected a circuit that was used.*used: " + SHOP
    ):
        them.reset("origin:http://shp.local")
    with pytest.raises(LookupError, match="used: none"):
        circuits().reset(SHOP)
    with pytest.raises(ValueError, match="no scope"):
        them.reset("shop")


def test_switched_off_no_circuit_opens(tmp_path: Path) -> None:
    store = CircuitStore(tmp_path / "circuits.sqlite3", FakeClock())
    them = circuits(enabled=False, store=store)
    fail(them.breaker(SHOP), 100)
    assert them.breaker(SHOP).admit()
    assert (them.states(), store.names()) == ({SHOP: CircuitState.CLOSED}, ())
    store.close()


def test_the_closed_one_asked_for_longest_ago_is_forgotten_and_an_open_one_never() -> None:
    clock = FakeClock()
    them = circuits(clock, limit=3)
    fail(them.breaker("agent:open"))
    fail(them.breaker("agent:tried"))
    clock.time += 30
    them.breaker("agent:tried").admit()
    first = them.breaker("agent:first")
    second = them.breaker("agent:second")
    assert set(them.states()) == {"agent:open", "agent:tried", "agent:second"}
    assert them.breaker("agent:second") is second
    assert them.breaker("agent:first") is not first
    for number in range(100):
        them.breaker(f"agent:{number}")
    assert set(them.states()) == {"agent:open", "agent:tried", "agent:99"}


def test_when_all_are_open_one_more_is_remembered() -> None:
    them = circuits(limit=2)
    for number in range(5):
        fail(them.breaker(f"agent:{number}"))
    assert list(them.states().values()) == [CircuitState.OPEN] * 5


def test_asking_again_keeps_a_closed_one() -> None:
    them = circuits(limit=2)
    kept = them.breaker("agent:a")
    them.breaker("agent:b")
    assert them.breaker("agent:a") is kept
    them.breaker("agent:c")
    assert (list(them.states()), them.breaker("agent:a") is kept) == (["agent:a", "agent:c"], True)


def test_with_a_store_a_later_run_finds_the_circuit_open(tmp_path: Path) -> None:
    clock = FakeClock()
    path = tmp_path / ".harness" / "circuits.sqlite3"
    with_store = circuits(clock, store=CircuitStore(path, clock))
    assert isinstance(with_store.breaker(SHOP), SharedBreaker)
    fail(with_store.breaker(SHOP))
    clock.time += 12
    later = circuits(clock, store=CircuitStore(path, clock))
    assert later.states() == {SHOP: CircuitState.OPEN}
    assert later.breaker(SHOP).rests_for() == pytest.approx(18)
    later.reset(SHOP)
    clock.time += 1
    assert with_store.states() == {SHOP: CircuitState.CLOSED}
