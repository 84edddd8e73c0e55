"""The folders that runs write to: temporary ones, those of earlier runs, and whether they are usable."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path

from harness.model.settings import Settings
from harness.reporting.files import read_json, safe_name, shown_path
from harness.resilience.owner import Owner, is_abandoned


def unusable_folders(settings: Settings) -> list[str]:
    """A sentence for each folder that cannot be written: what it is instead, and the remedy."""
    own = settings.root / ".harness"
    folders = {own: "the events of a run are kept there: move it away"}
    if not settings.artifacts.is_relative_to(own):
        advice = "failed tasks are kept there: move it away, or name another with `--task-artifacts`"
        folders = {settings.artifacts: advice, **folders}
    return [f"{shown_path(each)} {why}; {advice}" for each, advice in folders.items() if (why := unusable(each))]


# `errors/.previous/<run>/<key>`: directories of earlier runs and attempts, for the latest runs.


class Previous:
    """Moves old directories away by rename, and deletes the oldest runs."""

    def __init__(self, root: Path, keep: int, workspace: Workspace) -> None:
        self._root = root / ".previous"
        self._keep = keep
        self._workspace = workspace

    def take(self, directory: Path) -> None:
        """Move `errors/<key>` into the folder of the run that wrote it, if it exists.

        A link itself is moved, even a broken one: its target is neither changed nor deleted.
        """
        if not os.path.lexists(directory):
            return
        if self._keep == 0:
            self._workspace.discard(directory)
            return
        run = self._root / run_of(directory)
        run.mkdir(parents=True, exist_ok=True)
        numbered = (f"{directory.name}-{number}" for number in itertools.count(2))
        for name in itertools.chain([directory.name], numbered):
            try:
                directory.rename(run / name)
                break
            except OSError:
                if not (run / name).exists():
                    raise
        self.prune()

    def prune(self) -> None:
        """Keep the runs that were moved last."""
        runs = sorted(filter(Path.is_dir, self._root.iterdir()), key=_filing_time, reverse=True)
        for old in runs[self._keep :]:
            self._workspace.discard(old)


def _filing_time(run: Path) -> float:
    try:
        return run.stat().st_mtime_ns
    except FileNotFoundError:  # a parallel worker removed it
        return 0


def run_of(directory: Path) -> str:
    try:
        return safe_name(str(read_json(directory / "manifest.json")["run"]))
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown"


# Temporary folders under `errors/.tmp`, one subfolder for each process; those of ended processes are removed.


class Workspace:
    """Makes folders on the file system of the artifacts, so that a rename is enough to publish one."""

    def __init__(self, root: Path, run_id: str) -> None:
        self._base = root / ".tmp"
        self._own = self._base / f"{Owner.this().label}-{run_id}"
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        sweep(self._base)

    @property
    def own(self) -> Path:
        """The folder that contains all folders of this process."""
        return self._own

    def folder(self, name: str) -> Path:
        """Make an empty folder; `name` is a part of its name."""
        path = self._own / f"{name}-{next(self._numbers)}"
        with self._lock:
            _make(path)
        return path

    def discard(self, path: Path) -> None:
        """Delete a folder; it is renamed first, so that a kill leaves no half of it."""
        grave = self.folder("discarded")
        with contextlib.suppress(FileNotFoundError):
            path.rename(grave / path.name)
        shutil.rmtree(grave, ignore_errors=True)
        with self._lock, contextlib.suppress(OSError):  # still in use
            self._own.rmdir()
            self._base.rmdir()


def _make(path: Path) -> None:
    """Make a folder, again if a parallel worker that is done has just removed the empty base."""
    for _ in range(20):
        with contextlib.suppress(FileNotFoundError):
            path.mkdir(parents=True)
            return
    path.mkdir(parents=True)


def unusable(folder: Path) -> str | None:
    """The reason why the folder cannot be written, as the end of a sentence; None if it can, or will be made."""
    if folder.is_symlink() and not folder.exists():
        return f"is a link that leads nowhere ({folder.readlink()})"
    if folder.exists() and not folder.is_dir():
        return "is a file, where a folder is needed"
    first = next((each for each in (folder, *folder.parents) if each.exists()), folder)
    return None if os.access(first, os.W_OK | os.X_OK) else "cannot be written"


def links_in(root: Path) -> dict[Path, str]:
    """The links in place of tasks' folders, with their targets; none without the folder."""
    with contextlib.suppress(OSError):
        found = [each for each in root.iterdir() if each.is_symlink() and not each.name.startswith(".")]
        return {each: str(each.readlink()) for each in found}
    return {}


def moved_aside(links: Mapping[Path, str], keeps: bool) -> list[str]:
    """A line for each link that was replaced by a task's folder. `keeps`: earlier artifacts are kept."""
    where = "is under .previous now" if keeps else "is gone"
    return [
        f"{shown_path(path)} was a link to {target}: the link {where}; its target is unchanged"
        for path, target in sorted(links.items())
        if not path.is_symlink()
    ]


def sweep(base: Path) -> None:
    """Delete the temporary folders of processes that have ended, but not those of parallel workers."""
    found: list[Path] = []
    with contextlib.suppress(FileNotFoundError):  # it does not exist, or a parallel worker has just removed it
        found = list(base.iterdir())
    for folder in filter(is_abandoned, found):
        shutil.rmtree(folder, ignore_errors=True)


def runs_in(root: Path) -> list[Path]:
    """The folders of runs in a folder, the newest first: their names begin with their time."""
    with contextlib.suppress(FileNotFoundError):
        return sorted((path for path in root.iterdir() if not path.name.startswith(".")), reverse=True)
    return []
