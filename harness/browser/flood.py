"""Counts events that arrive faster than they can be read: a page that logs or sends requests without end.

The newest events are kept, and all are counted. A browser whose answers come late behind such events is not silent; the
page that sends them is to blame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar

from harness.resilience import Clock

FLOOD = 50
"""Events of one page per second that are a flood. Many exceed it while loading: it counts only if answers are late."""
_WINDOW = 1.0
"""The length of the window in seconds."""
HEAVY = 3 * FLOOD
"""Events per second after which answers stay late for a while. A page that only loads has fewer."""
LINGERS = 5.0
"""Seconds for which answers stay late: nothing may arrive while the driver works through the events."""

_COSTS = {"new pages": 10}
"""The weights of events that cost the browser more than telling them: a new page has a process of its own."""

T = TypeVar("T")


class Newest(deque[T]):
    """The newest entries, and the number of older ones that were dropped."""

    def __init__(self, most: int) -> None:
        super().__init__(maxlen=most)
        self.dropped = 0

    def append(self, entry: T) -> None:
        self.dropped += len(self) == self.maxlen
        super().append(entry)

    def copy(self) -> Newest[T]:
        """The entries of this moment, which a thread may read while new ones come."""
        found: Newest[T] = Newest(self.maxlen or 0)
        found.extend(self)
        found.dropped = self.dropped
        return found


class Pace:
    """The rate of events of a context or a browser, by kind."""

    def __init__(self, clock: Clock, whole: Pace | None = None) -> None:
        """`whole` is the pace of the browser: each event counts there too."""
        self._clock, self._whole = clock, whole
        self.total = 0
        """The number of events so far."""
        self._began = clock.now()
        self._running: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._flood: dict[str, int] = {}
        self._flooded = -LINGERS

    def count_event(self, kind: str) -> None:
        """Count one event."""
        if self._whole:
            self._whole.count_event(kind)
        self.total += 1
        self._advance_window()
        self._running[kind] = self._running.get(kind, 0) + 1

    def _advance_window(self) -> None:
        since = self._clock.now() - self._began
        if since >= _WINDOW:
            if _weight(self._running) >= HEAVY:
                self._flood, self._flooded = self._running, self._began + _WINDOW
            self._last = self._running if since < 2 * _WINDOW else {}
            self._running, self._began = {}, self._clock.now()

    @property
    def counts(self) -> dict[str, int]:
        """Events per second by kind, of the last whole second or the running one, whichever has more."""
        self._advance_window()
        last, running = self._last, self._running
        busier = max(running, last, key=_weight)
        lingers = self._clock.now() - self._flooded < LINGERS
        return dict(self._flood if lingers and _weight(busier) < FLOOD else busier)

    @property
    def floods(self) -> bool:
        """Whether there are so many events that an answer may be late behind them."""
        return _weight(self.counts) >= FLOOD

    @property
    def heavy(self) -> bool:
        """Whether there are more events than of any page that only loads."""
        return _weight(self.counts) >= HEAVY


def _weight(counts: Mapping[str, int]) -> int:
    return sum(_COSTS.get(kind, 1) * count for kind, count in counts.items())


class Later(Mapping[str, str]):
    """A mapping that is made when it is first read: of a hundred answers' headers, those of one matter."""

    def __init__(self, make: Callable[[], Mapping[str, str]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Mapping[str, str]:
        return self._make()

    def __getitem__(self, name: str) -> str:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)
