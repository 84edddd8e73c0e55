"""Putting a value into a JSON document, without changing the one given."""

from __future__ import annotations

from harness.criteria.paths import PathError, Segment, Wildcard, list_index, segments
from harness.criteria.syntax import Json


def assign(document: Json, path: str, value: Json) -> Json:
    """A new document with the value at the path.

    Missing keys are made, as objects; a scalar on the way gives way to an object. An index must exist in its list, or
    be the next one. `*` replaces in everything that is there. Raises PathError when the document has another shape.
    """
    return _put(document, segments(path), value)


def _put(document: Json, way: tuple[Segment, ...], value: Json) -> Json:
    if not way:
        return value
    head, rest = way[0], way[1:]
    if isinstance(head, Wildcard):
        return _put_everywhere(document, rest, value)
    if isinstance(document, list) or isinstance(head, int):
        return _put_item(document, head, rest, value)
    entries = document if isinstance(document, dict) else {}
    return {**entries, head: _put(entries.get(head), rest, value)}


def _put_everywhere(document: Json, rest: tuple[Segment, ...], value: Json) -> Json:
    if isinstance(document, dict):
        return {key: _put(item, rest, value) for key, item in document.items()}
    if isinstance(document, list):
        return [_put(item, rest, value) for item in document]
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
    return [*items[:place], _put(old, rest, value), *items[place + 1 :]]
