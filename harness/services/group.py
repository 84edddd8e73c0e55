"""The processes of a group, and waiting for their end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence

import psutil

from harness.resilience import Clock, Deadline

LOOK = 0.01
"""Seconds between two looks."""


def members(group: int) -> Sequence[psutil.Process]:
    """Those of the group that exist now, its leader too.

    Asked of all processes: one whose parent has ended is no child of the leader, and is of its group all the same.
    """
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.Error):  # it may end while it is looked at
            if os.getpgid(pid) == group:
                found.append(psutil.Process(pid))
    return found


def signal_all(processes: Iterable[psutil.Process], number: int) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


async def gone(processes: Sequence[psutil.Process], clock: Clock, seconds: float) -> bool:
    """Wait for the end of all; False when one goes on after `seconds`. A zombie has ended."""
    deadline = Deadline.after(seconds, clock.now())
    while any(map(runs, processes)):
        if not deadline.allows(LOOK, clock.now()):
            return False
        await clock.sleep(LOOK)
    return True


def runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
