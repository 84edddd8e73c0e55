"""RFC 7386: JSON merge patch."""

from __future__ import annotations

from typing import Any


def merge(target: Any, patch: Any) -> Any:
    """Return ``target`` with ``patch`` applied; null removes a member, an array replaces the whole array."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged
