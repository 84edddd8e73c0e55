"""The environment document as rows, and back: one row per site, collection and id."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

Document: TypeAlias = dict[str, Any]
"""``{site: {collection: {id: body}}}``; a site or collection that is no object, or an empty one, is kept as it is."""

Key: TypeAlias = tuple[str, ...]
"""``(site,)``, ``(site, collection)`` or ``(site, collection, id)``."""

_DEPTH = 3


def to_rows(document: Document) -> dict[Key, str]:
    """Return the rows of a document: their bodies as JSON, by key."""
    return {key: json.dumps(body) for key, body in _leaves(document, ())}


def _leaves(node: dict[str, Any], above: Key) -> Iterator[tuple[Key, Any]]:
    for name, body in node.items():
        key = (*above, name)
        if isinstance(body, dict) and body and len(key) < _DEPTH:
            yield from _leaves(body, key)
        else:
            yield key, body


def to_document(rows: Iterable[tuple[Key, str]]) -> Document:
    """Return the document that the rows describe."""
    document: Document = {}
    for key, body in rows:
        node = document
        for name in key[:-1]:
            node = node.setdefault(name, {})
        node[key[-1]] = json.loads(body)
    return document
