"""Finds elements by role and name in an ARIA snapshot with refs, such as Playwright makes for agents."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

_NODE: Final = re.compile(r"""(?P<indent>\s*)- '?(?P<role>[a-z]+)(?: "(?P<name>(?:[^"\\]|\\.)*)")?(?P<rest>.*)""")
_REF: Final = re.compile(r"\[ref=(\w+)\]")


class NamedElement(Struct, frozen=True):
    """An element of the page that can be acted on."""

    role: str
    name: str
    ref: str
    place: int
    """Its line in the snapshot."""

    @property
    def description(self) -> str:
        """In words: ``button "Add to cart"``."""
        return f'{self.role} "{self.name}"' if self.name else self.role


class PageSnapshot:
    """A snapshot of a page."""

    def __init__(self, snapshot: str) -> None:
        """Read the snapshot; lines that are no elements are kept as text."""
        self._lines = snapshot.splitlines()
        self._indents = [len(line) - len(line.lstrip()) for line in self._lines]
        self.nodes: Sequence[NamedElement] = [
            node for place, line in enumerate(self._lines) if (node := _node(place, line))
        ]

    def shows(self, text: str) -> bool:
        """Return whether the text is on the page."""
        return any(text in line for line in self._lines)

    def find(self, role: str, name: str, near: str = "", after: str = "") -> NamedElement | None:
        """The first element of that name, exact names first; an empty role matches any that people act on.

        ``near``: of several elements the one that shares the smallest part of the page with this text. ``after``: the
        first one behind this text.
        """
        found = [node for node in self.nodes if _plays(role, node.role) and name.lower() in node.name.lower()]
        exact = [node for node in found if not name or node.name == name] or found
        if not near:
            begin = self._place_of(after) if after else 0
            return next((node for node in exact if node.place >= begin), None)
        return max(
            (node for node in exact if self._depth(node, near) >= 0), key=lambda n: self._depth(n, near), default=None
        )

    def unlike(self, ref: str) -> NamedElement | None:
        """Another element, a heading: nothing happens when it is clicked."""
        return next((node for node in self.nodes if node.role == "heading" and node.ref != ref), None)

    def _place_of(self, text: str) -> int:
        """The line of a text: of a name or a whole text, or else of a part of one."""
        whole = (place for place, line in enumerate(self._lines) if f'"{text}"' in line or line.endswith(f": {text}"))
        part = (place for place, line in enumerate(self._lines) if text in line)
        return next(whole, next(part, len(self._lines)))

    def _depth(self, node: NamedElement, text: str) -> int:
        """How deep the smallest part of the page is that has both; -1 if there is none."""
        depth, place = self._indents[node.place] + 1, node.place
        for start in range(node.place, -1, -1):
            if self._indents[start] >= depth or not self._lines[start].strip():
                continue
            depth, place = self._indents[start], start
            if any(text in line for line in self._part(place)):
                return depth
        return -1

    def _part(self, place: int) -> list[str]:
        end = place + 1
        while end < len(self._lines) and self._indents[end] > self._indents[place]:
            end += 1
        return self._lines[place:end]


_ACTED_ON: Final = frozenset(
    {
        "button",
        "link",
        "textbox",
        "searchbox",
        "spinbutton",
        "combobox",
        "listbox",
        "checkbox",
        "radio",
        "tab",
        "menuitem",
    }
)


def _plays(role: str, found: str) -> bool:
    return found == role if role else found in _ACTED_ON


def _node(place: int, line: str) -> NamedElement | None:
    parts, ref = _NODE.match(line), _REF.search(line)
    if parts is None or ref is None:
        return None
    name = re.sub(r"\\(.)", r"\1", parts["name"] or "").replace("''", "'")
    return NamedElement(parts["role"], name, ref[1], place)


def last_page(texts: Sequence[str]) -> PageSnapshot:
    """The page of the last text that shows one; a page without elements if none does."""
    return PageSnapshot(next((text for text in reversed(texts) if _REF.search(text)), ""))
