"""Whether Chromium's own sandbox can work here."""

from __future__ import annotations

import os
from pathlib import Path

_CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))


def no_sandbox_reason(uid: int | None = None, marks: tuple[Path, ...] = _CONTAINER_MARKS) -> str | None:
    """Why the sandbox must be off: `root` or `container`; None when it can stay on."""
    if (os.geteuid() if uid is None else uid) == 0:
        return "root"
    return "container" if any(mark.exists() for mark in marks) else None
