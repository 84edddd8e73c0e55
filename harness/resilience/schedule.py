"""How long to wait before each retry: the named tables of DESIGN 8, next to `Backoff`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Final, Protocol

JITTER: Final = 0.2
"""The share by which delays differ either way in specs/004 4.2."""


class Delays(Protocol):
    """A finite series of delays in seconds. `Backoff` is one, and so is `Table`."""

    @property
    def retries(self) -> int:
        """How many delays there are: extra attempts after the first."""
        ...

    def delays(self, random: Callable[[], float] = ...) -> Iterator[float]:
        """The delays, one before each retry; `random` yields values in [0, 1), 0.5 means no jitter."""
        ...


@dataclass(frozen=True, slots=True)
class Table:
    """The `values` in order; the last one repeats up to `retries`.

    No delay is longer than the longest value, nor below zero, jitter included. Fewer retries than values: the first so
    many. Errors: ValueError for what makes no series.
    """

    values: tuple[float, ...]
    retries: int
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if not self.values or not all(math.isfinite(value) and value >= 0 for value in self.values):
            raise ValueError(f"values: expected one delay or more, in seconds from 0 on; found {self.values}")
        if self.retries < 0:
            raise ValueError(f"retries: expected 0 or more extra attempts; found {self.retries}")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter: expected a share from 0 to 1; found {self.jitter}")

    def delays(self, random: Callable[[], float] = lambda: 0.5) -> Iterator[float]:
        cap = max(self.values)
        for value in islice(chain(self.values, repeat(self.values[-1])), self.retries):
            yield min(max(0.0, value * (1 + self.jitter * (2 * random() - 1))), cap)


SCHEDULES: Final[Mapping[str, tuple[float, ...]]] = {
    "spec-000": (0, 1, 2, 4, 8, 30),
    "reconnect": (1, 2, 5, 10, 30),
    "tool-server": (0.5, 1, 2),
    "connect": (1, 2, 5, 10),
}
"""specs/000 layer 2; specs/001, a connection that was lost; specs/002, a tool server; specs/001, one that times out."""


def schedule(name: str, retries: int | None = None, jitter: float = 0.0) -> Table:
    """The schedule of that name. `retries`: as many as it has values, unless said otherwise.

    Errors: ValueError, with the known names, for one that is none of them.
    """
    values = SCHEDULES.get(name)
    if values is None:
        raise ValueError(f"schedule: expected one of {', '.join(SCHEDULES)}; found {name!r}")
    return Table(values, len(values) if retries is None else retries, jitter)
