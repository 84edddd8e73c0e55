"""The processor time of a whole tree of processes, user and system: what a busy machine changes least.

A cgroup counts every process that was ever in it. Where none can be made, the tree is summed up, which misses the
processes whose parent ended before them: nobody in the tree has waited for them.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import psutil

ENDING = 5.0
"""Seconds that processes may take to end after the one that started them."""
POLL = 0.01


class Meter(Protocol):
    """Counts for this process and all that it starts from now on."""

    name: str

    def seconds(self) -> float:
        """Processor time so far."""

    def alone(self) -> bool:
        """Whether all that this process started has ended."""

    def close(self) -> None:
        """Stop counting."""


class Group:
    """A cgroup of version 2 below that of this process."""

    name = "cgroup"

    def __init__(self) -> None:
        """Enter a new group. Raises OSError where this process may not."""
        self._parent = _own_group()
        self._path = Path(tempfile.mkdtemp(prefix=f"bench-{os.getpid()}-", dir=self._parent))
        try:
            self._enter(self._path)
        except OSError:
            self._path.rmdir()
            raise

    def _enter(self, group: Path) -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()), "ascii")

    def seconds(self) -> float:
        lines = (self._path / "cpu.stat").read_text("ascii").splitlines()
        return int(dict(line.split() for line in lines)["usage_usec"]) / 1e6

    def alone(self) -> bool:
        return (self._path / "cgroup.procs").read_text("ascii").split() == [str(os.getpid())]

    def close(self) -> None:
        self._enter(self._parent)
        with contextlib.suppress(OSError):  # a process that does not end keeps its group
            self._path.rmdir()


def _own_group() -> Path:
    """The folder of this process's cgroup. Raises FileNotFoundError without cgroups of version 2."""
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text("utf-8").splitlines())
    groups = (line.partition("::") for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines())
    places = [place for _, place, kind, *_ in mounts if kind == "cgroup2"]
    names = [name for number, _, name in groups if number == "0"]
    if not places or not names:
        raise FileNotFoundError("no cgroup of version 2")
    return Path(places[0]) / names[0].lstrip("/")


class Tree:
    """The sum over this process and those below it, each with the children for which it has waited."""

    name = "sum of the tree"

    def __init__(self) -> None:
        """Count from here; what runs already below this process does not count."""
        self._others = set(psutil.Process().children(recursive=True))

    def seconds(self) -> float:
        return sum(map(_with_reaped, (psutil.Process(), *self._below())))

    def alone(self) -> bool:
        return not self._below()

    def close(self) -> None:
        """There is nothing to end."""

    def _below(self) -> list[psutil.Process]:
        return [each for each in psutil.Process().children(recursive=True) if each not in self._others]


def _with_reaped(process: psutil.Process) -> float:
    try:
        used = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(used.user + used.system + used.children_user + used.children_system)


@contextlib.contextmanager
def metered() -> Iterator[Meter]:
    """Count the processor time of this process and of all that it starts within."""
    meter: Meter
    try:
        meter = Group()
    except OSError:
        meter = Tree()
    try:
        yield meter
    finally:
        settled(meter)  # a group cannot be removed before its last process has ended
        meter.close()


def settled(meter: Meter) -> float:
    """Processor time so far, once all that was started has ended; ENDING seconds are waited for that at most."""
    until = time.monotonic() + ENDING
    while not meter.alone() and time.monotonic() < until:
        time.sleep(POLL)
    return meter.seconds()
