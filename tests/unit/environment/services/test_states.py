"""The states of a service as a table, and the events of a whole life."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from itertools import chain, product
from typing import Any

import pytest

from harness.environment.ownership import TRANSITIONS, ServicePhase, ServiceState
from harness.environment.services import Services
from harness.recovery.failure import Failed
from harness.resilience.events import InvariantBroken, ResilienceEvent, ServiceChanged
from tests.ports import listens
from tests.unit.environment.services.conftest import PROGRAM, comes, eventually, play, reborn, settings, site
from tests.unit.fakes import FakeClock

Make = Callable[..., Services]


@pytest.mark.parametrize(("before", "after"), [*product(ServiceState, ServiceState)])
def test_every_pair_of_states(before: ServiceState, after: ServiceState) -> None:
    events: list[ResilienceEvent] = []
    clock = FakeClock()
    status = ServicePhase("site", clock, events.append, state=before)
    clock.time += 5
    status.change_state(after, "because")
    assert status.state is after
    changed = ServiceChanged("site", before, after, "because")
    if after is before:
        assert events == []
        assert (clock.wall() - status.since).total_seconds() == 5
    elif after in TRANSITIONS[before]:
        assert events == [changed]
        assert (status.since, status.reason) == (clock.wall(), "because")
    else:
        broken = {"service": "site", "before": before, "after": after, "reason": "because"}
        assert events == [InvariantBroken("service: no way from one state to the other", broken), changed]
    assert status.restarts == (before is ServiceState.RESTARTING and after is ServiceState.UP)


def test_each_state_can_be_left_and_reached() -> None:
    assert set(TRANSITIONS) == set(ServiceState)
    assert all(TRANSITIONS.values())
    assert {state for ways in TRANSITIONS.values() for state in ways} == set(ServiceState)


def told(events: list[ResilienceEvent]) -> list[tuple[str, str]]:
    """States with their reasons; each begins where the last one ended."""
    changes = [event for event in events if isinstance(event, ServiceChanged)]
    assert changes == events, "nothing but changes, and none that the table does not know"
    assert [each.before for each in changes[1:]] == [each.after for each in changes[:-1]]
    return [(each.after, each.reason) for each in changes]


def test_the_events_of_a_life(make: Make, port: int) -> None:
    events: list[ResilienceEvent] = []
    services = make(settings(port), emit=events.append)
    assert services.states == {"site": "down"}

    async def main() -> None:
        for _ in range(2):
            pid = site(port).pid
            os.kill(pid, signal.SIGKILL)
            assert await reborn(port, pid)
            await services.await_ready()
            assert services.states == {"site": "up"}, "what is ready is ready altogether"
        await services.end("site", orderly=False)
        assert await comes(lambda: services.states == {"site": "up"} and listens(port))
        site(port).kill()
        assert await comes(lambda: services.states == {"site": "permanently_failed"})
        await services.start()

    play(services, main)
    start = [("booting", "spawned"), ("up", "health_ok")]
    crashes = [[("restarting", why), ("up", "health_ok")] for why in ("crash_1", "crash_2", "ended_on_purpose")]
    end = [("permanently_failed", "crash_3"), *start, ("stopped", "stop_ordered")]
    assert told(events) == [*start, *chain(*crashes), *end]


def test_the_events_of_a_start_that_fails(make: Make, port: int) -> None:
    events: list[ResilienceEvent] = []
    services = make(settings(port, "site", "crash"), emit=events.append)
    with pytest.raises(Failed):
        asyncio.run(services.start())
    assert told(events) == [("booting", "spawned"), ("down", "start_failed")]


def test_the_events_of_what_is_reused(make: Make, port: int, run: Any) -> None:
    run(str(PROGRAM), str(port), stdout=-3)
    assert eventually(lambda: listens(port))
    events: list[ResilienceEvent] = []
    services = make(settings(port, command=None), emit=events.append)

    async def main() -> None:
        assert services.started == ()

    play(services, main)
    assert told(events) == [("up", "already_running")]
