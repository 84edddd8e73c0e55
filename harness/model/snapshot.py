"""The elements in an ARIA snapshot of a page (Playwright's AI mode), which have refs to act on them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from harness.spec.steps import Drag, Step

NODE = re.compile(
    r"""(?P<indent>\s*)-\ (?P<quote>')?(?P<role>[a-z]+)
        (?:\ "(?P<name>(?:[^"\\]|\\.)*)")?
        (?P<states>(?:\ \[[^\]]*\])*)""",
    re.VERBOSE,
)
"""The beginning of a line that stands for an element."""
REF_ENGINE = "aria-ref="
"""The selector engine of refs."""
IN_FRAME = " >> internal:control=enter-frame >> "
"""What stands in a selector between an iframe and what is inside it."""
_REF_SELECTOR = re.compile(rf"{REF_ENGINE}(\w+)")
_REF = re.compile(r" \[ref=(\w+)\]")
_URL = re.compile(r"\s*- /url: (.*)")


class PageElement(Struct):
    """An element that has a ref."""

    role: str
    name: str
    """The accessible name; empty if it has none."""
    ref: str
    enabled: bool = True
    checked: bool = False
    url: str | None = None
    """The target of a link, as the page has it."""
    options: int = 0
    """The number of its options."""

    @property
    def selector(self) -> str:
        return f"{REF_ENGINE}{self.ref}"

    def __str__(self) -> str:
        return f'{self.role} "{self.name}"' if self.name else self.role


def elements(snapshot: str) -> list[PageElement]:
    """All elements with a ref, in the order of the page."""
    found: list[PageElement] = []
    above: list[tuple[int, PageElement]] = []
    """The elements around the line, with their depth."""
    for line in snapshot.splitlines():
        depth = len(line) - len(line.lstrip())
        while above and above[-1][0] >= depth:
            above.pop()
        if above and (link := _URL.fullmatch(line)):
            above[-1][1].url = link[1].strip("\"'")
        node = NODE.match(line)
        if node is None:
            continue
        if node["role"] == "option" and above:
            above[-1][1].options += 1
        if element := element_in(node):
            above.append((depth, element))
            found.append(element)
    return found


def refs_of(step: Step) -> tuple[str, ...]:
    """The refs that a step names: in its selector, as the place to drop on, and in what it remembers."""
    texts = [text for text in _selectors(step).values() if _REF_SELECTOR.fullmatch(text)]
    return tuple(dict.fromkeys(_REF_SELECTOR.findall(" ".join([*texts, *step.remember.values()]))))


def with_selectors(step: Step, selectors: Mapping[str, str]) -> Step | None:
    """The step with selectors in the place of its refs; None if one of its refs has none."""
    if any(ref not in selectors for ref in refs_of(step)):
        return None
    changed: dict[str, object] = {}
    for key, text in _selectors(step).items():
        if found := _REF_SELECTOR.fullmatch(text):
            changed[key] = selectors[found[1]]
    if step.remember:
        changed["remember"] = {key: _in_criterion(text, selectors) for key, text in step.remember.items()}
    if "value" not in changed and (selector := changed.get("selector")) and IN_FRAME in str(selector):
        frames = str(selector).split(IN_FRAME)
        changed |= {"selector": frames[-1], "frame": " >>> ".join(frames[:-1])}
    return step.model_copy(update=changed)


def _selectors(step: Step) -> dict[str, str]:
    """The keys of a step that are selectors."""
    found = {"selector": step.target, "value": step.value if isinstance(step, Drag) else None}
    return {key: text for key, text in found.items() if text}


def _in_criterion(text: str, selectors: Mapping[str, str]) -> str:
    """A value expression with selectors in the place of refs, within single quotes."""

    def written(found: re.Match[str]) -> str:
        return selectors[found[1]].replace("\\", "\\\\").replace("'", "\\'")

    return _REF_SELECTOR.sub(written, text)


def element_in(node: re.Match[str]) -> PageElement | None:
    """The element of a line that NODE matches; None if it has no ref."""
    ref = _REF.search(node["states"])
    if ref is None:
        return None
    name = re.sub(r"\\(.)", r"\1", node["name"] or "")
    if node["quote"]:  # YAML doubles a quote within quotes
        name = name.replace("''", "'")
    return PageElement(node["role"], name, ref[1], "[disabled]" not in node["states"], "[checked]" in node["states"])
