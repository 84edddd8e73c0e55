"""What became of the services that crashed in a run, from the records of all its processes."""

from __future__ import annotations

from harness.reporting.telemetry.metrics import MetricsSink
from harness.reporting.telemetry.record import describe
from harness.resilience.events import ServiceChanged
from tests.unit.reporting.telemetry.stage import record

CRASH = [("up", "restarting", "crash_1"), ("restarting", "up", "health_ok")]
HANG = [("up", "unhealthy", "no_answer"), ("unhealthy", "restarting", "crash_2")]
PURPOSE = [("up", "restarting", "ended_on_purpose"), ("restarting", "up", "health_ok")]
NEVER_UP = [("booting", "down", "start_failed"), ("down", "permanently_failed", "crash_3")]
SEEN_BY_A_WORKER = [("up", "down", "gone"), ("down", "up", "already_running")]


def words(**services: list[tuple[str, str, str]]) -> dict[str, str]:
    sink = MetricsSink()
    for name, changes in services.items():
        for change in changes:
            sink.on_record(record(ServiceChanged(name, *change)))
    return {name: each.words for name, each in sink.service_crashes.items()}


def test_a_crash_is_counted_and_its_end_is_told() -> None:
    end = [("restarting", "permanently_failed", "crash_3")]
    assert words(a=CRASH, b=PURPOSE, c=SEEN_BY_A_WORKER, d=NEVER_UP) == {"a": "crashed once and came back"}
    assert words(a=[*CRASH, *HANG, *CRASH[1:]]) == {"a": "crashed twice and came back"}
    assert words(a=CRASH[:1], b=[*CRASH, *HANG, *end]) == {
        "a": "crashed once and was not back at the end of the run",
        "b": "crashed 3 times and is not started again",
    }


def test_the_figures_and_the_line_have_it() -> None:
    sink = MetricsSink()
    assert "service_crashes" not in sink.as_json()
    for change in CRASH:
        sink.on_record(record(ServiceChanged("a", *change)))
    assert sink.as_json()["service_crashes"] == {"a": {"crashes": 1, "state": "up"}}
    assert describe(ServiceChanged("a", *CRASH[0])) == "service a crashed: up -> restarting (crash_1)"
