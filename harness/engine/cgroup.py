"""What Linux control groups allow a process, by the texts of their files (`--task-workers auto`); it reads none itself.

A container or a service has a share of the machine that `psutil` does not know of: a quota of processor time, a limit
of memory. Version 2 has one tree of groups, version 1 one for each controller. A group may take what it and all groups
above it allow, so that the least counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

Read = Callable[[str], str]
"""Path below the root of the cgroup file systems (`/sys/fs/cgroup`) -> text; empty where there is no such file."""
HUGE = 2**60
"""Bytes; version 1 says so much, or more, where there is no limit."""


@dataclass(frozen=True, slots=True)
class Share:
    """What the groups of a process allow."""

    cores: float = math.inf
    """Processors' worth of time."""
    memory: int = HUGE
    """Bytes; HUGE: no limit."""
    free: int = HUGE
    """Bytes of it that are not in use; of file pages those that were not used lately are free."""
    used_seconds: float | None = None
    """Processor time that the group with the least cores has used so far; None where it has no quota."""

    def busy_since(self, earlier: Share, seconds: float) -> float:
        """How much of the quota was used in so many seconds, 0 to 1; 0 where there is none."""
        if self.used_seconds is None or earlier.used_seconds is None or seconds <= 0:
            return 0.0
        return min(1.0, max(0.0, (self.used_seconds - earlier.used_seconds) / (seconds * self.cores)))


def share(membership: str, read: Read) -> Share:
    """`membership`: the text of `/proc/self/cgroup`. What cannot be read limits nothing."""
    found = Share()
    for group in _groups(membership):
        found = _least(found, _of_second(group, read) if group.version == 2 else _of_first(group, read))
    return found


@dataclass(frozen=True, slots=True)
class _Group:
    version: int
    folder: str
    """Below the root, with a slash at its end; empty: the root itself."""
    controllers: frozenset[str] = frozenset()


def _groups(membership: str) -> Iterator[_Group]:
    """Of each line the group, and those above it.

    Inside of a container the path may be that of the host, of which only the root can be seen: it is among them.
    """
    for line in membership.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if not path.startswith("/"):
            continue
        inside = PurePosixPath(path)
        if ".." in inside.parts:  # outside of what this process sees: of that only the root is left
            inside = PurePosixPath("/")
        for folder in (inside, *inside.parents):
            below = folder.as_posix().strip("/")
            if number == "0" and not names:
                yield _Group(2, f"{below}/" if below else "")
            else:
                yield _Group(1, f"{names}/{below}/" if below else f"{names}/", frozenset(names.split(",")))


def _least(one: Share, other: Share) -> Share:
    narrow = other if other.cores < one.cores else one
    return Share(narrow.cores, min(one.memory, other.memory), min(one.free, other.free), narrow.used_seconds)


def _of_second(group: _Group, read: Read) -> Share:
    quota, _, period = read(f"{group.folder}cpu.max").strip().partition(" ")
    used = _field(read(f"{group.folder}cpu.stat"), "usage_usec")
    memory, current = _number(read(f"{group.folder}memory.max")), _number(read(f"{group.folder}memory.current"))
    idle = _field(read(f"{group.folder}memory.stat"), "inactive_file")
    return _share(_cores(quota, period), used and used / 1e6, memory, (current or 0) - (idle or 0))


def _of_first(group: _Group, read: Read) -> Share:
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
    """Infinite for `max`, -1, and whatever is no number."""
    allowed, each = _number(quota), _number(period)
    return allowed / each if allowed and each else math.inf


def _field(text: str, name: str) -> int | None:
    lines = (line.split() for line in text.splitlines())
    return next((_number(words[1]) for words in lines if len(words) == 2 and words[0] == name), None)


def _number(text: str) -> int | None:
    """None for what is no count: `max`, a negative number, nothing."""
    words = text.strip()
    return int(words) if words.isascii() and words.isdigit() and len(words) < 20 else None
