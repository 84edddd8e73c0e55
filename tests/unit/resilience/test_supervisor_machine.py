"""The supervisor against a model of a few lines, in any order of crashes, starts, orders and passing time."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness.resilience import Condition, Supervisor
from tests.unit.fakes import FakeClock


class SupervisorMachine(RuleBasedStateMachine):
    """The model: all crashes since the last order, and whether it has failed, runs, or is being started."""

    @initialize(limit=st.integers(1, 4), within=st.sampled_from([1.0, 10.0, 300.0]))
    def begin(self, limit: int, within: float) -> None:
        self.clock = FakeClock()
        self.supervisor = Supervisor(self.clock.now, limit=limit, within=within)
        self.crashes: list[float] = []
        self.intended = 0
        self.expected = Condition.RUNNING

    @property
    def recent(self) -> int:
        return len([at for at in self.crashes if self.clock.time - at < self.supervisor.within])

    @property
    def failed(self) -> bool:
        return self.expected is Condition.PERMANENTLY_FAILED

    @rule()
    def it_crashes(self) -> None:
        if not self.failed:
            self.crashes.append(self.clock.time)
            over = self.recent >= self.supervisor.limit
            self.expected = Condition.PERMANENTLY_FAILED if over else Condition.RESTARTING
        assert self.supervisor.record_death() is self.expected

    @rule()
    def it_is_ended_on_purpose(self) -> None:
        """Never permanent by itself: the crashes that there are were not enough."""
        if not self.failed:
            self.intended += 1
            self.expected = Condition.RESTARTING
        assert self.supervisor.record_death(intended=True) is self.expected

    @rule()
    def it_is_ready(self) -> None:
        if self.expected is Condition.RESTARTING:
            self.expected = Condition.RUNNING
        self.supervisor.record_ready()

    @rule()
    def somebody_looks_after_it(self) -> None:
        self.crashes, self.intended, self.expected = [], 0, Condition.RUNNING
        self.supervisor.reset()

    @rule(seconds=st.one_of(st.just(0.0), st.floats(0, 400), st.sampled_from([1.0, 10.0, 299.0, 300.0])))
    def time_passes(self, seconds: float) -> None:
        self.clock.time += seconds

    @precondition(lambda self: self.failed)
    @rule(seconds=st.floats(300, 1e6))
    def what_is_permanent_outlasts_its_crashes(self, seconds: float) -> None:
        self.clock.time += seconds
        assert self.supervisor.condition is Condition.PERMANENTLY_FAILED

    @invariant()
    def it_is_as_the_model_says(self) -> None:
        assert self.supervisor.condition is self.expected
        assert self.supervisor.intended == self.intended
        assert self.supervisor.crashes == min(self.recent, self.supervisor.limit)


TestSupervisor = SupervisorMachine.TestCase
