"""The page as a language model gets it: the ARIA snapshot within a bound, and what a closer look finds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from msgspec import Struct

from harness.model.ports import Observation, Observe
from harness.model.snapshot import NODE, PageElement, element_in, elements
from harness.resilience import SystemClock

_INTERACTIVE = frozenset(
    {"button", "link", "textbox", "searchbox", "spinbutton", "combobox", "listbox", "option", "checkbox", "radio",
     "switch", "slider", "tab", "menuitem", "menuitemcheckbox", "menuitemradio", "treeitem"}
)  # fmt: skip
"""The roles of elements that people act on."""
NOTE = 160
"""Characters that are kept for the remark about what is left out."""
_TO_ACT_ON, _NAMED, _REST = range(3)


class SnapshotNode(Struct, frozen=True):
    """One line of a snapshot."""

    line: str
    """As the snapshot has it, without its indentation."""
    depth: int
    """Its indentation."""
    parent: int | None
    """The place of the node around it."""
    rank: int
    ref: str | None

    @property
    def is_property(self) -> bool:
        """Whether it says something about the node around it, such as the URL of a link."""
        return self.line.startswith("- /")


class PageView:
    """One snapshot, for the prompts of one proposal."""

    def __init__(self, snapshot: str) -> None:
        self._snapshot = snapshot

    @cached_property
    def elements(self) -> dict[str, PageElement]:
        """All elements of the page by their refs, also those that a prompt leaves out."""
        return {each.ref: each for each in elements(self._snapshot)}

    @cached_property
    def nodes(self) -> tuple[SnapshotNode, ...]:
        """The lines of the snapshot, in the order of the page."""
        return tuple(_nodes(self._snapshot.splitlines()))

    def within(self, most: int) -> str:
        """The snapshot in at most `most` characters.

        Elements to act on are kept first, then what has a name or a text, then the rest, each in the order of the page.
        The last line says how much is left out.
        """
        if len(self._snapshot) <= most:
            return self._snapshot
        kept = self._kept(most - NOTE)
        left_out = [each for place, each in enumerate(self.nodes) if place not in kept]
        usable = sum(each.rank == _TO_ACT_ON for each in left_out)
        note = f"(left out: {len(left_out)} of {len(self.nodes)} lines, {usable} of them to act on; `look` finds them)"
        return "\n".join([*self._written(kept), note])[: max(0, most)]

    def find(self, text: str, most: int) -> str:
        """The lines that contain a text, in any case, each below the lines around it; in at most `most` characters."""
        wanted = text.casefold()
        return self._excerpt((place for place, each in enumerate(self.nodes) if wanted in each.line.casefold()), most)

    def inside(self, ref: str, most: int) -> str:
        """The element with this ref and everything in it, in at most `most` characters."""
        for place, each in enumerate(self.nodes):
            if each.ref == ref:
                return self._excerpt([place, *self._below(place)], most)
        return ""

    def _below(self, place: int) -> Iterator[int]:
        for other in range(place + 1, len(self.nodes)):
            if self.nodes[other].depth <= self.nodes[place].depth:
                return
            yield other

    def _excerpt(self, places: Iterable[int], most: int) -> str:
        kept: set[int] = set()
        room, missing = most - NOTE, 0
        for place in places:
            added = {place, *(above for above in self._around(place) if self.nodes[above].rank != _REST)} - kept
            cost = sum(map(self._cost, added))
            if cost <= room:
                kept |= added
                room -= cost
            else:
                missing += 1
        note = [f"({missing} more lines: ask for something narrower)"] if missing else []
        return "\n".join([*self._written(kept), *note])[: max(0, most)]

    def _kept(self, room: int) -> set[int]:
        kept: set[int] = set()
        for rank in (_TO_ACT_ON, _NAMED, _REST):
            for place, each in enumerate(self.nodes):
                alone = each.is_property and each.parent not in kept
                if each.rank == rank and not alone and self._cost(place) <= room:
                    kept.add(place)
                    room -= self._cost(place)
        return kept

    def _cost(self, place: int) -> int:
        return self.nodes[place].depth + len(self.nodes[place].line) + 1

    def _around(self, place: int) -> Iterator[int]:
        above = self.nodes[place].parent
        while above is not None:
            yield above
            above = self.nodes[above].parent

    def _written(self, kept: set[int]) -> Iterator[str]:
        for place in sorted(kept):
            depth = sum(above in kept for above in self._around(place))
            yield f"{min(2 * depth, self.nodes[place].depth) * ' '}{self.nodes[place].line}"


def _nodes(lines: list[str]) -> Iterator[SnapshotNode]:
    above: list[tuple[int, int]] = []
    for place, line in enumerate(lines):
        text = line.lstrip()
        depth = len(line) - len(text)
        while above and above[-1][0] >= depth:
            above.pop()
        found = NODE.match(line)
        element = element_in(found) if found else None
        parent, ref = above[-1][1] if above else None, element.ref if element else None
        yield SnapshotNode(text, depth, parent, _rank(text, element), ref)
        above.append((depth, place))


def _rank(text: str, element: PageElement | None) -> int:
    if element is not None and (element.role in _INTERACTIVE or "[cursor=pointer]" in text):
        return _TO_ACT_ON
    if text.startswith("- /"):
        return _REST
    said = '"' in text or (": " in text and not text.endswith(":"))
    return _NAMED if said or not text.startswith("- ") else _REST


# A look at a page once it has stopped changing: what is still loading would make each choice depend on chance.

_CLOCK = SystemClock()
_LOOKS = 10
"""The number of looks at a page that keeps changing."""


async def settled(observe: Observe, quiet: float) -> Observation:
    """The page once it has looked the same for `quiet` seconds; if it never does, after some looks. Raises Failed."""
    seen = await observe()
    for _ in range(_LOOKS):
        await _CLOCK.sleep(quiet)
        before, seen = seen, await observe()
        if (seen.url, seen.aria) == (before.url, before.aria):
            break
    return seen
