"""Cuts the items of a run into batches (guided self-scheduling): whole components, the longest first.

Each batch is a fraction of what is left, so that slots end at nearly the same time without taking work back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median

from msgspec import Struct

from harness.values import replace

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

    def __init__(self, all_: Sequence[Component]) -> None:
        self._waiting = sorted(all_, key=_urgency)
        self._own = {node: each for each in all_ for node in each.nodes}

    def __len__(self) -> int:
        return len(self._waiting)

    def put_back(self, nodes: Iterable[str]) -> None:
        """Items that have not begun wait again, in their components, before all others."""
        found: dict[int, list[str]] = {}
        for node in nodes:
            found.setdefault(id(self._own[node]), []).append(node)
        for left in reversed(list(found.values())):
            own = self._own[left[0]]
            self._waiting.insert(0, replace(own, nodes=tuple(left), seconds=own.seconds * len(left) / len(own.nodes)))

    def put_again(self, node: str, avoids: Iterable[str]) -> None:
        """An item that was lost while it ran waits again: for a batch of its own, on another slot."""
        own = self._own[node]
        seconds = own.seconds / len(own.nodes)
        self._waiting.insert(0, replace(own, nodes=(node,), seconds=seconds, alone=True, avoids=frozenset(avoids)))

    def next(self, slot: str, slots: Collection[str]) -> tuple[Component, ...]:
        """Take the next batch for a slot; empty if nothing waits for it. `slots`: those that share the work.

        A component that should not run on this slot waits for another one, if there is one that it does not avoid.
        """
        others = set(slots) - {slot}
        fit = [each for each in self._waiting if slot not in each.avoids or others <= each.avoids]
        if not fit:
            return ()
        share = min(LONGEST, sum(each.seconds for each in self._waiting) / (FRACTION * max(len(slots), 1)))
        chosen = [fit[0]] if fit[0].alone else _filled(fit, share)
        taken = {id(each) for each in chosen}
        self._waiting = [each for each in self._waiting if id(each) not in taken]
        return tuple(chosen)


def _filled(fit: Sequence[Component], share: float) -> list[Component]:
    """The first component, and as many of the following ones as the share has room for."""
    chosen, total = [fit[0]], fit[0].seconds
    for each in fit[1:]:
        if total + each.seconds > share:
            break
        if not each.alone:
            chosen.append(each)
            total += each.seconds
    return chosen


def _urgency(component: Component) -> tuple[int, float]:
    return component.priority, -component.seconds
