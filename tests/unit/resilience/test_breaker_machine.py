"""The breaker against a model of it, in any order of calls, ends of calls, waits, resets and restarts."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness.resilience.breaker import TRANSITIONS, Breaker, BreakerSettings, CircuitOpen, CircuitState, Signal, Ticket
from harness.resilience.events import CircuitChanged, ResilienceEvent
from tests.unit.conftest import examples
from tests.unit.fakes import FakeClock

REST, PROBE = 30, 60
"""Whole seconds, as all waits here: what is due is due exactly."""
ENDS = ["failed", "failed", "succeeded", "released"]


class BreakerMachine(RuleBasedStateMachine):
    """The model: a word, three counts, two times, and the calls whose outcome still counts."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.events: list[CircuitChanged] = []
        self.told = 0
        self.model, self.failures, self.successes, self.calls = "closed", 0, 0, 0
        self.opened_at = self.probe_until = 0.0
        self.tickets: list[tuple[Ticket, int]] = []
        self.counting: set[int] = set()
        self.serial = 0

    @initialize(
        failures=st.integers(1, 4), successes=st.integers(1, 3), volume=st.integers(0, 6), process=st.integers(0, 10**6)
    )
    def begin(self, failures: int, successes: int, volume: int, process: int) -> None:
        self.settings = BreakerSettings(failures, successes, REST, volume, PROBE)
        self.clock.time = process
        self.breaker = self.made()

    def made(self) -> Breaker:
        return Breaker("service:demo", self.settings, now=self.clock.now, emit=self.heard)

    def heard(self, event: ResilienceEvent) -> None:
        assert isinstance(event, CircuitChanged)
        self.events.append(event)

    def moves(self, state: str) -> None:
        self.model = state
        self.told += 1
        self.counting.clear()
        if state == "closed":
            self.failures = self.calls = 0
        self.successes = 0

    # What callers do

    @rule()
    def call(self) -> None:
        now = self.clock.time
        if self.due() > now:
            self.refused(self.due() - now)
            return
        ticket = self.breaker.admit()
        if self.model != "closed":
            if self.model == "open":
                self.moves("half_open")
            self.counting.clear()
            self.probe_until = now + PROBE
        self.serial += 1
        self.counting.add(self.serial)
        self.tickets.append((ticket, self.serial))

    def due(self) -> float:
        """When a caller is admitted."""
        return {"closed": self.clock.time, "open": self.opened_at + REST, "half_open": self.probe_until}[self.model]

    def refused(self, rest: float) -> None:
        with pytest.raises(CircuitOpen) as caught:
            self.breaker.admit()
        refusal = caught.value
        assert (refusal.reopens_in, refusal.failures) == (rest, self.failures)
        assert refusal.probing == (self.model == "half_open")

    @precondition(lambda self: self.tickets)
    @rule(end=st.sampled_from(ENDS), which=st.integers(0, 99))
    def settle(self, end: str, which: int) -> None:
        """A call ends, or one that has ended is heard of again."""
        ticket, serial = self.tickets[-1 - which % len(self.tickets)]
        getattr(ticket, end)(*([f"error {serial}"] if end == "failed" else []))
        if serial in self.counting:
            self.counting.discard(serial)
            getattr(self, end)()

    @rule(end=st.sampled_from(ENDS), times=st.integers(1, 9))
    def in_a_row(self, end: str, times: int) -> None:
        for _ in range(times):
            before = len(self.tickets)
            self.call()
            if len(self.tickets) > before:
                self.settle(end, 0)

    def succeeded(self) -> None:
        self.calls += 1
        if self.model == "closed":
            self.failures = 0
            return
        self.probe_until = 0
        self.successes += 1
        if self.successes == self.settings.success_threshold:
            self.moves("closed")

    def failed(self) -> None:
        self.calls += 1
        self.failures += 1
        enough = self.failures >= self.settings.failure_threshold and self.calls >= self.settings.volume_threshold
        if enough or self.model == "half_open":
            self.opened_at, self.probe_until = self.clock.time, 0
            self.moves("open")

    def released(self) -> None:
        if self.model == "half_open":
            self.probe_until = 0

    @rule(seconds=st.sampled_from([1, 9, REST - 1, REST, PROBE]))
    def wait(self, seconds: int) -> None:
        self.clock.time += seconds

    @precondition(lambda self: self.model != "closed")
    @rule()
    def wait_until_due(self) -> None:
        self.clock.time = max(self.clock.time, self.due())

    @rule(seldom=st.integers(0, 5))
    def reset(self, seldom: int) -> None:
        if seldom:
            return
        self.breaker.reset()
        self.told -= self.model == "closed"
        self.moves("closed")
        self.probe_until = 0

    @rule(seconds=st.integers(0, 40))
    def restart(self, seconds: int) -> None:
        """The process ends, and the next one begins `seconds` later; calls of the old one are heard of no more."""
        saved = self.breaker.snapshot(self.clock.wall())
        self.clock.time += seconds
        self.breaker = self.made()
        self.breaker.restore(saved, self.clock.wall())
        self.tickets.clear()
        self.counting.clear()

    # What always holds

    @invariant()
    def it_is_what_the_model_says(self) -> None:
        if not hasattr(self, "breaker"):
            return
        rested = self.model == "open" and self.opened_at + REST <= self.clock.time
        assert self.breaker.state == ("half_open" if rested else self.model)
        assert self.breaker.failures == self.failures

    @invariant()
    def it_said_each_transition_once(self) -> None:
        assert len(self.events) == self.told
        state = CircuitState.CLOSED
        for event in self.events:
            after = {signal.value.split("{")[0]: state for signal, state in TRANSITIONS[state].items()}
            reason = next(reason for reason in after if event.reason.startswith(reason))
            assert (CircuitState(event.before), CircuitState(event.after)) == (state, after[reason])
            state = CircuitState(event.after)

    @invariant()
    def no_reason_is_a_new_one(self) -> None:
        known = tuple(signal.value.split("{")[0] for signal in Signal)
        assert all(event.reason.startswith(known) for event in self.events)


BreakerMachine.TestCase.settings = settings(max_examples=examples(300), stateful_step_count=50, deadline=None)
TestBreaker = BreakerMachine.TestCase
