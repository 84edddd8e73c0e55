"""What can be acted on, out of the ARIA snapshot of a page (Playwright's AI mode)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NODE = re.compile(
    r"""(?P<indent>\s*)-\ (?P<quote>')?(?P<role>[a-z]+)
        (?:\ "(?P<name>(?:[^"\\]|\\.)*)")?
        (?P<states>(?:\ \[[^\]]*\])*)""",
    re.VERBOSE,
)
_REF = re.compile(r" \[ref=(\w+)\]")
_URL = re.compile(r"\s*- /url: (.*)")


@dataclass(slots=True)
class Element:
    """One element that has a ref."""

    role: str
    name: str
    """Accessible name; empty when it has none."""
    ref: str
    enabled: bool = True
    checked: bool = False
    url: str | None = None
    """Where a link leads, as the page has it."""
    options: int = 0
    """How many options it has."""

    @property
    def selector(self) -> str:
        return f"aria-ref={self.ref}"

    def __str__(self) -> str:
        return f'{self.role} "{self.name}"' if self.name else self.role


def elements(snapshot: str) -> list[Element]:
    """Every element with a ref, in the order of the page."""
    return list(_elements(snapshot.splitlines()))


def _elements(lines: list[str]) -> Iterator[Element]:
    above: list[tuple[int, Element]] = []
    """The elements around the line, with their depth."""
    for line in lines:
        depth = len(line) - len(line.lstrip())
        while above and above[-1][0] >= depth:
            above.pop()
        if above and (found := _URL.fullmatch(line)):
            above[-1][1].url = found[1].strip("\"'")
        node = _NODE.match(line)
        if node is None:
            continue
        if node["role"] == "option" and above:
            above[-1][1].options += 1
        if element := _element(node):
            above.append((depth, element))
            yield element


def _element(node: re.Match[str]) -> Element | None:
    ref = _REF.search(node["states"])
    if ref is None:
        return None
    name = re.sub(r"\\(.)", r"\1", node["name"] or "")
    if node["quote"]:  # YAML doubles a quote inside of quotes
        name = name.replace("''", "'")
    return Element(node["role"], name, ref[1], "[disabled]" not in node["states"], "[checked]" in node["states"])
