"""Where the services of a project leave their files: what is kept between runs, and a folder for each process's own.

`.harness/logs` has the logs, and the owner files of what `harness services start` keeps, which every process of the
project may read. What a run starts is its own: its owner files and the folders of its services lie in
`.harness/services/<pid>-<birth>-...`, which ends with it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness.services.identity import Identity

_OWNER = ".owner.json"

LOGS = Path(".harness/logs")
"""Below the project's folder."""
_RUNS = "services"
_KEPT = "kept"


def label(name: str, number: int) -> str:
    """What an instance is called: `shop`, `shop[2]`; `number` counts from 0."""
    return f"{name}[{number + 1}]" if number else name


def log_file(logs: Path, name: str) -> Path:
    """What the service writes, and what its owner notes of it."""
    return logs / f"{name}.log"


def lock_file(logs: Path, name: str) -> Path:
    """Held while it is found out that nobody keeps it, and it is started."""
    return logs / f"{name}.lock"


def owner_file(logs: Path, name: str) -> Path:
    """Who keeps it running (`Ownership`)."""
    return logs / f"{name}{_OWNER}"


def owned(logs: Path) -> Iterator[str]:
    """The names of the services that have such a file."""
    return (file.name.removesuffix(_OWNER) for file in sorted(logs.glob(f"*{_OWNER}")))


def owner_files_of_runs(logs: Path, name: str) -> list[Path]:
    """Those of a service that runs have started, and that may have ended since."""
    return [file for folder in _folders(logs) if (file := owner_file(folder, name)).is_file()]


def kept_folder(logs: Path, name: str) -> Path:
    """The `{folder}` of what is kept between runs."""
    return logs.parent / _RUNS / _KEPT / name


class RunFolder:
    """The folder of one process's services, made when the first of them is started."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._path: Path | None = None

    @property
    def path(self) -> Path:
        """Raises OSError."""
        if self._path is None:
            parent = self._logs.parent / _RUNS
            parent.mkdir(parents=True, exist_ok=True)
            _sweep(self._logs)
            self._path = Path(tempfile.mkdtemp(prefix=_prefix(os.getpid()), dir=parent)).absolute()
        return self._path

    def remove(self) -> None:
        """Never raises."""
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None


def _folders(logs: Path) -> list[Path]:
    parent = logs.parent / _RUNS
    return sorted(each for each in parent.glob("[0-9]*-*") if each.is_dir()) if parent.is_dir() else []


def _sweep(logs: Path) -> None:
    """Remove what processes have left that were killed."""
    for folder in _folders(logs):
        pid = folder.name.partition("-")[0]
        if not pid.isdigit() or not folder.name.startswith(_prefix(int(pid))):
            shutil.rmtree(folder, ignore_errors=True)


def _prefix(pid: int) -> str:
    """Of the process that has this pid now: its pid alone comes again."""
    identity = Identity.of(pid)
    return f"{pid}-{identity.birth:.0f}-" if identity else f"{pid}-gone-"
