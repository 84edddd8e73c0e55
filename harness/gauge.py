"""Measures how much the machine can take, while tasks run (`--task-workers auto`)."""

from __future__ import annotations

import os
from collections.abc import Callable

import psutil

from harness.engine.pressure import Sample, first_limit, next_limit
from harness.resilience import Clock

TICK = 0.1
"""Seconds between two looks at the clock: how late the loop is."""
TICKS = 5
"""Looks for one sample."""


class Gauge:
    """Sets a limit from what it measures; one coroutine on the loop that does the work."""

    def __init__(
        self, clock: Clock, running: Callable[[], int], set_limit: Callable[[int], None], processes: int
    ) -> None:
        """`processes`: so many of our kind share the machine (xdist)."""
        self._clock = clock
        self._running = running
        self._set_limit = set_limit
        self._cores = max(1, cores() // processes)
        self._processes = processes

    async def watch(self) -> None:
        """Until it is cancelled."""
        limit = first_limit(self._cores, psutil.virtual_memory().available // self._processes)
        psutil.cpu_percent()  # the first answer of psutil says nothing
        while True:
            self._set_limit(limit)
            limit = next_limit(limit, await self._sample(), self._cores)

    async def _sample(self) -> Sample:
        late, most = 0.0, 0
        for _ in range(TICKS):
            began = self._clock.now()
            await self._clock.sleep(TICK)
            late = max(late, self._clock.now() - began - TICK)
            most = max(most, self._running())
        memory = psutil.virtual_memory()
        return Sample(psutil.cpu_percent() / 100, late, memory.available // self._processes, memory.total, most)


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
