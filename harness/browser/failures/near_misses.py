"""What nearly matches a selector that matches nothing: a part of it, another text, or a similar name. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher, get_close_matches
from itertools import pairwise

_TEXT_CONDITION = re.compile(
    r""":(?:has-text|text|text-is|text-matches)\(("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^()"'])*\)"""
)
NAME_CONDITION = re.compile(r"""(role=[\w-]+)(.*?)\[name\*?=("(?:[^"\\]|\\.)*")\s*[is]?\]""")
_TEXT_ENGINE = re.compile(r"(?P<label>(?:^|>>\s*)label)=(?P<wanted>[^>]+)$|\s*>>\s*has-text=(?P<text>[^>]+)$")
_TEST_ID = re.compile(r"\btestid=([\w.-]+)")
_COMBINATORS = (">", "+", "~", ",", ">>")
_SIMPLE = re.compile(r"[#.][\w-]+|\[[\w-]+=[^\]]+\]")
_OTHER_ENGINE = re.compile(r"\s*(?:/|\.\.|\(/|[\w-]+(?::[\w-]+)?=)")
_PAIRS = {"(": ")", "[": "]"}
_PIECE = 3
"""The least letters in a row that two texts have in common not by chance."""
_NEAR = 0.5
"""How alike two texts must be for one to be taken for the other misspelled."""


def similar(selector: str, names: Sequence[str]) -> tuple[str, ...]:
    """Names on the page that resemble the last simple selector of `selector` which the page does not have."""
    parts = [*_SIMPLE.findall(selector), *(f'[data-testid="{each}"]' for each in _TEST_ID.findall(selector))]
    unknown = [part for part in parts if part not in names]
    return tuple(get_close_matches(unknown[-1], names, n=3, cutoff=0.6)) if unknown else ()


def without_text(selector: str) -> str:
    """The selector without its conditions on text; empty if it has none, or nothing else that could match."""
    bare = _TEXT_ENGINE.sub(r"\g<label>", NAME_CONDITION.sub(r"\1\2", _TEXT_CONDITION.sub("", selector)))
    parts = bare.split() if bare != selector else []
    return bare if parts and parts[0] not in _COMBINATORS and parts[-1] not in _COMBINATORS else ""


def nearest_text(selector: str, texts: Sequence[str]) -> str:
    """The text that resembles most what the selector requires; the first one if none does."""
    wanted = ""
    if found := _TEXT_CONDITION.search(selector):
        wanted = found[0].partition("(")[2][:-1]
    elif found := NAME_CONDITION.search(selector):
        wanted = found[3]
    elif found := _TEXT_ENGINE.search(selector):
        wanted = found["wanted"] or found["text"]
    wanted = wanted.strip("\"'i" if wanted.endswith('"i') else "\"'").casefold()
    alike = [(_likeness(wanted, text.casefold()), text) for text in texts]
    best = max(alike, key=lambda each: each[0], default=(0.0, ""))
    return best[1] if best[0] >= _NEAR or not texts else texts[0]


def _likeness(wanted: str, text: str) -> float:
    """How alike two texts are, from 0 to 1; also how much of what is wanted is in a longer text, in whole pieces."""
    pairs = SequenceMatcher(None, wanted, text, autojunk=False)
    pieces = sum(block.size for block in pairs.get_matching_blocks() if block.size >= _PIECE)
    return max(pairs.ratio(), pieces / max(1, len(wanted)))


def prefixes(selector: str) -> list[tuple[str, str]]:
    """The beginnings of a selector, each longer by one part, with that part; empty for a list of selectors."""
    ends: list[int] = []
    for start, piece in _chained(selector):
        if _OTHER_ENGINE.match(piece):
            ends.append(start + len(piece))
            continue
        cuts = _cuts(piece)
        if cuts is None:
            return []
        ends += [start + cut for cut in cuts]
    return [(selector[:end].strip(), selector[begin:end].strip(" >")) for begin, end in pairwise([0, *ends])]


def _chained(selector: str) -> list[tuple[int, str]]:
    """The parts between `>>`, each with its place."""
    places = [0, *(at + 2 for at in _outside(selector) if selector.startswith(">>", at))]
    ends = [*(place - 2 for place in places[1:]), len(selector)]
    return [(place, selector[place:end]) for place, end in zip(places, ends, strict=True)]


def _cuts(css: str) -> list[int] | None:
    """Where the compound selectors of a CSS selector end; None if it is a list of several."""
    outside = set(_outside(css))
    if any(css[at] == "," for at in outside):
        return None
    ends = [
        at for at in sorted(outside)
        if at and css[at] in " >+~" and css[at - 1] not in " >+~" and css[:at].strip(" >+~")
    ]  # fmt: skip
    return [*(end for end in ends if css[end:].strip(" >+~")), len(css)]


def _outside(text: str) -> list[int]:
    """The places that are in no quotes and no brackets."""
    found, closing = [], [""]
    for at, letter in enumerate(text):
        if closing[-1] in ("'", '"'):
            if letter == closing[-1] and text[at - 1] != "\\":
                closing.pop()
        elif letter == closing[-1]:
            closing.pop()
        elif letter in _PAIRS or letter in "'\"":
            closing.append(_PAIRS.get(letter, letter))
        elif len(closing) == 1:
            found.append(at)
    return found
