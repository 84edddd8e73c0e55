"""Selectors that are surely no CSS, told without a browser: what is not CSS at all, and what is never closed."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PIECE = re.compile(
    r"""(?P<comment>/\*.*?(?:\*/|\Z))|(?P<escape>\\.)|(?P<text>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")|(?P<quote>['"])"""
    r"""|(?P<open>[\[(])|(?P<close>[\])])|(?P<engine>[\w-]+\s*=)|(?P<chain>>>)|(?P<own>:(?:has-text|text(?:-is|-matches)?"""
    r"""|nth-match|visible|(?:left|right)-of|above|below|near)(?![\w-]))|(?P<name>[#.](?![A-Za-z_\\\-\u0080-\U0010ffff]))"""
    r"""|(?P<other>[={}@;!?$%^</])""",
    re.DOTALL,
)
_PAIRS = {"[": "]", "(": ")"}
_OF_PLAYWRIGHT = "Playwright knows it, CSS does not"
_NEVER = {
    "engine": f"`{{}}` names an engine: {_OF_PLAYWRIGHT}",
    "chain": f"`{{}}` chains selectors: {_OF_PLAYWRIGHT}",
    "own": f"`{{}}`: {_OF_PLAYWRIGHT}",
    "name": "no name follows the `{}`",
    "other": "`{}` means nothing there",
}
"""What may stand in brackets only, and what is wrong with it elsewhere."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong, and at which character of the selector."""

    problem: str
    offset: int


def css_flaw(selector: str) -> Flaw | None:
    """The first thing in it that no CSS selector has; None when nothing is, as far as can be told."""
    if not selector.strip():
        return Flaw("it is empty", 0)
    if found := re.match(r"\s*(?:\(*//|\.\.)", selector):
        return Flaw("it is an XPath", found.end() - 2)
    opened: list[tuple[str, int]] = []
    for piece in _PIECE.finditer(selector):
        if problem := _problem(piece, opened):
            return Flaw(problem, piece.start())
    if opened:
        return Flaw(f"`{opened[-1][0]}` is never closed", opened[-1][1])
    if found := re.search(r"[,>+~]\s*\Z|\A\s*,", selector):
        side = "after" if found.start() else "before"
        return Flaw(f"nothing stands {side} the `{found[0].strip()}`", found.start())
    return None


def _problem(piece: re.Match[str], opened: list[tuple[str, int]]) -> str:
    """Of one piece; empty when it may stand there. `opened` are the brackets that are still open."""
    word, name, inside = piece[0], piece.lastgroup or "", opened[-1][0] if opened else ""
    if name == "open":
        opened.append((word, piece.start()))
        return "`[` stands inside of `[`" if inside == word == "[" else ""
    if name == "close":
        if not inside or _PAIRS[inside] != word:
            return f"`{word}` has no counterpart"
        opened.pop()
        return ""
    if name == "quote":
        return f"the quote {word} is never closed"
    return _NEVER[name].format(word) if name in _NEVER and inside != "[" else ""
