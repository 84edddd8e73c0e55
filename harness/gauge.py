"""Measures how much the machine can take, while tasks run (`--task-workers auto`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import psutil

from harness.engine.cgroup import Share, share
from harness.engine.pressure import Sample, first_limit, next_limit, usable
from harness.resilience import Clock

TICK = 0.1
"""Seconds between two looks at the clock: how late the loop is."""
TICKS = 5
"""Looks for one sample."""
GROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
MOST = 1_000_000
"""Bytes of such a file that are read."""


class Gauge:
    """Sets a limit from what it measures; one coroutine on the loop that does the work."""

    def __init__(
        self, clock: Clock, running: Callable[[], int], set_limit: Callable[[int], None], processes: int
    ) -> None:
        """`processes`: so many of our kind share the machine (xdist)."""
        self._clock = clock
        self._running = running
        self._set_limit = set_limit
        self._processes = processes
        self._share = allowed()
        self._looked = clock.now()

    async def watch(self) -> None:
        """Until it is cancelled."""
        mine = max(1, usable(cores(), self._share.cores) // self._processes)
        limit = first_limit(mine, self._memory(self._share)[0])
        busy()  # the first answer of psutil says nothing
        while True:
            self._set_limit(limit)
            limit = next_limit(limit, await self._sample(), mine)

    async def _sample(self) -> Sample:
        late, most = 0.0, 0
        for _ in range(TICKS):
            began = self._clock.now()
            await self._clock.sleep(TICK)
            late = max(late, self._clock.now() - began - TICK)
            most = max(most, self._running())
        now, looked = allowed(), self._clock.now()
        used = max(busy(), now.busy_since(self._share, looked - self._looked))
        self._share, self._looked = now, looked
        return Sample(used, late, *self._memory(now), most)

    def _memory(self, now: Share) -> tuple[int, int]:
        """Bytes that are free, and of how many: this process's part of what the machine and its groups have."""
        memory = psutil.virtual_memory()
        free, total = min(memory.available, now.free), min(memory.total, now.memory)
        return free // self._processes, total // self._processes


def cores() -> int:
    """Processors that this process may use; Python 3.13 knows of `-X cpu_count`, too."""
    if hasattr(os, "process_cpu_count"):
        return os.process_cpu_count() or 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def busy() -> float:
    """Share, 0 to 1, of the processors that this process may use which was taken since the last call, by whomever."""
    each = psutil.cpu_percent(percpu=True)
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(each))
    loads = [each[number] for number in mine if number < len(each)] or each
    return sum(loads) / len(loads) / 100 if loads else 0.0


def allowed() -> Share:
    """What the control groups of this process allow; where there are none (macOS, Windows), everything."""
    membership = _text(MEMBERSHIP)
    return share(membership, lambda path: _text(GROUPS / path)) if membership else Share()


def _text(path: Path) -> str:
    """Empty for what cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(MOST)
    except OSError:
        return ""
