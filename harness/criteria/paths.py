"""Paths into JSON documents: `orders[0].lines.*.sku`, `a['key.with.dots']`, `items[-1]`.

A segment is a key, `*` (every item of a list, every value of an object) or `[n]`. A key made of digits also indexes
a list. Anything but `.`, `[` and `]` may stand in a bare key: dashes, spaces, any script.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from harness.criteria.syntax import Json

_SEGMENT = re.compile(
    r"""\[(?:(?P<index>-?[0-9]{1,9})|(?P<any>\*)|'(?P<one>[^']*)'|"(?P<two>[^"]*)")\]|(?P<key>[^.\[\]]+)"""
)
_INTEGER = re.compile(r"-?[0-9]{1,9}\Z")


class PathError(ValueError):
    """A path that cannot be read, or that does not fit the document; `offset` is the place in it."""

    def __init__(self, problem: str, offset: int = 0) -> None:
        super().__init__(problem, offset)
        self.problem = problem
        self.offset = offset

    def __str__(self) -> str:
        return self.problem


@dataclass(frozen=True, slots=True)
class Wildcard:
    """`*`."""


Segment: TypeAlias = str | int | Wildcard
MOST_SEGMENTS = 200


@lru_cache(maxsize=4096)
def segments(path: str) -> tuple[Segment, ...]:
    """The empty path is the document itself. Raises PathError."""
    found: list[Segment] = []
    offset = 0
    while offset < len(path):
        if len(found) == MOST_SEGMENTS:
            raise PathError(f"a path has at most {MOST_SEGMENTS} segments", offset)
        if found and path[offset] == ".":
            offset += 1
        elif found and path[offset] != "[":
            raise PathError("a `.` or `[` belongs here", offset)
        match = _SEGMENT.match(path, offset)
        if match is None or (found and match.group().startswith("[") and path[offset - 1] == "."):
            raise PathError("a key, `*` or `[n]` belongs here", offset)
        found.append(_segment(match))
        offset = match.end()
    return tuple(found)


def _segment(match: re.Match[str]) -> Segment:
    if match["index"] is not None:
        return int(match["index"])
    if match["any"] or match["key"] == "*":
        return Wildcard()
    return next(text for text in (match["key"], match["one"], match["two"]) if text is not None)


def quoted(key: str) -> str:
    """The path of one key, whatever it holds. Raises PathError for one that no path can say."""
    for mark in ("'", '"'):
        if mark not in key:
            return f"[{mark}{key}{mark}]"
    raise PathError(f"the key {key!r} holds both kinds of quotes, so that no path can say it")


def lookup(document: Json, path: str) -> list[Json]:
    """Every match, in document order; none when the path leads nowhere. Raises PathError for a malformed path."""
    return follow(document, segments(path))


def follow(document: Json, way: tuple[Segment, ...]) -> list[Json]:
    """`lookup` for a path that is already split."""
    matches = [document]
    for segment in way:
        matches = [child for match in matches for child in _children(match, segment)]
    return matches


def _children(parent: Json, segment: Segment) -> list[Json]:
    if isinstance(parent, dict):
        if isinstance(segment, Wildcard):
            return list(parent.values())
        return [parent[segment]] if isinstance(segment, str) and segment in parent else []
    if not isinstance(parent, list):
        return []
    if isinstance(segment, Wildcard):
        return parent
    index = list_index(segment)
    return [parent[index]] if index is not None and -len(parent) <= index < len(parent) else []


def list_index(segment: Segment) -> int | None:
    """The index that a segment means in a list, if any."""
    if isinstance(segment, int):
        return segment
    return int(segment) if isinstance(segment, str) and _INTEGER.match(segment) else None
