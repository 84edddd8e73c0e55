"""How often resilience was needed, and how often it helped (specs/004 4.8), counted from its events."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple, dataclass

from harness.resilience.events import (
    CircuitChanged,
    FellBack,
    GaveUp,
    Recovered,
    ResilienceEvent,
    Retrying,
)


@dataclass(frozen=True, slots=True)
class ResilienceMetrics:
    """Counts; those of several processes add up. A retry counts when its outcome is known."""

    total_attempts: int = 0
    successful_retries: int = 0
    failed_retries: int = 0
    circuit_opens: int = 0
    """Also of a circuit that opened again after a bad probe."""
    fallbacks_used: int = 0
    recoveries: int = 0
    """Calls that succeeded after they had failed, by a retry or by a fallback."""
    recovery_seconds: float = 0.0
    """From first failure to success, of all recoveries together."""

    @property
    def avg_recovery_time(self) -> float | None:
        """Seconds; None when nothing had to recover."""
        return self.recovery_seconds / self.recoveries if self.recoveries else None

    @property
    def retries(self) -> int:
        return self.successful_retries + self.failed_retries

    def __add__(self, other: ResilienceMetrics) -> ResilienceMetrics:
        return ResilienceMetrics(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))

    def as_json(self) -> dict[str, int | float | None]:
        """In the names of specs/004 4.8; `avgRecoveryTime` in seconds, null when nothing had to recover."""
        average = self.avg_recovery_time
        return {
            "totalAttempts": self.total_attempts,
            "successfulRetries": self.successful_retries,
            "failedRetries": self.failed_retries,
            "circuitOpens": self.circuit_opens,
            "fallbacksUsed": self.fallbacks_used,
            "avgRecoveryTime": None if average is None else round(average, 3),
        }


class Meter:
    """Counts the events of calls. What was counted elsewhere, of the tasks of a run, is added to it."""

    def __init__(self) -> None:
        self._added = ResilienceMetrics()
        self._counted: Counter[str] = Counter()
        self._seconds = 0.0
        self._open: Counter[tuple[str, str]] = Counter()
        """Retries of a call whose end is not known yet."""

    @property
    def metrics(self) -> ResilienceMetrics:
        return self._added + ResilienceMetrics(**self._counted, recovery_seconds=self._seconds)

    def add(self, metrics: ResilienceMetrics) -> None:
        """What was counted elsewhere; so are the attempts of calls that succeeded at once, which emit no event."""
        self._added += metrics

    def count(self, event: ResilienceEvent, scope: str = "") -> None:
        """`scope` keeps calls of one name apart: the task that makes it."""
        match event:
            case Retrying(name=name):
                self._open[scope, name] += 1
            case Recovered(name=name, after=after):
                self._settle((scope, name), worked=True)
                self._counted["recoveries"] += 1
                self._seconds += after
            case GaveUp(name=name):
                self._settle((scope, name), worked=False)
            case FellBack(name=name):
                self._settle((scope, name), worked=False)
                self._counted["fallbacks_used"] += 1
            case CircuitChanged(after="open"):
                self._counted["circuit_opens"] += 1
        if isinstance(event, Retrying | Recovered | GaveUp):
            self._counted["total_attempts"] += 1

    def _settle(self, call: tuple[str, str], *, worked: bool) -> None:
        """Of the retries of a call the last one may have worked; those before it failed."""
        retries = self._open.pop(call, 0)
        self._counted["successful_retries"] += worked and retries > 0
        self._counted["failed_retries"] += retries - (worked and retries > 0)
