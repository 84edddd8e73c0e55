"""The difference of two values as a short text."""

from __future__ import annotations

import re
import textwrap
from difflib import unified_diff
from itertools import islice

from harness.criteria.syntax import Json
from harness.criteria.verdict import written

SHORT = 60
WIDTH = 80
MOST_LINES = 400
SHOWN_LINES = 40
_ADDRESS = re.compile(r"://|[?#&][^\s=]{1,80}=")
"""What an address has, and few other texts."""


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
    return [piece for line in head.splitlines() for piece in _pieces(line) or [""]]


def _pieces(line: str) -> list[str]:
    """At most WIDTH letters each. An address stays whole: one that is broken cannot be copied, nor redacted."""
    breaks = not _ADDRESS.search(line)
    return textwrap.wrap(line, WIDTH, drop_whitespace=False, break_long_words=breaks, break_on_hyphens=breaks)
