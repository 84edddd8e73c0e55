"""The number of tasks at once (`--task-workers auto`): what the machine allows, measured while tasks run.

The limits of Linux control groups are read from the texts of their files. A container or a service has a share of the
machine that `psutil` does not know: a quota of processor time, a limit of memory. Version 2 has one tree of groups,
version 1 one for each controller. A group may use what it and all groups above it allow, so the smallest limit counts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import psutil
from msgspec import Struct

from harness.resilience import Clock

_Read = Callable[[str], str]
"""Reads a path below the root of the cgroup file systems (`/sys/fs/cgroup`); returns "" if there is no such file."""
HUGE = 2**60
"""Bytes; version 1 reports this many, or more, if there is no limit."""


class Share(Struct, frozen=True):
    """The limits of a process's control groups."""

    cores: float = math.inf
    """The processor time in processors."""
    memory: int = HUGE
    """The limit of memory in bytes; HUGE: none."""
    free: int = HUGE
    """Bytes of it that are free; file pages that were not used lately count as free."""
    used_seconds: float | None = None
    """The processor time that the group with the smallest quota has used so far; None without a quota."""

    def busy_since(self, earlier: Share, seconds: float) -> float:
        """The share of the quota that was used in so many seconds, 0 to 1; 0 without a quota."""
        if self.used_seconds is None or earlier.used_seconds is None or seconds <= 0:
            return 0.0
        return min(1.0, max(0.0, (self.used_seconds - earlier.used_seconds) / (seconds * self.cores)))


def share(membership: str, read: _Read) -> Share:
    """The limits of a process. `membership`: the text of `/proc/self/cgroup`. An unreadable file limits nothing."""
    found = Share()
    for group in _groups(membership):
        own = _of_second(group, read) if group.version == 2 else _of_first(group, read)
        narrow = own if own.cores < found.cores else found
        found = Share(narrow.cores, min(found.memory, own.memory), min(found.free, own.free), narrow.used_seconds)
    return found


class _Group(Struct, frozen=True):
    version: int
    folder: str
    """The folder below the root, with a slash at its end; empty: the root itself."""
    controllers: frozenset[str] = frozenset()


def _groups(membership: str) -> Iterator[_Group]:
    """The groups that each line names, with all groups above them.

    Inside a container the path may be that of the host, of which only the root is visible: it is among them.
    """
    for line in membership.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if not path.startswith("/"):
            continue
        inside = PurePosixPath(path)
        if ".." in inside.parts:  # the path is outside: only the root is visible
            inside = PurePosixPath("/")
        for folder in (inside, *inside.parents):
            below = folder.as_posix().strip("/")
            if number == "0" and not names:
                yield _Group(2, f"{below}/" if below else "")
            else:
                yield _Group(1, f"{names}/{below}/" if below else f"{names}/", frozenset(names.split(",")))


def _of_second(group: _Group, read: _Read) -> Share:
    quota, _, period = read(f"{group.folder}cpu.max").strip().partition(" ")
    used = _field(read(f"{group.folder}cpu.stat"), "usage_usec")
    memory, current = _number(read(f"{group.folder}memory.max")), _number(read(f"{group.folder}memory.current"))
    idle = _field(read(f"{group.folder}memory.stat"), "inactive_file")
    return _share(_cores(quota, period), used and used / 1e6, memory, (current or 0) - (idle or 0))


def _of_first(group: _Group, read: _Read) -> Share:
    cores, used, memory, taken = math.inf, None, None, 0
    if "cpu" in group.controllers:
        cores = _cores(read(f"{group.folder}cpu.cfs_quota_us"), read(f"{group.folder}cpu.cfs_period_us"))
        nanoseconds = _number(read(f"{group.folder}cpuacct.usage"))
        used = nanoseconds and nanoseconds / 1e9
    if "memory" in group.controllers:
        memory = _number(read(f"{group.folder}memory.limit_in_bytes"))
        current = _number(read(f"{group.folder}memory.usage_in_bytes"))
        idle = _field(read(f"{group.folder}memory.stat"), "total_inactive_file")
        taken = (current or 0) - (idle or 0)
    return _share(cores, used, memory, taken)


def _share(cores: float, used: float | None, memory: int | None, taken: int) -> Share:
    limited = memory is not None and memory < HUGE
    total = memory if limited and memory is not None else HUGE
    free = max(0, total - max(0, taken)) if limited else HUGE
    return Share(cores, total, free, used if cores < math.inf else None)


def _cores(quota: str, period: str) -> float:
    """The quota in processors; infinite for `max`, -1, and every text that is no number."""
    allowed, each = _number(quota), _number(period)
    return allowed / each if allowed and each else math.inf


