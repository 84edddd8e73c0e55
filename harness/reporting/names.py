"""Names of files and folders: those that come from data are never a path; how a path is shown to people."""

from __future__ import annotations

import re
from os.path import relpath
from pathlib import Path

_SAFE = re.compile(r"[A-Za-z0-9_][^/\\\x00-\x1f:*?\"<>|]*")


def safe_name(name: str) -> str:
    """The name itself. ValueError for one that is a path, hidden, empty, or too long."""
    if not _SAFE.fullmatch(name) or len(name.encode()) > 200 or name.endswith((".", " ")):
        raise ValueError(f"not a safe directory name: {name!r}")
    return name


def inside(folder: Path, path: Path) -> bool:
    """Whether a file really lies in the folder: links are followed first."""
    return path.resolve().is_relative_to(folder.resolve())


def shown_path(path: Path) -> str:
    """Relative to the current folder; absolute for a path outside of it."""
    relative = relpath(path)
    return str(path.absolute()) if Path(relative).parts[:1] == ("..",) else relative
