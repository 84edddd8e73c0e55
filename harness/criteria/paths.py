"""Paths into JSON documents: `orders[0].lines.*.sku`, `a['key.with.dots']`, `items[-1]`.

A segment is a key, `*` (every item of a list, every value of an object) or `[n]`. A key made of digits also indexes
a list. Anything but `.`, `[` and `]` may stand in a bare key: dashes, spaces, any script.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from harness.criteria.syntax import Json

# Puts a value into a JSON document, without changing the given one.


def assign(document: Json, path: str, value: Json) -> Json:
    """Return a new document with the value at the path.

    Missing keys are made, as objects; a scalar on the path is replaced by an object. An index must exist in its list,
    or be the next one. `*` replaces every item that exists. Raises PathError if the document has another shape.
    """
    return _put_value(document, segments(path), value)


def _put_value(document: Json, way: tuple[Segment, ...], value: Json) -> Json:
    if not way:
        return value
    head, rest = way[0], way[1:]
    if isinstance(head, Wildcard):
        return _put_everywhere(document, rest, value)
    if isinstance(document, list) or isinstance(head, int):
        return _put_item(document, head, rest, value)
    entries = document if isinstance(document, dict) else {}
    return {**entries, head: _put_value(entries.get(head), rest, value)}


def _put_everywhere(document: Json, rest: tuple[Segment, ...], value: Json) -> Json:
    if isinstance(document, dict):
        return {key: _put_value(item, rest, value) for key, item in document.items()}
    if isinstance(document, list):
        return [_put_value(item, rest, value) for item in document]
    raise PathError("`*` needs a list or an object")


def _put_item(document: Json, head: str | int, rest: tuple[Segment, ...], value: Json) -> Json:
    index = list_index(head)
    if isinstance(document, dict) or index is None:
        raise PathError(f"{head!r} does not fit {'an object' if isinstance(document, dict) else 'a list'}")
    items = document if isinstance(document, list) else []
    if not items and index == -1:
        index = 0
    place = index + len(items) if index < 0 else index
    if not 0 <= place <= len(items):
        raise PathError(f"there is no item [{index}] in a list of {len(items)}")
    old = items[place] if place < len(items) else None
    return [*items[:place], _put_value(old, rest, value), *items[place + 1 :]]


# Finds a key among memory entries: exact, then inside a structured entry, then gathered from leaves.


def memory_lookup(entries: Mapping[str, Json], key: str) -> list[Json]:
    """All matches of the key; none if it is missing.

    1. An entry with exactly this key. 2. The longest prefix before a `.` or `[` whose value contains the rest. 3. The
    entries below the key, gathered into one object: `orders.last` finds `{id, total}` when only `orders.last.id` and
    `orders.last.total` are stored; `orders.*.id` finds every id.
    """
    if key in entries:
        return [entries[key]]
    for prefix, rest in _splits(key):
        if prefix in entries and (matches := _matches_in(entries[prefix], rest)):
            return matches
    return _matches_in(_gather_entries(entries, key), key)


def _splits(key: str) -> Iterator[tuple[str, str]]:
    for place in range(len(key) - 1, 0, -1):
        if key[place] in ".[":
            yield key[:place], key[place:].removeprefix(".")


def _matches_in(document: Json, path: str) -> list[Json]:
    """All matches inside the document; none for a text that is no path: `a[b` is allowed as an exact key."""
    try:
        return follow(document, segments(path))
    except PathError:
        return []


def _gather_entries(entries: Mapping[str, Json], key: str) -> dict[str, Json]:
    """The entries that may lie under the key, nested at their dots; short keys first, so that longer refine them."""
    first = key.split(".", 1)[0].split("[", 1)[0]
    wanted = [name for name in entries if first in ("", "*") or name == first or name.startswith(first + ".")]
    document: dict[str, Json] = {}
    ours = {id(document)}  # each entry is copied once, before a value is put into it
    for name in sorted(wanted, key=len):
        *way, last = name.split(".")
        place = document
        for part in way:
            inner = place.get(part)
            if not isinstance(inner, dict) or id(inner) not in ours:
                inner = dict(inner) if isinstance(inner, dict) else {}
                ours.add(id(inner))
                place[part] = inner
            place = inner
        place[last] = entries[name]
    return document


_SEGMENT = re.compile(
    r"""\[(?:(?P<index>-?[0-9]{1,9})|(?P<any>\*)|'(?P<one>[^']*)'|"(?P<two>[^"]*)")\]|(?P<key>[^.\[\]]+)"""
)
_INTEGER = re.compile(r"-?[0-9]{1,9}\Z")


class PathError(ValueError):
    """A path that cannot be parsed or does not fit the document; `offset` is the position in it."""

    def __init__(self, problem: str, offset: int = 0) -> None:
        super().__init__(problem, offset)
        self.problem = problem
        self.offset = offset

    def __str__(self) -> str:
        return self.problem


class Wildcard(Struct, frozen=True):
    """The segment `*`."""


Segment: TypeAlias = str | int | Wildcard
MOST_SEGMENTS = 200


@lru_cache(maxsize=4096)
def segments(path: str) -> tuple[Segment, ...]:
    """Split a path; the empty path is the document itself. Raises PathError."""
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


def path_of_key(key: str) -> str:
    """The path of one key, whatever its characters. Raises PathError for a key that no path can express."""
    for mark in ("'", '"'):
        if mark not in key:
            return f"[{mark}{key}{mark}]"
    raise PathError(f"the key {key!r} contains both kinds of quotes, so a path cannot name it")


def lookup(document: Json, path: str) -> list[Json]:
    """All matches, in document order; none if the path leads nowhere. Raises PathError for a malformed path."""
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
    """The index that a segment means in a list, or None."""
    if isinstance(segment, int):
        return segment
    return int(segment) if isinstance(segment, str) and _INTEGER.match(segment) else None
