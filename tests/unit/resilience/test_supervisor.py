"""Crash 1 and 2 restart, the third within five minutes is permanent."""

from __future__ import annotations

from harness.resilience import Condition, Supervisor
from tests.unit.fakes import FakeClock

RUNNING, RESTARTING, FAILED = Condition.RUNNING, Condition.RESTARTING, Condition.PERMANENTLY_FAILED


def test_the_third_crash_within_five_minutes_is_permanent() -> None:
    clock = FakeClock()
    supervisor = Supervisor(clock.now)
    assert supervisor.condition is RUNNING
    for count in (1, 2):
        assert supervisor.record_death() is RESTARTING
        assert supervisor.crashes == count
        supervisor.record_ready()
        assert supervisor.condition is RUNNING
        clock.time += 100
    assert supervisor.record_death() is FAILED
    supervisor.record_ready()
    assert supervisor.record_death(intended=True) is FAILED
    assert supervisor.intended == 0


def test_old_crashes_are_forgotten() -> None:
    clock = FakeClock()
    supervisor = Supervisor(clock.now)
    for _ in range(10):
        assert supervisor.record_death() is RESTARTING
        clock.time += 150
    assert supervisor.crashes == 1
    clock.time += 299 - 150
    assert (supervisor.record_death(), supervisor.crashes) == (RESTARTING, 2)
    clock.time += 0.5
    assert supervisor.record_death() is FAILED


def test_a_crash_is_exactly_five_minutes_old_and_no_longer_counts() -> None:
    clock = FakeClock()
    supervisor = Supervisor(clock.now)
    supervisor.record_death()
    supervisor.record_death()
    clock.time += 300
    assert supervisor.record_death() is RESTARTING


def test_deaths_on_purpose_count_towards_nothing() -> None:
    supervisor = Supervisor(FakeClock().now)
    supervisor.record_death()
    for _ in range(20):
        assert supervisor.record_death(intended=True) is RESTARTING
    assert (supervisor.crashes, supervisor.intended) == (1, 20)
    assert supervisor.record_death() is RESTARTING
    assert supervisor.record_death() is FAILED


def test_reset_forgets() -> None:
    supervisor = Supervisor(FakeClock().now, limit=1)
    assert supervisor.record_death() is FAILED
    supervisor.reset()
    assert (supervisor.condition, supervisor.crashes) == (RUNNING, 0)


def test_limits_are_settings() -> None:
    clock = FakeClock()
    supervisor = Supervisor(clock.now, limit=2, within=10)
    supervisor.record_death()
    clock.time += 10
    assert supervisor.record_death() is RESTARTING
    clock.time += 9
    assert supervisor.record_death() is FAILED
