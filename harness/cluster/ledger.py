"""The items of a run: which slot has which, and what is known of it. `harness/model/ledger.py` says what runs again.

Every item gets exactly one result: the first `done` of the attempt that holds it. Whatever a slot says about an attempt
that was given away is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from harness.model.ledger import Gone, ItemFacts, LossVerdict, Note, Word, facts_of, what_runs_again, why_not
from harness.values import replace


class Entry(Struct):
    """What is known of one item."""

    task: bool
    """Whether it is a task: what an ordinary test does is unknown."""
    slot: str | None = None
    """The slot that holds it."""
    attempt: int = 0
    begun: bool = False
    granted: bool = False
    """Whether its first write was allowed; the child may not know."""
    wrote: bool = False
    """Whether its child has said that it writes."""
    alone: bool = False
    """Whether its present batch consists of it."""
    losses: int = 0
    """How many slots were lost while it ran."""
    lost_alone: int = 0
    lost_on: tuple[str, ...] = ()
    done: bool = False


class RunLedger:
    """The ledger. It knows neither time nor machines."""

    def __init__(self, items: Mapping[str, bool], episodes: Mapping[str, str] = {}) -> None:
        """`items`: node id -> whether it is a task, in order. `episodes`: node id -> its episode, if it has one."""
        self._entries = {node: Entry(task) for node, task in items.items()}
        self._episodes = episodes
        self._members: dict[str, list[str]] = {}
        """Episode -> its items, in order."""
        for node in filter(episodes.__contains__, items):
            self._members.setdefault(episodes[node], []).append(node)
        self._slots: dict[str, dict[str, Entry]] = {}
        """Slot -> the items that it has, in the order in which it was given them. A run may have 100,000 items, so
        nothing that happens for each batch may look at all of them."""
        self._left = len(self._entries)

    @property
    def finished(self) -> bool:
        """Whether every item has its result."""
        return self._left == 0

    @property
    def left(self) -> tuple[str, ...]:
        """The items without a result, in order."""
        return tuple(node for node, entry in self._entries.items() if not entry.done)

    def entry(self, node: str) -> Entry:
        return self._entries[node]

    def is_left(self, node: str) -> bool:
        """Whether an item is of this run, and has no result yet."""
        return node in self._entries and not self._entries[node].done

    def give(self, slot: str, nodes: Sequence[str]) -> tuple[tuple[str, int], ...]:
        """Give items to a slot; returns each with the number of its attempt."""
        for node in nodes:
            entry = self._taken(node)
            entry.slot, entry.attempt, entry.alone = slot, entry.attempt + 1, len(nodes) == 1
            entry.begun = entry.granted = entry.wrote = False
            self._slots.setdefault(slot, {})[node] = entry
        return tuple((node, self._entries[node].attempt) for node in nodes)

    def held_by(self, slot: str) -> tuple[str, ...]:
        """The items that a slot has and that are not done."""
        return tuple(self._slots.get(slot, ()))

    def note(self, slot: str, node: str, word: Word) -> bool:
        """Note what a slot says about an item; returns False if the item is no longer its."""
        entry = self._held(slot, node)
        if entry is None:
            return False
        entry.begun = True
        entry.wrote = entry.wrote or word == "wrote"
        return True

    def may_write(self, slot: str, node: str) -> bool:
        """Return whether the first write of a task may begin. If the slot is lost after this, the task has written."""
        entry = self._held(slot, node)
        if entry is None:
            return False
        entry.begun = entry.granted = True
        return True

    def finish(self, slot: str, node: str, attempt: int) -> bool:
        """Take the result of an item; returns False if it is too late: its reports are dropped then."""
        held = self._held(slot, node, attempt) is not None
        if held:
            self.close(node)
        return held

    def close(self, node: str) -> None:
        """The item has its result."""
        entry = self._taken(node)
        self._left -= not entry.done
        entry.done = True

    def facts(self, node: str) -> ItemFacts:
        """What is known of an item when the slot that has it is gone."""
        entry = self._entries[node]
        return ItemFacts(
            begun=entry.begun,
            wrote=entry.granted or entry.wrote,
            ended=entry.done,
            task=entry.task,
            episode=self._episodes.get(node, ""),
            losses=entry.losses + 1,
            alone=entry.lost_alone + entry.alone,
        )

    def lost(self, slot: str) -> LossVerdict:
        """Decide about the items of a slot that is gone; none of them is its any more."""
        held = self.held_by(slot)
        episodes = dict.fromkeys(self._episodes[node] for node in held if node in self._episodes)
        ended = [node for episode in episodes for node in self._members[episode] if self._entries[node].done]
        found = what_runs_again({node: self.facts(node) for node in (*ended, *held)}, Gone.SLOT)
        for entry in map(self._taken, held):
            if entry.begun:
                entry.losses += 1
                entry.lost_alone += entry.alone
                entry.lost_on = (*entry.lost_on, slot)
        return found

    def resumed(self, notes: Iterable[Note]) -> LossVerdict:
        """Decide about the items that are left, by what the driver of an earlier run has noted."""
        left = {node: self.facts(node) for node in self.left}
        return what_runs_again(facts_of((note for note in notes if note.name in left), left), Gone.DRIVER)

    def given_up(self, slot: str, node: str, attempt: int) -> bool:
        """Return whether a task that was cut off from its driver runs again. Nothing has left it unless it said so."""
        entry = self._held(slot, node, attempt)
        if entry is None or node in self._episodes:
            return False
        if why_not(replace(self.facts(node), begun=True, wrote=entry.wrote, alone=0), Gone.SLOT):
            return False
        entry.losses += 1
        self._taken(node)
        entry.lost_on = (*entry.lost_on, slot)
        return True

    def returned(self, slot: str, node: str, attempt: int) -> bool:
        """Take back an item that could not begin on its slot; returns False if it is not the slot's, or has written."""
        entry = self._held(slot, node, attempt)
        free = entry is not None and not why_not(replace(self.facts(node), begun=False), Gone.SLOT)
        if free:
            self._taken(node)
        return free

    def _held(self, slot: str, node: str, attempt: int | None = None) -> Entry | None:
        entry = self._slots.get(slot, {}).get(node)
        return entry if entry is None or attempt in (None, entry.attempt) else None

    def _taken(self, node: str) -> Entry:
        entry = self._entries[node]
        if entry.slot is not None:
            del self._slots[entry.slot][node]
            entry.slot = None
        return entry


def names(nodes: Iterable[str]) -> str:
    """The items, for a message."""
    return ", ".join(node.rpartition("::")[2] for node in nodes)
