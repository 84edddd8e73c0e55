"""The settings in the document that change how a site behaves, with their allowed values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.demo.rows import Document

_BREAKDOWNS: Final = ("none", "reset", "reset_once", "hang", "hang_once")
_SWITCHES: Final[Mapping[Sequence[str], Sequence[str]]] = {
    ("shop", "settings", "login"): ("optional", "required"),
    ("shop", "settings", "checkout", "before_commit"): _BREAKDOWNS,
    ("shop", "settings", "checkout", "after_commit"): _BREAKDOWNS,
    ("shop", "settings", "returns", "initial_state"): ("approved", "processing", "rejected"),
    ("gov", "settings", "calendar", "widget"): ("grid", "table"),
}


def objection(document: Document) -> str:
    """Return the error in the switches of a document; empty if there is none. A missing switch has its default."""
    for path, allowed in _SWITCHES.items():
        found = _at(document, path)
        if found is not None and found not in allowed:
            return f"{'.'.join(path)}: expected one of {', '.join(allowed)}; found {found!r}"
    return ""


def _at(document: Document, path: Sequence[str]) -> object:
    node: object = document
    for name in path:
        node = node.get(name) if isinstance(node, dict) else None
    return node
