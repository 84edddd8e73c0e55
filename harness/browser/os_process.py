"""Processes of this machine: whether one runs, and its end."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache

import psutil


def runs(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    return not is_gone(status(pid))


def is_gone(found: str | None) -> bool:
    """Return whether a process of that status is none, or a zombie."""
    return found in (None, psutil.STATUS_ZOMBIE)


def is_stopped(found: str | None) -> bool:
    """Return whether a process of that status is stopped (SIGSTOP): it cannot answer."""
    return found in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)


def process_seconds(pid: int) -> float:
    """The processor time that the process has used; zero if there is none."""
    try:
        used = _process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return used.user + used.system


def not_above_ours(pid: int) -> None:
    """Give the process the priority of this one, if it has taken a higher one.

    Where it may (as root, so in most containers), Chromium raises its main thread to nice -8. On a busy machine a page
    that floods it then takes the processor from the driver and from us, who must notice and end it.
    """
    with suppress(OSError):
        ours = os.getpriority(os.PRIO_PROCESS, 0)
        if os.getpriority(os.PRIO_PROCESS, pid) < ours:
            os.setpriority(os.PRIO_PROCESS, pid, ours)


def status(pid: int) -> str | None:
    """The state of the process, as the system names it; None if there is none."""
    try:
        return _process(pid).status()
    except psutil.NoSuchProcess:
        return None


@lru_cache(maxsize=64)
def _process(pid: int) -> psutil.Process:
    """A cached process object: making one costs three times as much as asking it, and it is asked at every step."""
    return psutil.Process(pid)


def kill_tree(pid: int) -> None:
    """Send SIGKILL to a process and all its children. They end a moment later."""
    try:
        root = psutil.Process(pid)
        tree = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for process in tree:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
