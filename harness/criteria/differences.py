"""The difference of two values as a short text."""

from __future__ import annotations

import textwrap
from difflib import unified_diff
from itertools import islice

from harness.criteria.syntax import Json
from harness.criteria.verdict import written

SHORT = 60
WIDTH = 80
MOST_LINES = 400
SHOWN_LINES = 40


def difference(expected: Json, actual: Json) -> str:
    """Two lines for short scalars, a unified diff for long or multi-line texts, lists and objects; bounded."""
    left, right = _lines(expected), _lines(actual)
    if len(left) == len(right) == 1:
        return "" if left == right else f"- {left[0]}\n+ {right[0]}"
    lines = unified_diff(left[:MOST_LINES], right[:MOST_LINES], "expected", "actual", lineterm="", n=2)
    shown = list(islice(lines, SHOWN_LINES + 1))
    return "\n".join([*shown[:SHOWN_LINES], "..."] if len(shown) > SHOWN_LINES else shown)


def _lines(value: Json) -> list[str]:
    if isinstance(value, list | dict):
        return _wrapped(written(value, indent=1))
    if not isinstance(value, str):
        return [written(value)]
    return [value] if "\n" not in value and len(value) <= SHORT else _wrapped(value)


def _wrapped(text: str) -> list[str]:
    head = text[: WIDTH * MOST_LINES]
    return [piece for line in head.splitlines() for piece in textwrap.wrap(line, WIDTH, drop_whitespace=False) or [""]]
