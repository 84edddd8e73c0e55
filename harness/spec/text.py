"""Places in a file's text, and what makes a text unreadable."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 50
MAX_NODES = 100_000
MAX_DIGITS = 400

_SINGLE = re.compile(r"''|.", re.DOTALL)
_DOUBLE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|.)|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Span:
    """Where a value stands in the text, and the key in front of it. Offsets count characters."""

    start: int
    end: int
    key: int | None = None


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something at an offset that the format, or this loader, does not allow."""

    offset: int
    message: str
    hint: str = ""


class UnreadableError(ValueError):
    """A text that gives no data."""

    def __init__(self, flaws: Iterable[Flaw]) -> None:
        self.flaws = tuple(flaws)
        super().__init__(self.flaws)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Both from 1, as editors count them."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def inside(text: str, span: Span, value: str, offset: int) -> int:
    """Offset in the file of the character `offset` of a string value; the string's start where that is not certain."""
    raw = text[span.start : span.end]
    if raw[:1] == "|":
        return _in_block(raw, span.start, value, offset)
    if "\n" in raw or not raw:
        return span.start
    if raw[0] not in "'\"":
        return span.start + offset
    units = _SINGLE if raw[0] == "'" else _DOUBLE
    starts = [match.start() for match in units.finditer(raw[1:-1])]
    return span.start + 1 + (starts[offset] if offset < len(starts) else len(raw) - 2)


def _in_block(raw: str, start: int, value: str, offset: int) -> int:
    """A literal block (`|`): one line of text for each line of the value, indented."""
    number = value.count("\n", 0, offset)
    first = value.rfind("\n", 0, offset) + 1
    wanted = value[first:].partition("\n")[0]
    lines = raw.splitlines(keepends=True)
    if number + 1 >= len(lines):
        return start
    return start + sum(map(len, lines[: number + 1])) + max(lines[number + 1].find(wanted), 0) + offset - first
