"""How many tasks at once: measured, not guessed (`--task-workers auto`)."""

from __future__ import annotations

from dataclasses import dataclass

LATE, EARLY = 0.25, 0.08
"""Seconds by which the loop answers late: above the first it is too much, below the second there is room."""
ROOM = 0.85
"""Share of the processors that is busy; below it there is room."""
SCARCE = 0.10
"""Share of the memory that is free; below it fewer tasks run."""
EACH = 300 * 2**20
"""Bytes of free memory that one more task asks for: a page of Chromium and what records it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What was measured since the last look."""

    busy: float
    """Share of the processors, 0 to 1."""
    late: float
    """Seconds that the loop was late at most."""
    free: int
    """Bytes of memory."""
    total: int
    running: int


def usable(processors: int, quota: float) -> int:
    """Whole processors, of so many and a quota of processor time (a control group's): at least one."""
    return max(1, int(min(processors, quota)))


def first_limit(cores: int, free: int) -> int:
    """Before anything was measured: one for each processor, as far as memory goes."""
    return max(1, min(cores, free // EACH))


def next_limit(limit: int, sample: Sample, cores: int) -> int:
    """One more when all places are taken and there is room; a quarter less when it is too much."""
    if not sample.running:
        return limit  # what is too much now, such as the start of the process, is none of the tasks' doing
    if sample.free < SCARCE * sample.total or sample.late > LATE:
        return max(1, limit - max(1, limit // 4))
    idle = sample.busy < ROOM and sample.late < EARLY and sample.free > 2 * EACH
    if idle and sample.running >= limit:
        return min(limit + 1, 4 * cores)
    return limit
