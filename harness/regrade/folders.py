"""Where there is evidence below a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

MARKS = ("manifest.json", "error_report.json")
DEEPEST = 6


def evidence_folders(place: Path) -> Iterator[Path]:
    """The directories below that are, or look like, one task's; itself, when it is one. Links are not followed.

    A folder of files directly in `place` looks like one: what it is worth is seen when it is read.
    """
    for here, folders, files in os.walk(place):
        path = Path(here)
        depth = len(path.relative_to(place).parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and depth < DEEPEST)
        seen = [name for name in files if not name.startswith(".")]
        if any(mark in seen for mark in MARKS):
            folders.clear()
            yield path
        elif seen and not folders and depth == 1:
            yield path
