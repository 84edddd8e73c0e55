"""Cuts the items of a run into batches (guided self-scheduling): whole components, the longest first.

Each batch is a fraction of what is left, so that slots end at nearly the same time without taking work back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from statistics import median

from msgspec import Struct

from harness.values import replace

LONGEST = 120.0
"""Expected seconds of the longest batch that has more than one component."""
_FRACTION = 2
"""A batch is one part in `FRACTION * slots` of what is left."""
_UNKNOWN = 5.0
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
    usual = median(known) if known else _UNKNOWN
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
    """The components that wait for a slot. A run may have 100,000, so a batch looks only at those before its end."""

    def __init__(self, all_: Sequence[Component]) -> None:
        self._waiting = sorted(all_, key=lambda each: (each.priority, -each.seconds))
        self._seconds = sum(each.seconds for each in all_)
        self._own = {node: each for each in all_ for node in each.nodes}

    def __len__(self) -> int:
        return len(self._waiting)

    def put_back(self, nodes: Iterable[str], avoids: Mapping[str, Collection[str]] = {}) -> None:
        """Items wait again, before all others; those of a component together and in order.

        `avoids`: item that was lost while it ran -> slots. What is left of its component gets a batch of its own, on
        another slot.
        """
        found: dict[int, set[str]] = {}
        for node in nodes:
            found.setdefault(id(self._own[node]), set()).add(node)
        first = [_left_of(self._own[next(iter(left))], left, avoids) for left in found.values()]
        self._waiting[:0] = first
        self._seconds += sum(each.seconds for each in first)

    def next(
        self, slot: str, slots: Collection[str], may_begin: Callable[[Component], bool] = lambda _: True
    ) -> tuple[Component, ...]:
        """Take the next batch for a slot; empty if nothing waits for it. `slots`: those that share the work.

        It has the first component that fits, and as many of the following ones as its share has room for. A component
        that should not run on this slot waits for another one, if there is one that it does not avoid; and each waits
        until it may begin.
        """
        others = set(slots) - {slot}
        share = min(LONGEST, self._seconds / (_FRACTION * max(len(slots), 1)))
        chosen: list[Component] = []
        passed: list[Component] = []
        looked, total = 0, 0.0
        for each in self._waiting:
            fits = (slot not in each.avoids or others <= each.avoids) and may_begin(each)
            if fits and chosen and (total + each.seconds > share or chosen[0].alone):
                break
            looked += 1
            if fits and not (chosen and each.alone):
                chosen.append(each)
                total += each.seconds
            else:
                passed.append(each)
        self._waiting[:looked] = passed
        self._seconds = max(self._seconds - total, 0.0)
        return tuple(chosen)


def _left_of(own: Component, left: Collection[str], avoids: Mapping[str, Collection[str]]) -> Component:
    nodes = tuple(node for node in own.nodes if node in left)
    avoided = frozenset(slot for node in nodes for slot in avoids.get(node, ()))
    seconds = own.seconds * len(nodes) / len(own.nodes)
    return replace(own, nodes=nodes, seconds=seconds, alone=own.alone or bool(avoided), avoids=avoided)
