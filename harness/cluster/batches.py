"""Cuts the items of a run into batches: whole components, the longest first, ever smaller ones (guided self-scheduling).

Each batch is a fraction of what is left, so that slots end at nearly the same time without taking work back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from msgspec import Struct

LONGEST = 120.0
"""Expected seconds of the longest batch that has more than one component."""
FRACTION = 2
"""A batch is one part in `FRACTION * slots` of what is left."""
UNKNOWN = 5.0
"""Expected seconds of an item if no item of the run has a known duration."""


class Component(Struct, frozen=True):
    """Items that stay together, in order: they depend on each other, or belong to one episode."""

    nodes: tuple[str, ...]
    seconds: float
    priority: int = 0
    """The most urgent one of its items; smaller numbers come first."""
    alone: bool = False
    """Whether it gets a batch of its own."""
    avoids: frozenset[str] = frozenset()
    """Slots that it should not run on again."""


def components(
    groups: Iterable[Sequence[str]],
    durations: Mapping[str, float],
    *,
    priorities: Mapping[str, int] = {},
    alone: frozenset[str] = frozenset(),
) -> list[Component]:
    """The components of these groups of node ids. An item without a known duration counts as the median of the others.

    `durations`: node id -> expected seconds. `alone`: items that get a batch of their own.
    """
    known = [durations[node] for group in groups for node in group if node in durations]
    usual = median(known) if known else UNKNOWN
    return [
        Component(
            tuple(group),
            sum(durations.get(node, usual) for node in group),
            min((priorities.get(node, 0) for node in group), default=0),
            not alone.isdisjoint(group),
        )
        for group in groups
    ]


class Batches:
    """The components that wait for a slot."""

    def __init__(self, waiting: Iterable[Component]) -> None:
        self._waiting = sorted(waiting, key=_urgency)

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, component: Component) -> None:
        """A component waits again; those that wait again are the first to run."""
        self._waiting.insert(0, component)

    def next(self, slot: str, slots: int) -> tuple[Component, ...]:
        """Take the next batch for a slot; empty if nothing waits. `slots`: how many slots share the work.

        A component that should not run on this slot waits for another one, as long as there is more than one.
        """
        fit = [each for each in self._waiting if slots <= 1 or slot not in each.avoids]
        if not fit:
            return ()
        share = min(LONGEST, sum(each.seconds for each in self._waiting) / (FRACTION * max(slots, 1)))
        chosen, total = [fit[0]], fit[0].seconds
        if not fit[0].alone:
            for each in fit[1:]:
                if total + each.seconds > share:
                    break
                if not each.alone:
                    chosen.append(each)
                    total += each.seconds
        taken = {id(each) for each in chosen}
        self._waiting = [each for each in self._waiting if id(each) not in taken]
        return tuple(chosen)


def _urgency(component: Component) -> tuple[int, float]:
    return component.priority, -component.seconds
