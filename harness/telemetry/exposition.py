"""`.harness/metrics.prom`: the figures of a run in the text format of Prometheus.

Imported only where `telemetry.prometheus = true` asks for it: prometheus_client is an extra. Its global registry stays
untouched.
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from harness.telemetry.tally import Tally

_LEVELS = {"ok": 0, "warning": 1, "critical": 2}


def exposition(tally: Tally, final_states: Mapping[str, int]) -> str:
    """`final_states`: final state -> number of tasks."""
    registry, metrics = CollectorRegistry(), tally.metrics
    counts = {
        "attempts": ("Attempts at steps and calls.", metrics.total_attempts),
        "circuit_opens": ("Changes of a circuit to open.", metrics.circuit_opens),
        "fallbacks": ("Fallbacks used.", metrics.fallbacks_used),
        "recoveries": ("Calls that succeeded after they had failed.", metrics.recoveries),
        "recovery_seconds": ("From first failure to success, of all recoveries.", metrics.recovery_seconds),
    }
    for name, (text, count) in counts.items():
        Counter(f"taskspec_{name}", text, registry=registry).inc(count)
    retries = Counter("taskspec_retries", "Retries by outcome.", ["outcome"], registry=registry)
    retries.labels("worked").inc(metrics.successful_retries)
    retries.labels("failed").inc(metrics.failed_retries)
    tasks = Counter("taskspec_tasks", "Tasks by final state.", ["final_state"], registry=registry)
    for state, count in final_states.items():
        tasks.labels(state).inc(count)
    _thresholds(tally, registry)
    return generate_latest(registry).decode()


def _thresholds(tally: Tally, registry: CollectorRegistry) -> None:
    """The most alarming readings of the run."""
    values = Gauge("taskspec_threshold_value", "Highest share or rate per minute.", ["metric"], registry=registry)
    levels = Gauge("taskspec_threshold_level", "0 ok, 1 warning, 2 critical.", ["metric"], registry=registry)
    for reading in tally.readings:
        values.labels(reading.metric).set(reading.value)
        levels.labels(reading.metric).set(_LEVELS[reading.level])
