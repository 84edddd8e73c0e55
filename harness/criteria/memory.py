"""Finding a key among memory entries: exact, then inside a structured entry, then gathered from leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.criteria.paths import PathError, follow, segments
from harness.criteria.syntax import Json


def memory_lookup(entries: Mapping[str, Json], key: str) -> list[Json]:
    """Every match of the key; none when it is missing.

    1. An entry of exactly this key. 2. The longest key in front of a `.` or `[` that leads to something inside its
    value. 3. Entries below the key, gathered into one object: `orders.last` finds `{id, total}` when only
    `orders.last.id` and `orders.last.total` are stored; `orders.*.id` finds every id.
    """
    if key in entries:
        return [entries[key]]
    for prefix, rest in _splits(key):
        if prefix in entries and (matches := _inside(entries[prefix], rest)):
            return matches
    return _inside(_gathered(entries, key), key)


def _splits(key: str) -> Iterator[tuple[str, str]]:
    for place in range(len(key) - 1, 0, -1):
        if key[place] in ".[":
            yield key[:place], key[place:].removeprefix(".")


def _inside(document: Json, path: str) -> list[Json]:
    """A key such as `a[b` is fine as an exact key, and no path."""
    try:
        return follow(document, segments(path))
    except PathError:
        return []


def _gathered(entries: Mapping[str, Json], key: str) -> dict[str, Json]:
    """The entries that may lie under the key, nested at their dots; shorter keys first, so that leaves refine them."""
    first = key.split(".", 1)[0].split("[", 1)[0]
    wanted = [name for name in entries if first in ("", "*") or name == first or name.startswith(first + ".")]
    document: dict[str, Json] = {}
    ours = {id(document)}  # what is in an entry is copied before anything is put into it, once
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
