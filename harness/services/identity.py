"""Which process: its pid and when it was born, because a pid alone comes again."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import psutil

_BIRTH = 19
"""Where `/proc/<pid>/stat` says it, counted after the name: in ticks since the machine's start."""


@dataclass(frozen=True, slots=True)
class Identity:
    """`birth` means something only on the machine, and since the start of it, that it was read on."""

    pid: int
    birth: float

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """Who has this pid now; None when nobody has, or it is dead and not yet reaped."""
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                return cls(pid, _birth(process))
        return None

    @property
    def alive(self) -> bool:
        return Identity.of(self.pid) == self


def _birth(process: psutil.Process) -> float:
    """From the machine's start where that can be had: the time of day may be set while the process lives."""
    try:
        stat = Path(f"/proc/{process.pid}/stat").read_text("utf-8")
    except OSError:
        return process.create_time()
    return float(stat.rpartition(")")[2].split()[_BIRTH])
