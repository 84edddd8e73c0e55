"""What cannot be at the same time is told when it stands; what only follows each other is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.circuits import RunCircuits
from harness.events import AttemptEnded, Event, TaskEnded
from harness.failure import Failure, Outcome, Passed
from harness.resilience.events import InvariantBroken, ResilienceEvent
from harness.services.coherence import GRACE, LOOK, Coherence
from harness.services.standing import SERVERS, Standing
from harness.services.states import WAYS, State
from harness.settings import BreakerTable, Settings
from harness.spec.steps import Click, Open, Step
from tests.unit.fakes import FakeClock

INTERVAL = 1.0
LOOKS = int((GRACE + 2 * INTERVAL) / LOOK) + 1
SHOP = "http://shop.local/cart"
PLAIN = cast("Any", SimpleNamespace(faults=(), spec=SimpleNamespace(expect=None), key="T-1", base_url=None))
FAULTED = cast("Any", SimpleNamespace(faults=("one",), spec=SimpleNamespace(expect=None), key="T-2", base_url=None))
LINKED = "Cannot be `connected` if server is `down`"
CLOSED = "Circuit breaker cannot be `closed` during `booting`"
POLLED = "Polling must be `running` if extension is `connected`"
GONE = Failure("NET_CONNECTION_REFUSED", "refused", details={"url": SHOP})


@dataclass
class Scene:
    """A service of two hosts, its circuits, and tasks that say how their steps end, under a clock that jumps."""

    clock: FakeClock = field(default_factory=FakeClock)
    state: State = State.DOWN
    since: float = 0.0
    polled: bool | None = True
    told: list[InvariantBroken] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings = Settings(breaker=BreakerTable(failure_threshold=2, success_threshold=1, reset_seconds=1))
        self.circuits = RunCircuits(settings, self.clock, lambda _: None, {})
        self.coherence = Coherence(lambda: [self.standing], self.circuits.of_hosts, self.clock, self._tell)
        self.heard: list[Event] = []
        self.hear = self.coherence.hearing(self.heard.append)

    @property
    def standing(self) -> Standing:
        hosts = ("shop.local", "bank.local")
        return Standing("demo", hosts, self.state, "why", self.since, self.polled, INTERVAL)

    def _tell(self, event: ResilienceEvent) -> None:
        assert isinstance(event, InvariantBroken)
        self.told.append(event)

    def become(self, *states: State) -> None:
        for state in states:
            self.clock.time += 0.01
            self.state, self.since = state, self.clock.time

    def ends(self, outcome: Outcome, url: str = SHOP, plan: Any = PLAIN, step: Step | None = None) -> None:
        """An attempt at a step, with what the engine tells the circuit of it."""
        self.clock.time += 0.01
        attempt: Any = SimpleNamespace(outcome=outcome, step=step or Open(url=url))
        self.hear(AttemptEnded(plan, 0, attempt))

    def calls(self, *outcomes: bool, url: str = SHOP) -> None:
        for good in outcomes:
            self.clock.time += 0.01
            breaker = self.circuits.of(PLAIN)(url)
            assert breaker is not None
            ticket = breaker.admit()
            ticket.succeeded() if good else ticket.failed("gone")

    def looks(self, count: int = LOOKS) -> list[str]:
        """What is told at so many looks."""
        before = len(self.told)
        for _ in range(count):
            self.clock.time += LOOK
            self.coherence.look()
        return [each.rule for each in self.told[before:]]


def test_polling_that_stands_still_while_the_service_is_used() -> None:
    scene = Scene()
    scene.become(State.BOOTING, State.UP)
    scene.ends(Passed())
    assert scene.looks(50) == []
    scene.polled = False
    assert scene.looks(LOOKS - 1) == []
    assert scene.looks() == [POLLED]
    assert scene.told[0].states == {
        "of": "demo",
        "server": "up",
        "extension": "connected",
        "polling": "stopped",
        "service": "up (why)",
        "tasks": "T-1",
    }
    assert scene.looks(50) == [], "once"
    scene.polled = True
    assert scene.looks(1) == []
    scene.polled = False
    assert scene.looks() == [POLLED], "another episode"


@pytest.mark.parametrize("state", [State.DOWN, State.STOPPED, State.PERMANENTLY_FAILED])
def test_a_host_that_answers_though_its_service_is_gone(state: State) -> None:
    scene = Scene()
    scene.become(State.BOOTING, State.UP)
    scene.ends(Passed())
    scene.become(state)
    assert scene.looks(50) == [], "what was answered before is no answer now"
    scene.ends(Passed())
    assert scene.looks() == [LINKED]


def test_a_circuit_that_closes_while_its_service_restarts() -> None:
    scene = Scene()
    scene.become(State.BOOTING, State.UP)
    scene.calls(True)
    scene.become(State.RESTARTING)
    assert scene.looks(50) == [], "nobody has called since it died: the circuit is closed, and says nothing"
    scene.calls(False, False)
    assert scene.looks(50) == [], "open"
    scene.calls(True)
    assert scene.looks() == [CLOSED]
    assert scene.told[0].states["circuits"] == "origin:http://shop.local closed"


def test_a_first_boot_is_not_judged_by_circuits() -> None:
    scene = Scene()
    scene.calls(True)
    scene.become(State.BOOTING)
    assert scene.looks(50) == []


@pytest.mark.parametrize(
    "end",
    [
        lambda scene: scene.ends(GONE),
        lambda scene: scene.ends(Failure("BROWSER_CRASHED", "gone"), step=Click(selector="#a")),
        lambda scene: scene.hear(TaskEnded(PLAIN, cast("Any", None), scene.clock.wall())),
        lambda scene: scene.become(State.UNHEALTHY, State.UP),
    ],
)
def test_what_ends_a_contact(end: Callable[[Scene], None]) -> None:
    scene = Scene(polled=False)
    scene.become(State.BOOTING, State.UP)
    scene.ends(Passed())
    assert scene.looks(2) == []
    end(scene)
    assert scene.looks(50) == []


@pytest.mark.parametrize(
    ("outcome", "url", "plan", "step"),
    [
        (Passed(), "http://elsewhere.local/", PLAIN, None),
        (Passed(), SHOP, FAULTED, None),
        (Passed(), SHOP, PLAIN, Click(selector="#a")),
        (Failure("ELEMENT_NOT_FOUND", "none"), SHOP, PLAIN, None),
    ],
)
def test_what_is_no_contact(outcome: Outcome, url: str, plan: Any, step: Step | None) -> None:
    scene = Scene(polled=False)
    scene.become(State.BOOTING, State.UP)
    scene.ends(outcome, url, plan, step)
    assert scene.looks(50) == []


def test_polling_that_is_not_wanted_is_not_missed() -> None:
    scene = Scene(polled=None)
    scene.become(State.BOOTING, State.UP)
    scene.ends(Passed())
    assert scene.looks(50) == []


def test_a_process_that_stood_still_has_seen_nothing_meanwhile() -> None:
    """A machine that slept: the clock jumps, and nobody could hear of anything."""
    scene = Scene()
    scene.become(State.UP)
    scene.ends(Passed())
    scene.polled = False
    assert scene.looks(2) == []
    scene.clock.time += 3600
    scene.coherence.look()
    scene.polled = True
    assert scene.looks() == []


def test_it_looks_by_itself_until_it_is_cancelled() -> None:
    scene = Scene(polled=False)
    scene.become(State.UP)
    scene.ends(Passed())

    class Turning(FakeClock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            await asyncio.sleep(0)

    coherence = scene.coherence
    coherence._clock = Turning()

    async def main() -> None:
        coherence.begin()
        while not scene.told:
            await asyncio.sleep(0)
        coherence.end()
        ended = coherence._clock.now()
        await asyncio.sleep(0.01)
        assert coherence._clock.now() <= ended + LOOK

    asyncio.run(main())
    assert [each.rule for each in scene.told] == [POLLED]
    assert coherence._clock.now() >= LOOKS * LOOK


HEARD = LOOKS - 2
"""Looks until a service's watch has noticed what its program does: less than what is told of takes."""


