"""When rates become alarming: the table, and windows that slide over an injected clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from harness.resilience.events import CircuitChanged, GaveUp, ResilienceEvent, Retrying

Level = Literal["ok", "warning", "critical"]
Unit = Literal["share", "per minute"]
_ORDER: tuple[Level, ...] = ("ok", "warning", "critical")

ERROR_RATE = "error_rate"
RECONNECTIONS = "reconnection_failures"
DROPS = "session_drops"
VALIDATIONS = "hook_validation_failures"

NETWORK = frozenset({"network", "timeout", "unavailable"})
"""Categories of failures of the network."""
SESSION, VALIDATION = "session", "validation"
"""Categories: a session was lost; what a hook or an agent proposed was refused."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A row of the table. A value over a limit has passed it; one that is equal has not."""

    metric: str
    warning: float
    critical: float
    unit: Unit = "per minute"
    window: float = 60.0
    """Seconds that are looked back."""
    least: int = 0
    """A share is 0 with fewer attempts in the window than this."""

    def level(self, value: float) -> Level:
        return "critical" if value > self.critical else "warning" if value > self.warning else "ok"

    def limit(self, level: Level) -> float:
        """What was passed; for `ok`, what was not."""
        return self.critical if level == "critical" else self.warning


THRESHOLDS = (
    Threshold(ERROR_RATE, 0.05, 0.15, "share", window=300.0, least=20),
    Threshold(RECONNECTIONS, 10, 50),
    Threshold(DROPS, 5, 20),
    Threshold(VALIDATIONS, 20, 100),
)
"""Metrics and their thresholds (docs/design/events-and-resilience.md)."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a metric shows now. `value` is a share (0 to 1) or a number per minute, as `limit` is."""

    metric: str
    level: Level
    value: float
    limit: float
    unit: Unit

    @property
    def shown(self) -> str:
        """`error_rate 20 % of the attempts (critical: over 15 %)`."""
        passed = "ok up to" if self.level == "ok" else f"{self.level}: over"
        of = " of the attempts" if self.unit == "share" else ""
        return f"{self.metric} {self._amount(self.value)}{of} ({passed} {self._amount(self.limit)})"

    def _amount(self, value: float) -> str:
        return f"{round(100 * value, 1):g} %" if self.unit == "share" else f"{round(value, 1):g} per minute"


@dataclass(frozen=True, slots=True)
class ThresholdCrossed:
    """A metric went from one level to another."""

    type: ClassVar[str] = "threshold"
    metric: str
    before: Level
    after: Level
    value: float
    limit: float
    unit: Unit

    @property
    def reading(self) -> Reading:
        return Reading(self.metric, self.after, self.value, self.limit, self.unit)


class SlidingWindow:
    """Counts what happened in the last `seconds`; what is exactly so old no longer counts."""

    def __init__(self, seconds: float, now: Callable[[], float]) -> None:
        self._seconds = seconds
        self._now = now
        self._kept: deque[tuple[float, int]] = deque()
        self._total = 0

    def add(self, number: int = 1) -> None:
        """So many, now."""
        if number:
            self._kept.append((self._now(), number))
            self._total += number

    @property
    def total(self) -> int:
        while self._kept and self._now() - self._kept[0][0] >= self._seconds:
            self._total -= self._kept.popleft()[1]
        return self._total


class Thresholds:
    """Reads rates against the table, and tells when a level changes. Not thread-safe."""

    def __init__(
        self,
        now: Callable[[], float],
        tell: Callable[[ThresholdCrossed], None] = lambda _crossed: None,
        table: Iterable[Threshold] = THRESHOLDS,
    ) -> None:
        """`now` answers seconds that never go back."""
        self._tell = tell
        self._table = tuple(table)
        self._windows = {row.metric: SlidingWindow(row.window, now) for row in self._table}
        self._attempts = {row.metric: SlidingWindow(row.window, now) for row in self._table if row.unit == "share"}
        self._levels: dict[str, Level] = {row.metric: "ok" for row in self._table}
        self._worst: dict[str, Reading] = {}

    @property
    def worst(self) -> tuple[Reading, ...]:
        """The most alarming reading of each metric so far, in the order of the table."""
        return tuple(self._worst.get(row.metric, self._reading(row)) for row in self._table)

    def attempted(self, number: int, failed: int) -> None:
        """So many attempts were made, and so many of them failed."""
        if ERROR_RATE in self._attempts:
            self._attempts[ERROR_RATE].add(number)
            self._windows[ERROR_RATE].add(failed)
            self.look()

    def count(self, event: ResilienceEvent) -> None:
        """Counts an event towards its metric, if it has one."""
        if (metric := metric_of(event)) in self._windows:
            self._windows[metric].add()
            self.look()

    def look(self) -> tuple[Reading, ...]:
        """What each metric shows now; a level that changed since the last look is told."""
        return tuple(self._look(row) for row in self._table)

    def _look(self, row: Threshold) -> Reading:
        reading, before = self._reading(row), self._levels[row.metric]
        worst = self._worst.setdefault(row.metric, reading)
        if (_ORDER.index(reading.level), reading.value) > (_ORDER.index(worst.level), worst.value):
            self._worst[row.metric] = reading
        self._levels[row.metric] = reading.level
        if reading.level != before:
            crossed = ThresholdCrossed(row.metric, before, reading.level, reading.value, reading.limit, row.unit)
            self._tell(crossed)
        return reading

    def _reading(self, row: Threshold) -> Reading:
        total = self._windows[row.metric].total
        if row.unit == "share":
            attempts = self._attempts[row.metric].total
            value = total / attempts if attempts >= max(1, row.least) else 0.0
        else:
            value = total * 60 / row.window
        level = row.level(value)
        return Reading(row.metric, level, value, row.limit(level), row.unit)


def metric_of(event: ResilienceEvent) -> str:
    """Which metric an event counts towards; empty for none.

    A reconnection failure is a retry of the network that failed, or a bad probe of a circuit; the first failure of a
    call is what it reconnects from. A lost session and a refused proposal count each time.
    """
    match event:
        case CircuitChanged(before="half_open", after="open"):
            return RECONNECTIONS
        case Retrying(category=category) | GaveUp(category=category) if category == SESSION:
            return DROPS
        case Retrying(category=category) | GaveUp(category=category) if category == VALIDATION:
            return VALIDATIONS
        case Retrying(category=category, attempt=attempt) if category in NETWORK and attempt > 1:
            return RECONNECTIONS
        case GaveUp(category=category, exhausted=True) if category in NETWORK:
            return RECONNECTIONS
        case _:
            return ""
