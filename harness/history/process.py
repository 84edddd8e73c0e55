"""Who writes a run."""

from __future__ import annotations

import os
import platform
import sqlite3
from dataclasses import dataclass

import psutil

_SAME = 1.0
"""Seconds that two readings of one start may differ by."""


@dataclass(frozen=True, slots=True)
class Process:
    """Kept beside an unfinished run, so that a later one can tell whether it still goes on."""

    pid: int | None = None
    host: str = ""
    started: float | None = None
    """Seconds since the epoch: a pid is given to others after a while."""

    @staticmethod
    def own() -> Process:
        return Process(os.getpid(), platform.node(), psutil.Process().create_time())

    @staticmethod
    def of_row(row: sqlite3.Row) -> Process:
        """The one of a run in the history."""
        return Process(row["pid"], row["host"], row["process_started"])

    @property
    def alive(self) -> bool:
        """Certainly."""
        return self.pid is not None and self.host == platform.node() and not self.gone

    @property
    def gone(self) -> bool:
        """Certainly: of a process of another machine nothing can be said."""
        if self.pid is None or self.host != platform.node():
            return False
        try:
            found = psutil.Process(self.pid)
            dead = found.status() == psutil.STATUS_ZOMBIE
            return dead or (self.started is not None and abs(found.create_time() - self.started) > _SAME)
        except psutil.Error:
            return True
