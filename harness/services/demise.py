"""Ending a service on purpose (a fault plan): its owner sees that this was no crash, and starts it again."""

from __future__ import annotations

import contextlib
import os
import signal

import psutil

from harness.resilience import Clock
from harness.services import watchdog
from harness.services.group import gone, signal_all
from harness.services.listener import listening_pid

GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""
KILLED_WITHIN = 2.0
"""Seconds a SIGKILLed process may take to be gone."""


def watchdog_behind(port: int) -> int | None:
    """The watchdog of what listens on the port, held by this process or by the one that has started it; else None.

    Under xdist the second is the controller, which owns the services.
    """
    listener = listening_pid(port)
    try:
        process = psutil.Process(listener) if listener is not None else None
        held = [each.pid for each in process.parents() if _of_this_run(each)] if process else []
    except psutil.Error:  # gone meanwhile
        return None
    return next(iter(held), None)


def _of_this_run(process: psutil.Process) -> bool:
    return watchdog.__file__ in process.cmdline() and process.ppid() in (os.getpid(), os.getppid())


async def end(pid: int, clock: Clock, *, orderly: bool) -> None:
    """End all below the watchdog `pid`, and wait for that; `orderly`: SIGTERM, and SIGKILL only to what stays."""
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
        watched = psutil.Process(pid)
        processes = watched.children(recursive=True)
        os.kill(pid, signal.SIGUSR1)
        # The watchdog ends when its command is reaped, threads and all: until then the ports may be held.
        all_of_it = (watched, *processes)
        if orderly:
            signal_all(processes, signal.SIGTERM)
            await gone(all_of_it, clock, GRACE)
        signal_all(processes, signal.SIGKILL)
        await gone(all_of_it, clock, KILLED_WITHIN)
