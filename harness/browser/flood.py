"""Events that come faster than they can be read: a page that logs or sends requests without end.

The newest are kept, and all are counted. A browser whose answers come late behind such events is not silent; the page
that sends them is to blame for it.
"""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from harness.resilience import Clock

FLOOD = 50
"""Events of one page in a second. Many pages have more of them as they load: it counts only when answers are late."""
WINDOW = 1.0
"""Seconds over which events are counted."""
HEAVY = 3 * FLOOD
"""Events of a second after which answers stay late for a while. A page that only loads has fewer."""
LINGERS = 5.0
"""Seconds for which they do: nothing may arrive while the driver works off what was sent."""

T = TypeVar("T")


class Newest(deque[T]):
    """The newest entries, and how many older ones fell out."""

    def __init__(self, most: int) -> None:
        super().__init__(maxlen=most)
        self.dropped = 0

    def append(self, entry: T) -> None:
        self.dropped += len(self) == self.maxlen
        super().append(entry)


class Pace:
    """Events of a context or a browser, by kind: how many of them came in a second."""

    def __init__(self, clock: Clock, whole: Pace | None = None) -> None:
        """`whole` is that of the browser around: each event counts there too."""
        self._clock = clock
        self._whole = whole
        self._began = clock.now()
        self._running: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._flood: dict[str, int] = {}
        self._flooded = -LINGERS

    def beat(self, kind: str) -> None:
        """One event came."""
        if self._whole:
            self._whole.beat(kind)
        self._turn()
        self._running[kind] = self._running.get(kind, 0) + 1

    def _turn(self) -> None:
        since = self._clock.now() - self._began
        if since >= WINDOW:
            if sum(self._running.values()) >= HEAVY:
                self._flood, self._flooded = self._running, self._began + WINDOW
            self._last = self._running if since < 2 * WINDOW else {}
            self._running, self._began = {}, self._clock.now()

    @property
    def counts(self) -> dict[str, int]:
        """By kind, of the last whole second or the running one: the busier; of a flood, for as long as it lingers."""
        self._turn()
        last, running = self._last, self._running
        busier = last if sum(last.values()) > sum(running.values()) else running
        lingers = self._clock.now() - self._flooded < LINGERS
        return dict(self._flood if lingers and sum(busier.values()) < FLOOD else busier)

    @property
    def floods(self) -> bool:
        """Whether there are so many that an answer may be late behind them."""
        return sum(self.counts.values()) >= FLOOD
