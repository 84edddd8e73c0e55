"""Names of tasks as names of directories: safe and different on every disk."""

from __future__ import annotations

import hashlib
import re

LONGEST = 120

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)


def slug(name: str) -> str:
    """The name itself where it is safe, else what is safe of it with a short hash of all of it."""
    safe = _UNSAFE.sub("_", name)[:LONGEST].strip(".")
    if _RESERVED.fullmatch(safe):
        safe = f"_{safe}"
    return safe if safe == name else f"{safe.rstrip('_')}-{_hash(name)}"


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:8]
