"""The figures of a run, out of the records of all its processes (004 4.8, 001's thresholds)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Any

from harness.resilience.events import CircuitChanged, InvariantBroken
from harness.resilience.metrics import Meter, ResilienceMetrics
from harness.resilience.thresholds import Reading, ThresholdCrossed, Thresholds
from harness.telemetry.record import Record, StepDone, TaskDone
from harness.telemetry.wording import describe


class Tally:
    """A sink. Its time is that of the records, so that the same records give the same figures, live or read again."""

    name = "metrics"

    def __init__(self, tell: Callable[[ThresholdCrossed], None] = lambda _crossed: None) -> None:
        """`tell` is told when a metric changes its level."""
        self._meter = Meter()
        self._now = 0.0
        self._thresholds = Thresholds(lambda: self._now, tell)
        self._broken: Counter[str] = Counter()
        """What was told of states that exclude each other, in words -> how often."""

    def __call__(self, record: Record) -> None:
        self.look(record.at)
        match record.event:
            case TaskDone() as done:
                self._meter.add(_of_a_task(done))
                counted = 0 if done.expected or record.faulted else done.failures
                self._thresholds.attempted(done.attempts, counted)
            case ThresholdCrossed() | StepDone():
                return
            case InvariantBroken() as broken:
                self._broken[describe(broken)] += 1
            case event:
                if record.step is None or isinstance(event, CircuitChanged):
                    # What the steps of a task did is counted once, at its end.
                    self._meter.count(event, record.task_id)
                if not record.faulted:
                    self._thresholds.count(event)

    def look(self, at: datetime) -> None:
        """Time goes on: what has left its window no longer counts. A time before the last one is that one."""
        self._now = max(self._now, at.timestamp())
        self._thresholds.look()

    @property
    def metrics(self) -> ResilienceMetrics:
        return self._meter.metrics

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Of each metric the most alarming one of the run."""
        return self._thresholds.worst

    def as_json(self) -> dict[str, Any]:
        """The parts `resilience` and `thresholds` of metrics.json."""
        now = {reading.metric: reading for reading in self._thresholds.look()}
        return {
            "resilience": self.metrics.as_json(),
            "thresholds": {
                worst.metric: {**_shown(worst), "at_the_end": _shown(now[worst.metric])} for worst in self.readings
            },
        }

    def lines(self) -> list[str]:
        """For the summary of a run: what resilience did, if it was needed, and which thresholds were passed."""
        metrics = self.metrics
        parts = [
            f"{_number(metrics.retries, 'retry', 'retries')} ({metrics.successful_retries} worked)"
            * (metrics.retries > 0),
            f"circuit opened {_times(metrics.circuit_opens)}" * (metrics.circuit_opens > 0),
            _number(metrics.fallbacks_used, "fallback", "fallbacks") * (metrics.fallbacks_used > 0),
        ]
        average = metrics.avg_recovery_time
        parts.append("" if average is None else f"recovered in {average:.1f} s on average")
        said = ", ".join(filter(None, parts))
        alarms = [f"threshold: {each.shown}" for each in self.readings if each.level != "ok"]
        alarms += [text if count == 1 else f"{text}, {_times(count)}" for text, count in self._broken.items()]
        return [f"resilience: {said}", *alarms] if said else alarms


def _of_a_task(done: TaskDone) -> ResilienceMetrics:
    """Of a task that was left out nothing counts but its attempts: no report shows more of it."""
    if done.final_state == "skipped":
        return ResilienceMetrics(total_attempts=done.attempts)
    return ResilienceMetrics(
        total_attempts=done.attempts,
        successful_retries=done.successful_retries,
        failed_retries=done.retries - done.successful_retries,
        fallbacks_used=done.fallbacks,
        recoveries=done.recovered,
        recovery_seconds=done.recovery_seconds,
    )


def _shown(reading: Reading) -> dict[str, Any]:
    document = asdict(reading)
    del document["metric"]
    return {**document, "value": round(reading.value, 4)}


def _number(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
