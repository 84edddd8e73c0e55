"""The temporary folder of a process; those that killed processes left behind are swept."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil

from harness.resilience import Clock

PREFIX = "taskspec"
YOUNGEST = timedelta(minutes=1)
"""A folder this young is left alone, whoever made it."""


def temporary_folder(clock: Clock) -> tempfile.TemporaryDirectory[str]:
    """A new one, named by machine and process, after those of processes that are gone."""
    sweep(Path(tempfile.gettempdir()), clock.wall())
    return tempfile.TemporaryDirectory(prefix=f"{_ours()}{os.getpid()}-", ignore_cleanup_errors=True)


def sweep(root: Path, now: datetime) -> None:
    """Delete the folders of processes of this machine that are gone. What cannot be deleted stays."""
    for folder in root.glob(f"{_ours()}*-*"):
        pid = folder.name.removeprefix(_ours()).partition("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)) and _old(folder, now):
            shutil.rmtree(folder, ignore_errors=True)


def _ours() -> str:
    """Containers may share a folder, and do not see each other's processes. Short: sockets lie in the folder."""
    machine = hashlib.sha256(os.uname().nodename.encode()).hexdigest()[:4]
    return f"{PREFIX}-{machine}-"


def _old(folder: Path, now: datetime) -> bool:
    try:
        return now - datetime.fromtimestamp(folder.stat().st_mtime, UTC) > YOUNGEST
    except OSError:
        return False
