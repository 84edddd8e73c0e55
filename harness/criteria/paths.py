"""Paths into JSON documents: `orders[0].lines.*.sku`, `a['key.with.dots']`, `items[-1]`, `people[?name=='Ann'].id`.

A segment is a key, `*` (every item of a list, every value of an object), `[n]` or a filter. A key made of digits also
indexes a list. Anything but `.`, `[` and `]` may stand in a bare key: dashes, spaces, any script.

A filter finds the record of a list (or among the values of an object) by one of its keys. `[*]` after it takes all
records that match, `[n]` one of them; without either there must be only one.
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
        if isinstance(document, dict):
            return {key: _put_value(item, rest, value) for key, item in document.items()}
        if isinstance(document, list):
            return [_put_value(item, rest, value) for item in document]
        raise PathError("`*` needs a list or an object")
    if isinstance(head, Filter):
        raise PathError("a filter only reads: a value cannot be put there")
    if isinstance(document, list) or isinstance(head, int):
        return _put_item(document, head, rest, value)
    entries = document if isinstance(document, dict) else {}
    return {**entries, head: _put_value(entries.get(head), rest, value)}


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


def memory_ambiguous(entries: Mapping[str, Json], key: str) -> str:
    """The filter of the key that matches several records although one is wanted; empty if each is clear."""
    for prefix, rest in _splits(key):
        if prefix in entries and _matches_in(entries[prefix], rest):
            return ambiguous(entries[prefix], rest)
    return ambiguous(_gather_entries(entries, key), key)


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
    r"""\[(?:(?P<index>-?[0-9]{1,9})|(?P<any>\*)|'(?P<one>[^']*)'|"(?P<two>[^"]*)"|\?(?P<filter>(?:'[^']*'|"[^"]*"|[^'"\]])+))\]"""
    r"""|(?P<key>[^.\[\]]+)"""
)
_FILTER = re.compile(
    r"""\s*(?P<key>[^=!<>'"\[\]]*[^=!<>'"\[\]\s])\s*==\s*"""
    r"""(?:'(?P<one>[^']*)'|"(?P<two>[^"]*)"|(?P<word>true|false|null)|(?P<number>-?[0-9]+(?:\.[0-9]+)?))\s*"""
)
_WORDS = {"true": True, "false": False, "null": None}
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


class Filter(Struct, frozen=True):
    """The segment `[?key=='value']`; the key may be a path. With `pick` it is one of the records that match."""

    key: str
    wanted: bool | int | float | str | None
    source: str
    pick: int | None = None
    every: bool = False
    """Whether all records that match are wanted, however many."""

    def matches(self, parent: Json) -> list[Json]:
        """The records of a list, or among the values of an object, that match."""
        from harness.criteria.values import equal  # few paths have a filter

        records = [*parent.values()] if isinstance(parent, dict) else parent if isinstance(parent, list) else []
        way = segments(self.key)
        found = [each for each in records if any(equal(value, self.wanted) for value in follow(each, way))]
        if self.pick is None:
            return found
        return found[self.pick :][:1] if self.pick >= -len(found) else []


Segment: TypeAlias = str | int | Wildcard | Filter
_MOST_SEGMENTS = 200


@lru_cache(maxsize=4096)
def segments(path: str) -> tuple[Segment, ...]:
    """Split a path; the empty path is the document itself. Raises PathError."""
    return tuple(segment for segment, _ in _placed_segments(path))


@lru_cache(maxsize=4096)
def list_root(path: str) -> str | None:
    """The path of the container that the first `*` (or a filter with `[*]`) takes values from; None without one.

    A path with `*` is the list of the values that it finds. There is such a list only if there is this container.
    """
    return next((path[:start].removesuffix(".") for each, start in _placed_segments(path) if _is_many(each)), None)


def _is_many(segment: Segment) -> bool:
    return isinstance(segment, Wildcard) or (isinstance(segment, Filter) and segment.every)


def ambiguous(document: Json, path: str) -> str:
    """The filter of the path that matches several records although one is wanted; empty if each is clear."""
    if list_root(path) is not None:
        return ""
    places = [document]
    for segment in segments(path):
        if isinstance(segment, Filter) and segment.pick is None and any(len(segment.matches(at)) > 1 for at in places):
            return segment.source
        places = _follow_one(places, segment)
    return ""


@lru_cache(maxsize=4096)
def _placed_segments(path: str) -> tuple[tuple[Segment, int], ...]:
    """The segments, each with its offset."""
    found: list[tuple[Segment, int]] = []
    offset = 0
    while offset < len(path):
        if len(found) == _MOST_SEGMENTS:
            raise PathError(f"a path has at most {_MOST_SEGMENTS} segments", offset)
        start = offset
        if found and path[offset] == ".":
            offset += 1
        elif found and path[offset] != "[":
            raise PathError("a `.` or `[` belongs here", offset)
        match = _SEGMENT.match(path, offset)
        if match is None or (found and match.group().startswith("[") and path[offset - 1] == "."):
            raise PathError("a key, `*`, `[n]` or a filter such as `[?key=='value']` belongs here", offset)
        segment = _segment(match)
        if found and (picked := _picked(found[-1][0], segment, match)) is not None:
            found[-1] = picked, found[-1][1]
        else:
            found.append((segment, start))
        offset = match.end()
    return tuple(found)


def _picked(filtered: Segment, segment: Segment, match: re.Match[str]) -> Filter | None:
    """A filter together with the `[n]` or `[*]` after it; None if these are no such pair."""
    if not isinstance(filtered, Filter) or filtered.pick is not None or filtered.every:
        return None
    if isinstance(segment, int):
        return Filter(filtered.key, filtered.wanted, filtered.source, pick=segment)
    return Filter(filtered.key, filtered.wanted, filtered.source, every=True) if match["any"] else None


def _segment(match: re.Match[str]) -> Segment:
    if match["index"] is not None:
        return int(match["index"])
    if match["any"] or match["key"] == "*":
        return Wildcard()
    if match["filter"] is not None:
        return _filter(match)
    return next(text for text in (match["key"], match["one"], match["two"]) if text is not None)


def _filter(match: re.Match[str]) -> Filter:
    found = _FILTER.fullmatch(match["filter"])
    if found is None:
        raise PathError("a filter is one equality, such as `[?name=='Ann']`", match.start())
    segments(found["key"])
    if found["word"]:
        return Filter(found["key"], _WORDS[found["word"]], match.group())
    if found["number"]:
        number = float(found["number"]) if "." in found["number"] else int(found["number"])
        return Filter(found["key"], number, match.group())
    return Filter(found["key"], found["one"] if found["one"] is not None else found["two"], match.group())


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
        matches = _follow_one(matches, segment)
    return matches


def _follow_one(places: list[Json], segment: Segment) -> list[Json]:
    """What one segment leads to from all of these places."""
    return [child for place in places for child in _children(place, segment)]


def _children(parent: Json, segment: Segment) -> list[Json]:
    if isinstance(segment, Filter):
        return segment.matches(parent)
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
