"""Cleans up after a harness that was killed: `python -I -S reaper.py <harness pid> <scratch> <workspace>`.

Standard input is a pipe whose other end only the harness holds; on it come the pids of the programs that it starts, a
line each. When the pipe ends, or the parent is no longer the harness, the reaper ends what these programs left running,
and removes both folders. It is started as a file and without `site`, in a session of its own: it costs milliseconds,
and no signal meant for the harness reaches it. On Linux the death of its parent wakes it, if it is stopped (SIGSTOP).
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

_PARENT_CHECK = 1.0
"""Seconds between two checks of the parent's pid: a fork of the harness may hold the pipe open after its death."""
GRACE = 2.0
"""Seconds for the programs to end by themselves, as they do when the harness is gone."""
_GONE_WITHIN = 2.0
"""Seconds that killed programs may take to end."""
_REMOVED_WITHIN = 2.0
"""Seconds within which a folder must be gone: a dying program may still write into it."""
POLL = 0.02
_CHUNK = 4096
_PR_SET_PDEATHSIG = 1
PROCESSES = Path("/proc")
STATE, PARENT, START = 0, 1, 19
"""The indices of the fields of /proc/<pid>/stat after the name."""


def main(harness: int, scratch: Path, workspace: Path) -> None:
    """Wait for the end of the harness; then clean up. The parent of `workspace` is removed too if it is empty."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _is_woken_by_death()
    programs = _told_by(harness)
    _await_ends(programs, GRACE)
    for pid, born in programs.items():
        end(pid, born)
    _await_ends(programs, _GONE_WITHIN)
    _remove(scratch)
    _remove(workspace)
    with contextlib.suppress(OSError):  # other processes have their folders in it
        workspace.parent.rmdir()


def _is_woken_by_death() -> None:
    """Let Linux send SIGCONT when the parent dies."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)


def _told_by(harness: int) -> dict[int, str]:
    """The programs that the harness has reported until its end: pid -> birth, since a pid may be reused."""
    programs: dict[int, str] = {}
    rest = b""
    while True:
        readable, _, _ = select.select([sys.stdin], [], [], _PARENT_CHECK)
        chunk = os.read(sys.stdin.fileno(), _CHUNK) if readable else b""
        if not chunk and (readable or os.getppid() != harness):
            return programs
        *lines, rest = (rest + chunk).split(b"\n")
        programs |= {int(line): birth(int(line)) for line in lines}


def _await_ends(programs: Mapping[int, str], seconds: float) -> None:
    """Wait until all of them have ended, for at most `seconds`."""
    for _ in _polls(seconds):
        if not any(_runs(pid, born) for pid, born in programs.items()):
            return


def _remove(folder: Path) -> None:
    for _ in _polls(_REMOVED_WITHIN):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return


def _polls(seconds: float) -> Iterator[None]:
    """Yield at once, and then repeatedly for so many seconds."""
    pause = threading.Event()
    for _ in range(round(seconds / POLL)):
        yield
        pause.wait(POLL)


def end(pid: int, born: str) -> None:
    """Send SIGKILL to a program with all its children, and to the group that it leads, which may contain orphans."""
    runs = _runs(pid, born)
    if not runs and birth(pid):
        return  # the pid belongs to another process by now
    for each in tree(pid) if runs else ():
        with contextlib.suppress(OSError):
            os.kill(each, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def _runs(pid: int, born: str) -> bool:
    return bool(born) and birth(pid) == born


def birth(pid: int) -> str:
    """A value that distinguishes a process from a later one with the same pid; empty if it has ended."""
    if not PROCESSES.is_dir():
        return _run_ps("-o", "lstart=", "-p", str(pid)).strip()
    fields = _stat(pid)
    return fields[START] if fields and fields[STATE] != "Z" else ""


def tree(root: int) -> list[int]:
    """A process and all its children."""
    parents, found = dict(_parents()), [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def _parents() -> Iterator[tuple[int, int]]:
    """Every process with its parent."""
    if not PROCESSES.is_dir():
        for line in _run_ps("-A", "-o", "pid=,ppid=").splitlines():
            pid, parent = line.split()
            yield int(pid), int(parent)
        return
    for folder in PROCESSES.glob("[0-9]*"):
        if fields := _stat(int(folder.name)):
            yield int(folder.name), int(fields[PARENT])


def _stat(pid: int) -> list[str]:
    """The fields after the name, which may contain anything; empty if there is no such process."""
    try:
        return (PROCESSES / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return []


def _run_ps(*arguments: str) -> str:
    """The output of `ps`, for systems without files about processes."""
    return subprocess.run(["ps", *arguments], capture_output=True, text=True, check=False).stdout


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
