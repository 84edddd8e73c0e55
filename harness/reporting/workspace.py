"""Temporary folders under `errors/.tmp`, one subfolder for each process; those of dead processes are swept."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path

import psutil

from harness.reporting.names import shown_path


class Workspace:
    """New folders on the file system of the artifacts, so that a rename is enough to publish one."""

    def __init__(self, root: Path, run_id: str) -> None:
        self._base = root / ".tmp"
        self._own = self._base / f"{os.getpid()}-{run_id}"
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        sweep(self._base)

    @property
    def own(self) -> Path:
        """Around all folders of this process."""
        return self._own

    def folder(self, name: str) -> Path:
        """A new empty folder; `name` is part of its name."""
        path = self._own / f"{name}-{next(self._numbers)}"
        with self._lock:
            _make(path)
        return path

    def discard(self, path: Path) -> None:
        """Delete a folder; it is out of sight at once, so that a kill leaves no half of it."""
        grave = self.folder("discarded")
        with contextlib.suppress(FileNotFoundError):
            path.rename(grave / path.name)
        shutil.rmtree(grave, ignore_errors=True)
        with self._lock, contextlib.suppress(OSError):  # still in use
            self._own.rmdir()
            self._base.rmdir()


def _make(path: Path) -> None:
    """A parallel worker that is done may remove the empty base between the making of the base and of the folder."""
    for _ in range(20):
        with contextlib.suppress(FileNotFoundError):
            path.mkdir(parents=True)
            return
    path.mkdir(parents=True)


def unusable(folder: Path) -> str | None:
    """Why nothing can be written into the folder, as the end of a sentence about it; None: it can, or will be made."""
    if folder.is_symlink() and not folder.exists():
        return f"is a link that leads nowhere ({folder.readlink()})"
    if folder.exists() and not folder.is_dir():
        return "is a file, where a folder is needed"
    first = next((each for each in (folder, *folder.parents) if each.exists()), folder)
    return None if os.access(first, os.W_OK | os.X_OK) else "cannot be written"


def links_in(root: Path) -> dict[Path, str]:
    """The links that stand in the place of a task's folder, and where each leads; none without the folder."""
    with contextlib.suppress(OSError):
        found = [each for each in root.iterdir() if each.is_symlink() and not each.name.startswith(".")]
        return {each: str(each.readlink()) for each in found}
    return {}


def moved_aside(links: Mapping[Path, str], keeps: bool) -> list[str]:
    """A line for each link that a task's folder has taken the place of. `keeps`: earlier artifacts are kept."""
    where = "is under .previous now" if keeps else "is gone"
    return [
        f"{shown_path(path)} was a link to {target}: the link {where}; what it leads to is as it was"
        for path, target in sorted(links.items())
        if not path.is_symlink()
    ]


def sweep(base: Path) -> None:
    """Delete the temporary folders whose process is gone. Parallel workers keep theirs."""
    found: list[Path] = []
    with contextlib.suppress(FileNotFoundError):  # there is none, or a parallel worker has just removed it
        found = list(base.iterdir())
    for folder in found:
        pid = folder.name.partition("-")[0]
        if pid.isdecimal() and not _alive(int(pid), folder):
            shutil.rmtree(folder, ignore_errors=True)


def _alive(pid: int, folder: Path) -> bool:
    """Whether the process that made the folder still runs; a younger one of the same pid is another."""
    if pid == os.getpid():
        return True
    try:
        return psutil.Process(pid).create_time() <= folder.stat().st_mtime + 1
    except (psutil.NoSuchProcess, OSError):
        return False
    except psutil.AccessDenied:
        return True
