"""The temporary folder of a process; a reaper, or the next run, removes those of killed processes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import weakref
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil

from harness.resilience import Clock
from harness.runner import reaper

_PREFIX = "taskspec"
_YOUNGEST = timedelta(minutes=1)
"""The age below which a folder is left alone, whoever made it."""
_JANITOR_SECONDS = 2.0
"""Seconds that the end of the harness waits for its reaper to end."""


class Scratch:
    """The temporary folder of this process, with a reaper in case it is killed.

    The reaper then ends the programs that were reported to it, and removes this folder and `workspace`.
    """

    def __init__(self, clock: Clock, workspace: Path) -> None:
        self._folder = temporary_folder(clock)
        # If a process ends without `close`, the folder is still removed, without a warning.
        self._remove = weakref.finalize(self, self._folder.cleanup)
        self.path = Path(self._folder.name)
        self.reaper = subprocess.Popen(
            [sys.executable, "-I", "-S", reaper.__file__, str(os.getpid()), self.path, workspace],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd=self.path.anchor,
            start_new_session=True,
        )
        """The process that cleans up if this one is killed."""

    def guard(self, pid: int) -> None:
        """Register a program that must not outlive this process."""
        assert self.reaper.stdin is not None
        with contextlib.suppress(OSError):  # the reaper was killed: the next start removes the folder
            self.reaper.stdin.write(f"{pid}\n".encode())

    def close(self) -> None:
        """Remove the folder, and end the reaper."""
        assert self.reaper.stdin is not None
        self._remove()
        self.reaper.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.reaper.wait(_JANITOR_SECONDS)


def temporary_folder(clock: Clock) -> tempfile.TemporaryDirectory[str]:
    """Make a folder named by machine and process, after removing those of processes that are gone."""
    # Containers may share the folder, and do not see each other's processes. The name is short: sockets lie in it.
    mine = f"{_PREFIX}-{hashlib.sha256(os.uname().nodename.encode()).hexdigest()[:4]}-"
    for folder in Path(tempfile.gettempdir()).glob(f"{mine}*-*"):
        pid = folder.name.removeprefix(mine).partition("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)) and _is_old(folder, clock.wall()):
            shutil.rmtree(folder, ignore_errors=True)  # one that cannot be deleted stays
    return tempfile.TemporaryDirectory(prefix=f"{mine}{os.getpid()}-", ignore_cleanup_errors=True)


def _is_old(folder: Path, now: datetime) -> bool:
    try:
        return now - datetime.fromtimestamp(folder.stat().st_mtime, UTC) > _YOUNGEST
    except OSError:
        return False
