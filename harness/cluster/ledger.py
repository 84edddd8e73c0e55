"""The ledger of a run: who has which item, which have begun to write, and what follows when a slot is lost.

Every item gets exactly one result: the first `done` of the attempt that holds it. Whatever a slot says about an attempt
that was given away is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct, field

from harness.cluster.messages import Word
from harness.recovery.never_twice import WROTE, runs_again

AGAIN = 2
"""How often a task that ran on a lost slot, and did not write, runs again."""
UNKNOWN = "what an ordinary test has done is unknown, so it does not run again"
TOO_OFTEN = "it ran {} times, each time on a slot that was lost"
ALONE = "it was alone in its slot, and two slots died under it"
STATE_LOST = "the state of its episode was lost with the slot that had run {}"


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


class LossVerdict(Struct, frozen=True):
    """What happens to the items of a lost slot."""

    back: tuple[str, ...] = ()
    """Items that had not begun: they run as if nothing had happened."""
    again: tuple[str, ...] = ()
    """Tasks that ran and had not written: they run again, each alone, on another slot."""
    crashed: Mapping[str, str] = field(default_factory=dict)
    """Items that end as WORKER_CRASHED -> why they do not run again."""


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

    def episode(self, node: str) -> str:
        """The episode of an item; empty if it has none."""
        return self._episodes.get(node, "")

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
        entry = self._held(slot, node)
        if entry is None or entry.attempt != attempt:
            return False
        self.close(node)
        return True

    def close(self, node: str) -> None:
        """The item has its result."""
        entry = self._taken(node)
        self._left -= not entry.done
        entry.done = True

    def lost(self, slot: str) -> LossVerdict:
        """Decide about the items of a slot that is gone; none of them is its any more."""
        held = self.held_by(slot)
        orphaned = self._orphaned(held)
        back, again, crashed = [], [], {}
        for node in held:
            entry = self._entries[node]
            why = (self._reason(entry) if entry.begun else None) or orphaned.get(node)
            self._release(node, slot)
            if why is not None:
                crashed[node] = why
            elif entry.begun:
                again.append(node)
            else:
                back.append(node)
        self._end_episodes(again, back, crashed)
        return LossVerdict(tuple(back), tuple(again), crashed)

    def given_up(self, slot: str, node: str, attempt: int) -> bool:
        """Return whether a task that was cut off from its driver runs again. Nothing has left it unless it said so."""
        entry = self._held(slot, node)
        if entry is None or entry.attempt != attempt or not runs_again(entry.wrote) or node in self._episodes:
            return False
        entry.losses += 1
        if entry.losses > AGAIN:
            return False
        self._taken(node)
        entry.lost_on = (*entry.lost_on, slot)
        return True

    def returned(self, slot: str, node: str, attempt: int) -> bool:
        """Take back an item that could not begin on its slot; returns False if it is not the slot's, or has written."""
        entry = self._held(slot, node)
        if entry is None or entry.attempt != attempt or not runs_again(entry.wrote or entry.granted):
            return False
        self._taken(node)
        return True

    def _held(self, slot: str, node: str) -> Entry | None:
        return self._slots.get(slot, {}).get(node)

    def _taken(self, node: str) -> Entry:
        """The item, after it was taken from the slot that had it."""
        entry = self._entries[node]
        if entry.slot is not None:
            del self._slots[entry.slot][node]
            entry.slot = None
        return entry

    def _release(self, node: str, slot: str) -> None:
        entry = self._taken(node)
        if entry.begun:
            entry.losses += 1
            entry.lost_alone += entry.alone
            entry.lost_on = (*entry.lost_on, slot)

    def _reason(self, entry: Entry) -> str | None:
        """Why an item that ran on a lost slot does not run again; None: it does."""
        if not runs_again(entry.granted or entry.wrote):
            return WROTE
        if not entry.task:
            return UNKNOWN
        if entry.lost_alone + entry.alone >= AGAIN:
            return ALONE
        if entry.losses >= AGAIN:
            return TOO_OFTEN.format(entry.losses + 1)
        return None

    def _orphaned(self, held: Collection[str]) -> dict[str, str]:
        """Items whose episode had begun on the slot -> why they cannot run elsewhere."""
        touched: dict[str, str] = {}
        for episode in {self._episodes[node] for node in held if node in self._episodes}:
            if ended := [node for node in self._members[episode] if self._entries[node].done]:
                touched[episode] = ended[-1]
        return {
            node: STATE_LOST.format(_name(touched[self._episodes[node]]))
            for node in held
            if self.episode(node) in touched
        }

    def _end_episodes(self, again: list[str], back: list[str], crashed: dict[str, str]) -> None:
        """After a task of an episode that does not run again, its later ones cannot run either."""
        ended = {self._episodes[node]: node for node in crashed if node in self._episodes}
        for nodes in (again, back):
            for node in [each for each in nodes if self._episodes.get(each) in ended]:
                nodes.remove(node)
                crashed[node] = STATE_LOST.format(_name(ended[self._episodes[node]]))


def _name(node: str) -> str:
    return node.rpartition("::")[2]


def names(nodes: Iterable[str]) -> str:
    """The items, for a message."""
    return ", ".join(map(_name, nodes))
