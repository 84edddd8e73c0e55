"""Error breakdown, recoveries and thresholds of a run: specs/003 6.1, specs/004 4.8, specs/001."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.dashboard.view import Rate, SlowStep, ThresholdState
from harness.history.record import RunRecord
from harness.model.figures import success_rates
from harness.reporting.metrics import error_metrics, rule_name
from harness.reporting.table import place
from harness.reporting.task_record import TaskRecord
from harness.resilience.thresholds import THRESHOLDS, Unit

SLOWEST = 10
_WORDS = {
    "totalAttempts": "attempts",
    "successfulRetries": "retries that worked",
    "failedRetries": "retries that did not",
    "circuitOpens": "circuits opened",
    "fallbacksUsed": "fallbacks used",
    "avgRecoveryTime": "average recovery",
}
"""specs/004 4.8, for people."""


def records(run: RunRecord) -> list[TaskRecord]:
    """Of the executions that count."""
    return [each.record for each in run.last if each.record is not None]


def breakdown(run: RunRecord) -> dict[str, int]:
    """error_type -> tasks, the most frequent first. What a task declares, and what is not judged, is not counted."""
    counted = (each.record for each in run.last if each.judged)
    found = error_metrics([each for each in counted if each is not None])["error_breakdown"]
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))


def recoveries(run: RunRecord) -> Iterator[Rate]:
    """How often each kind of recovery was tried and worked, the least successful first."""
    found = success_rates(pair for each in run.executions if each.record for pair in each.record.recoveries)
    for family, tried, worked in sorted(found, key=lambda each: (each[2] / each[1], each[0])):
        yield Rate(name=rule_name(family), tried=tried, worked=worked, rate=round(worked / tried, 4))


def resilience(run: RunRecord) -> dict[str, str]:
    """specs/004 4.8, in words; nothing for a run that wrote no figures."""
    found = run.metrics.get("resilience")
    found = found if isinstance(found, Mapping) else {}
    return {words: _figure(key, found[key]) for key, words in _WORDS.items() if found.get(key) is not None}


def _figure(key: str, value: Any) -> str:
    return f"{value:g} s" if key == "avgRecoveryTime" and isinstance(value, int | float) else str(value)


def thresholds(run: RunRecord) -> Iterator[ThresholdState]:
    """The error rate, and each other metric that was not 0 all the time."""
    found = run.metrics.get("thresholds")
    for row in THRESHOLDS if isinstance(found, Mapping) else ():
        worst = _value(found.get(row.metric)) if isinstance(found, Mapping) else None
        if worst is None or (worst == 0 and row.metric != "error_rate"):
            continue
        last = _value((found or {}).get(row.metric, {}).get("at_the_end"))
        yield ThresholdState(
            metric="failed attempts (error rate)" if row.metric == "error_rate" else row.metric.replace("_", " "),
            level=row.level(worst),
            worst=_amount(worst, row.unit),
            at_the_end="" if last is None else _amount(last, row.unit),
            warning=f"over {_amount(row.warning, row.unit)}",
            critical=f"over {_amount(row.critical, row.unit)}",
        )


def _value(reading: Any) -> float | None:
    value = reading.get("value") if isinstance(reading, Mapping) else None
    return float(value) if isinstance(value, int | float) else None


def _amount(value: float, unit: Unit) -> str:
    return f"{100 * value:.3g} %" if unit == "share" else f"{value:.3g} per minute"


def slow_steps(found: Sequence[TaskRecord]) -> list[SlowStep]:
    """Of all tasks, the longest first."""
    every = (
        SlowStep(
            task_id=record.task_id,
            step=f"{place(line.index, record.steps_total)} {line.act} {line.target}".strip(),
            seconds=line.seconds,
            attempts=len(line.attempts),
            passed=line.passed,
        )
        for record in found
        for line in record.steps
    )
    return sorted(every, key=lambda each: (-each.seconds, each.task_id, each.step))[:SLOWEST]
