"""`errors/.previous/<run>/<key>`: what earlier runs and earlier attempts left, the newest few runs."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from harness.reporting.documents import read_json
from harness.reporting.names import safe_name
from harness.reporting.workspace import Workspace


class Previous:
    """Takes directories over by rename, and forgets the oldest runs."""

    def __init__(self, root: Path, keep: int, workspace: Workspace) -> None:
        self._root = root / ".previous"
        self._keep = keep
        self._workspace = workspace

    def take(self, directory: Path) -> None:
        """Move `errors/<key>` away, filed under the run that wrote it; nothing happens when there is none.

        A link is moved itself, one that leads nowhere too: what it leads to is neither changed nor deleted.
        """
        if not os.path.lexists(directory):
            return
        if self._keep == 0:
            self._workspace.discard(directory)
            return
        run = self._root / _run_of(directory)
        run.mkdir(parents=True, exist_ok=True)
        for name in _numbered(directory.name):
            try:
                directory.rename(run / name)
                break
            except OSError:
                if not (run / name).exists():
                    raise
        self.prune()

    def prune(self) -> None:
        """Keep the runs that were filed last."""
        runs = sorted(filter(Path.is_dir, self._root.iterdir()), key=_filed, reverse=True)
        for old in runs[self._keep :]:
            self._workspace.discard(old)


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}-{number}" for number in itertools.count(2))


def _filed(run: Path) -> float:
    try:
        return run.stat().st_mtime_ns
    except FileNotFoundError:  # a parallel worker pruned it
        return 0


def _run_of(directory: Path) -> str:
    try:
        return safe_name(str(read_json(directory / "manifest.json")["run"]))
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown"
