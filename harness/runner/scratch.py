"""The temporary folder of a process; what killed processes left behind is cleared up by a reaper, or swept."""

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

PREFIX = "taskspec"
YOUNGEST = timedelta(minutes=1)
"""A folder this young is left alone, whoever made it."""
JANITOR_SECONDS = 2.0
"""How long the end of the harness may wait for its reaper's."""


class Scratch:
    """The temporary folder of this process, with a reaper for the case that it is killed.

    The reaper then ends the programs it was told of, and removes this folder and `workspace`.
    """

    def __init__(self, clock: Clock, workspace: Path) -> None:
        self._folder = temporary_folder(clock)
        # A process may end without `close`: the folder goes all the same, without a warning that it was forgotten.
        self._remove = weakref.finalize(self, self._folder.cleanup)
        self.path = Path(self._folder.name)
        self._reaper = subprocess.Popen(
            [sys.executable, "-I", "-S", reaper.__file__, str(os.getpid()), self.path, workspace],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd=self.path.anchor,
            start_new_session=True,
        )

    def guard(self, pid: int) -> None:
        """A program that is not to outlive this process."""
        assert self._reaper.stdin is not None
        with contextlib.suppress(OSError):  # the reaper was killed: the next start sweeps
            self._reaper.stdin.write(f"{pid}\n".encode())

    def close(self) -> None:
        """Remove the folder; the reaper has no more to do."""
        assert self._reaper.stdin is not None
        self._remove()
        self._reaper.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._reaper.wait(JANITOR_SECONDS)


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
