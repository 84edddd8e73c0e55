"""The rates at which a warning is due: the table, and sliding windows over an injected clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import ClassVar, Literal

from msgspec import Struct

from harness.resilience.events import (
    NETWORK,
    SESSION,
    VALIDATION,
    CircuitChanged,
    ClientChanged,
    GaveUp,
    HookRefused,
    ResilienceEvent,
    Retrying,
)

Level = Literal["ok", "warning", "critical"]
Unit = Literal["share", "per minute"]
_ORDER: tuple[Level, ...] = ("ok", "warning", "critical")

_ERROR_RATE = "error_rate"
_RECONNECTIONS = "reconnection_failures"
_DROPS = "session_drops"
VALIDATIONS = "hook_validation_failures"


_WORDS = {
    _ERROR_RATE: "{} of the attempts failed",
    _RECONNECTIONS: "{} failed reconnections a minute",
    _DROPS: "{} lost sessions a minute",
    VALIDATIONS: "{} refused proposals a minute",
}
"""Metric -> its value in plain words."""


class Threshold(Struct, frozen=True):
    """A row of the table. A value passes a limit only if it is greater."""

    metric: str
    warning: float
    critical: float
    unit: Unit = "per minute"
    window: float = 60.0
    """The length of the window in seconds."""
    least: int = 0
    """A share is 0 if the window has fewer attempts than this."""

    def level(self, value: float) -> Level:
        return "critical" if value > self.critical else "warning" if value > self.warning else "ok"

    def limit(self, level: Level) -> float:
        """The limit of that level; for `ok`, the limit of a warning."""
        return self.critical if level == "critical" else self.warning


THRESHOLDS = (
    Threshold(_ERROR_RATE, 0.05, 0.15, "share", window=300.0, least=20),
    Threshold(_RECONNECTIONS, 10, 50),
    Threshold(_DROPS, 5, 20),
    Threshold(VALIDATIONS, 20, 100),
)
"""Metrics and their thresholds (docs/design/events-and-resilience.md)."""


class Reading(Struct, frozen=True):
    """The present value of a metric. `value` and `limit` are shares (0 to 1) or numbers per minute."""

    metric: str
    level: Level
    value: float
    limit: float
    unit: Unit

    @property
    def shown(self) -> str:
        """The reading as text: `20 % of the attempts failed (critical: over 15 %)`."""
        passed = "ok up to" if self.level == "ok" else f"{self.level}: over"
        words = _WORDS.get(self.metric, f"{{}} {self.metric}")
        return f"{words.format(self._amount(self.value))} ({passed} {self._amount(self.limit)})"

    def _amount(self, value: float) -> str:
        return f"{round(100 * value, 1):g} %" if self.unit == "share" else f"{round(value, 1):g}"


class ThresholdCrossed(Struct, frozen=True):
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

    def line(self) -> str:
        return f"threshold: {self.reading.shown}"


class SlidingWindow:
    """Counts what happened in the last `seconds`; an event exactly so old no longer counts."""

    def __init__(self, seconds: float, now: Callable[[], float]) -> None:
        self._seconds = seconds
        self._now = now
        self._kept: deque[tuple[float, int]] = deque()
        self._total = 0

    def add(self, number: int = 1) -> None:
        """Count `number` events now."""
        if number:
            self._kept.append((self._now(), number))
            self._total += number

    @property
    def total(self) -> int:
        while self._kept and self._now() - self._kept[0][0] >= self._seconds:
            self._total -= self._kept.popleft()[1]
        return self._total


class Thresholds:
    """Compares rates with the table, and reports when a level changes. It is not thread-safe."""

    def __init__(
        self,
        now: Callable[[], float],
        tell: Callable[[ThresholdCrossed], None] = lambda _crossed: None,
        table: Iterable[Threshold] = THRESHOLDS,
    ) -> None:
        """`now` returns seconds that never go back."""
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

    def count_attempts(self, number: int, failed: int) -> None:
        """Count `number` attempts, `failed` of which failed."""
        if _ERROR_RATE in self._attempts:
            self._attempts[_ERROR_RATE].add(number)
            self._windows[_ERROR_RATE].add(failed)
            self.look()

    def count(self, event: ResilienceEvent) -> None:
        """Count an event towards its metric, if it has one."""
        if (metric := metric_of(event)) in self._windows:
            self._windows[metric].add()
            self.look()

    def look(self) -> tuple[Reading, ...]:
        """Read each metric now, and report each level that changed since the last look."""
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


_OF_CLIENTS = {"detached": _DROPS, "lost": _RECONNECTIONS, "refused": _RECONNECTIONS, HookRefused.type: VALIDATIONS}
"""State that a client has entered, or the refusal of its hook -> its metric."""
_EACH_TIME = {SESSION: _DROPS, VALIDATION: VALIDATIONS}
"""Category of a failure of which each counts -> its metric."""


def metric_of(event: ResilienceEvent) -> str:
    """The metric that an event counts towards; empty for none.

    A reconnection failure is a failed network retry or a failed probe of a circuit; the first failure of a call does
    not count. A lost session, a refused proposal and a refused event of a hook count each time. The client of a session
    counts as a drop when it goes, and as a failed reconnection when it does not come back or may not go on.
    """
    match event:
        case CircuitChanged(before="half_open", after="open"):
            return _RECONNECTIONS
        case ClientChanged(after=state) | HookRefused(type=state):
            return _OF_CLIENTS.get(state, "")
        case Retrying(category=category) | GaveUp(category=category) if category in _EACH_TIME:
            return _EACH_TIME[category]
        case Retrying(category=category, attempt=attempt) if category in NETWORK and attempt > 1:
            return _RECONNECTIONS
        case GaveUp(category=category, exhausted=True) if category in NETWORK:
            return _RECONNECTIONS
        case _:
            return ""