@dataclass
class Supervised(Scene):
    """A program that dies and comes back, and a watch that learns of it later; tasks and circuits learn by calling."""

    alive: bool = False
    late: int = 0

    def act(self, action: str) -> None:
        getattr(self, action)()
        behind = self.alive != (SERVERS[self.state] == "up")
        self.late = self.late + 1 if behind and action == "look" else self.late * behind
        if self.late >= HEARD:
            self.notice()

    def dies(self) -> None:
        self.alive = False

    def comes(self) -> None:
        self.alive = self.state is not State.PERMANENTLY_FAILED

    def notice(self) -> None:
        """By the table; one that was given up is up no more, however that came."""
        self.late = 0
        up, running = SERVERS[self.state] == "up", self.alive
        if up and not running:
            self.become(State.RESTARTING)
        elif running and not up:
            self.become(*([State.BOOTING] if self.state is State.STOPPED else []), State.UP)

    def misses(self) -> None:
        if self.state is State.UP:
            self.become(State.UNHEALTHY)

    def gives_up(self) -> None:
        if self.state is State.RESTARTING and not self.alive:
            self.become(State.PERMANENTLY_FAILED)
            self.polled = False

    def call(self) -> None:
        """A step of a task: it is refused by an open circuit, else it meets the program as that really is."""
        self.clock.time += 0.01
        breaker = self.circuits.of(PLAIN)(SHOP)
        assert breaker is not None
        if breaker.rests_for() > 0:
            return
        ticket = breaker.admit()
        ticket.succeeded() if self.alive else ticket.failed("gone")
        self.ends(Passed() if self.alive else GONE)

    def task_ends(self) -> None:
        self.hear(TaskEnded(PLAIN, cast("Any", None), self.clock.wall()))

    def look(self) -> None:
        self.looks(1)


ACTIONS = ("dies", "comes", "notice", "misses", "gives_up", "call", "call", "look", "look", "look", "task_ends")


@settings(deadline=None)
@given(st.lists(st.sampled_from(ACTIONS), min_size=40, max_size=80))
def test_a_service_that_is_supervised_never_breaks_a_rule(actions: list[str]) -> None:
    scene = Supervised()
    scene.become(State.BOOTING)
    for action in actions:
        before = scene.state
        scene.act(action)
        assert before is scene.state or scene.state in WAYS[before] | {State.UP}
        assert scene.told == []


def test_the_circuits_that_are_looked_at_are_not_made_by_that(tmp_path: Path) -> None:
    circuits = RunCircuits(Settings(root=tmp_path), FakeClock(), lambda _: None, {})
    assert circuits.of_hosts(["shop.local"]) == ()
    breaker = circuits.of(PLAIN)("https://SHOP.local:443/a")
    assert circuits.of_hosts(["Shop.local", "bank.local"]) == (breaker,)


def test_every_state_has_a_word() -> None:
    assert set(SERVERS) == set(State)


def test_events_of_other_kinds_are_nothing() -> None:
    scene = Scene(polled=False)
    scene.become(State.UP)
    other = cast("Event", SimpleNamespace(plan=PLAIN))
    scene.hear(other)
    assert scene.heard == [other]
    assert scene.looks() == []
