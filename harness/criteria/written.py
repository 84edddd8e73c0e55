"""Values as text for a reader: alone, inside a sentence, and the difference of two as a short text."""

from __future__ import annotations

import json
import re
import textwrap
from difflib import unified_diff
from itertools import islice

from harness.criteria.syntax import Json
from harness.task_secrets import hidden

_SHOWN = 200
_SHORT = 60
_WIDTH = 80
_MOST_LINES = 400
_SHOWN_LINES = 40
_ADDRESS = re.compile(r"://|[?#&][^\s=]{1,80}=")
"""Matches text that looks like an address, and hardly any other text."""


def difference(expected: Json, actual: Json) -> str:
    """Two lines for short scalars, a bounded unified diff for long or multi-line texts, lists and objects.

    It is made of texts without secrets: of a secret in several lines, a difference would show the lines one by one.
    """
    left, right = _lines(expected), _lines(actual)
    if len(left) == len(right) == 1:
        return "" if left == right else f"- {left[0]}\n+ {right[0]}"
    lines = unified_diff(left[:_MOST_LINES], right[:_MOST_LINES], "expected", "actual", lineterm="", n=2)
    shown = list(islice(lines, _SHOWN_LINES + 1))
    return "\n".join([*shown[:_SHOWN_LINES], "..."] if len(shown) > _SHOWN_LINES else shown)


def _lines(value: Json) -> list[str]:
    if isinstance(value, list | dict):
        return _wrap_lines(hidden(written(value, indent=1)))
    if not isinstance(value, str):
        return [hidden(written(value))]
    value = hidden(value)
    return [value] if "\n" not in value and len(value) <= _SHORT else _wrap_lines(value)


def _wrap_lines(text: str) -> list[str]:
    head = text[: _WIDTH * _MOST_LINES]
    return [piece for line in head.splitlines() for piece in _pieces(line) or [""]]


def _pieces(line: str) -> list[str]:
    """Pieces of at most WIDTH letters. An address stays whole: a broken one can be neither copied nor redacted."""
    breaks = not _ADDRESS.search(line)
    return textwrap.wrap(line, _WIDTH, drop_whitespace=False, break_long_words=breaks, break_on_hyphens=breaks)


def written(value: Json, indent: int | None = None) -> str:
    """A value as JSON for reading; a description if its nesting or a number is too long for Python to write."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, sort_keys=indent is not None, default=str)
    except (RecursionError, ValueError):
        return "a value too deep or too long to be shown"


def in_sentence(given: Json) -> str:
    """A value inside a sentence: several lines are folded into one, and a long text is cut."""
    value = hidden(given if isinstance(given, str) else written(given))
    text = repr(" ".join(value.split()) if "\n" in value else value) if isinstance(given, str) else value
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"