def _field(text: str, name: str) -> int | None:
    lines = (line.split() for line in text.splitlines())
    return next((_number(words[1]) for words in lines if len(words) == 2 and words[0] == name), None)


def _number(text: str) -> int | None:
    """The number; None for a text that is none: `max`, a negative number, nothing."""
    words = text.strip()
    return int(words) if words.isascii() and words.isdigit() and len(words) < 20 else None


# The number of tasks at once: measured, not guessed (`--task-workers auto`).

LATE, EARLY = 0.25, 0.08
"""Seconds by which the loop is late: above the first there are too many tasks, below the second there is room."""
_ROOM = 0.85
"""The busy share of the processors below which there is room."""
_SCARCE = 0.10
"""The free share of memory below which fewer tasks run."""
EACH = 300 * 2**20
"""Bytes of free memory that one more task needs: a page of Chromium and its recording."""


class Sample(Struct, frozen=True):
    """What was measured since the last sample."""

    busy: float
    """The busy share of the processors, 0 to 1."""
    late: float
    """The largest delay of the loop in seconds."""
    free: int
    """Free memory in bytes."""
    total: int
    running: int


def usable(processors: int, quota: float) -> int:
    """The number of whole processors, given a quota of processor time (of a control group): at least one."""
    return max(1, int(min(processors, quota)))


def first_limit(cores: int, free: int) -> int:
    """The limit before anything was measured: one task for each processor, as far as memory allows."""
    return max(1, min(cores, free // EACH))


def next_limit(limit: int, sample: Sample, cores: int) -> int:
    """The next limit: one more if all places are used and there is room; a quarter less under overload."""
    if not sample.running:
        return limit  # the present load, such as the start of the process, is not caused by the tasks
    if sample.free < _SCARCE * sample.total or sample.late > LATE:
        return max(1, limit - max(1, limit // 4))
    idle = sample.busy < _ROOM and sample.late < EARLY and sample.free > 2 * EACH
    if idle and sample.running >= limit:
        return min(limit + 1, 4 * cores)
    return limit


# Measures how much the machine can take, while tasks run (`--task-workers auto`).

_TICK = 0.1
"""Seconds between two measurements of the loop's delay."""
_TICKS = 5
"""The number of ticks for one sample."""
_GROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
_MOST = 1_000_000
"""The number of bytes of such a file that are read."""


class AdaptiveCapacity:
    """Sets a limit by its measurements; one coroutine on the loop that does the work."""

    def __init__(
        self, clock: Clock, running: Callable[[], int], set_limit: Callable[[int], None], processes: int
    ) -> None:
        """`processes`: the number of harness processes that share the machine (xdist)."""
        self._clock, self._running, self._set_limit, self._processes = clock, running, set_limit, processes
        self._share = allowed()
        self._looked = clock.now()

    async def watch(self) -> None:
        """Measure and set the limit until cancelled."""
        mine = max(1, usable(cores(), self._share.cores) // self._processes)
        limit = first_limit(mine, self._memory(self._share)[0])
        busy()  # psutil's first answer is meaningless
        while True:
            self._set_limit(limit)
            limit = next_limit(limit, await self._sample(), mine)

    async def _sample(self) -> Sample:
        late, most = 0.0, 0
        for _ in range(_TICKS):
            began = self._clock.now()
            await self._clock.sleep(_TICK)
            late = max(late, self._clock.now() - began - _TICK)
            most = max(most, self._running())
        now, looked = allowed(), self._clock.now()
        used = max(busy(), now.busy_since(self._share, looked - self._looked))
        self._share, self._looked = now, looked
        return Sample(used, late, *self._memory(now), most)

    def _memory(self, now: Share) -> tuple[int, int]:
        """Free and total bytes of memory: this process's part of what the machine and its groups have."""
        memory = psutil.virtual_memory()
        free, total = min(memory.available, now.free), min(memory.total, now.memory)
        return free // self._processes, total // self._processes


def cores() -> int:
    """The number of processors that this process may use; Python 3.13 also knows `-X cpu_count`."""
    if hasattr(os, "process_cpu_count"):
        return os.process_cpu_count() or 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def busy() -> float:
    """The share of this process's processors, 0 to 1, that all processes together used since the last call."""
    each = psutil.cpu_percent(percpu=True)
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(each))
    loads = [each[number] for number in mine if number < len(each)] or each
    return sum(loads) / len(loads) / 100 if loads else 0.0


def allowed() -> Share:
    """The limits of this process's control groups; without any (macOS, Windows), none."""
    membership = _text(MEMBERSHIP)
    return share(membership, lambda path: _text(_GROUPS / path)) if membership else Share()


def _text(path: Path) -> str:
    """The text of a file; empty if it cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST)
    except OSError:
        return ""
