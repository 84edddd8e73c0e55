"""Campaigns of one project, kept from failing each other's trials: they share its services."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import psutil


class BusyError(RuntimeError):
    """Another campaign runs in the project, and the two cannot run at once."""


@contextmanager
def reserved(file: Path, name: str, *, alone: bool) -> Iterator[None]:
    """For as long as the block lasts; of a process that dies, the kernel lets go. Raises BusyError at once, or OSError.

    `alone`: a campaign that ends services of the project. The others can run beside each other.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(_busy(lock)) from None
        if alone:
            lock.truncate(0)  # those who stand there have ended
        lock.write(f"{os.getpid()} {' '.join(name.split())}\n")
        lock.flush()
        yield


def _busy(lock: TextIO) -> str:
    lock.seek(0)
    entries = [line.strip().partition(" ") for line in lock]
    running = [f"pid {pid}, {name}" for pid, _, name in entries if pid.isdigit() and psutil.pid_exists(int(pid))]
    who = f" ({'; '.join(running)})" if running else ""
    return (
        f"another campaign runs in this project{who}: they share its services, and a fault that ends one "
        "would fail the other's trials. Start this one when that has ended"
    )
