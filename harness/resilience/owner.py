"""The process that has written something down, so that a later reader can tell whether it still lives.

A pid alone is reused, and the start of a process in the time of day moves when the clock is set: a living process would
count as dead, and what it holds would be taken from it.
"""

from __future__ import annotations

import os
import re
import subprocess
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import Struct

PROCESSES = Path("/proc")
_STATE, _START = 0, 19
"""The indices of the fields of `/proc/<pid>/stat` after the name. The start counts ticks since the machine's start."""
_LABEL = re.compile(r"(\d+)-(\d+)-([0-9a-f]*)-(\d+)(?:-|$)")


class Owner(Struct, frozen=True):
    """A process, as it is told from all others; made by `of` and `this`. The default is nobody."""

    pid: int = 0
    birth: float = 0.0
    """Its start as the kernel keeps it (`_birth`), which does not move when the clock is set."""
    boot: str = ""
    """The start of the machine within which `birth` is comparable; empty except on Linux."""
    namespace: int = 0
    """The namespace of the pid: the same pid is another process in another one. 0 except on Linux."""
    host: str = ""
    """Its machine; empty if what it has written never leaves the machine."""

    @classmethod
    def of(cls, pid: int) -> Owner | None:
        """The process that has this pid now; None if there is none, or it is dead and not yet reaped."""
        birth = _birth(pid)
        return None if birth is None else cls(pid, birth, boot_id(), pid_namespace(), os.uname().nodename)

    @classmethod
    def this(cls) -> Owner:
        """This process; one that is never seen if the system does not show it: nothing false is said about it later."""
        return cls.of(os.getpid()) or cls(os.getpid(), boot=boot_id(), namespace=-1)

    @classmethod
    def labelled(cls, name: str) -> Owner | None:
        """The process whose `label` a name begins with; None if it begins with none."""
        found = _LABEL.match(name)
        return found and cls(int(found[1]), float(found[2]), found[3], int(found[4]))

    @property
    def label(self) -> str:
        """The process as the beginning of a file's or a folder's name."""
        return f"{self.pid}-{self.birth:.0f}-{self.boot}-{self.namespace}"

    @property
    def alive(self) -> bool:
        """Whether the process certainly runs."""
        return self._seen and not self.gone

    @property
    def gone(self) -> bool:
        """Whether the process has certainly ended: nothing is known of one that cannot be seen from here."""
        return self._seen and (self.boot != boot_id() or self.birth != _birth(self.pid))

    @property
    def _seen(self) -> bool:
        """Whether the pid stands for the same process here, or stood for it before the last start of the machine."""
        here = self.pid > 0 and self.host in ("", os.uname().nodename)
        return here and (self.namespace == pid_namespace() or self.boot != boot_id())


def is_abandoned(folder: Path) -> bool:
    """Return whether the process whose `label` the folder's name begins with has ended."""
    owner = Owner.labelled(folder.name)
    return owner is not None and owner.gone


def _birth(pid: int) -> float | None:
    """A number that tells a process from a later one with the same pid; None if it has ended, or is a zombie.

    psutil's `create_time` would be none: on Linux it adds the time of the machine's start, which moves with the clock.
    """
    try:
        fields = (PROCESSES / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None if (PROCESSES / "self").exists() else _birth_by_ps(pid)
    return None if fields[_STATE] == "Z" else float(fields[_START])


def _birth_by_ps(pid: int) -> float | None:
    """The same on macOS, whose kernel keeps the time of day at which a process began: a digest of it."""
    command = ["ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)]
    plain = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    with suppress(OSError):
        told = subprocess.run(command, env=plain, capture_output=True, text=True, check=False).stdout.split()
        return float(zlib.crc32(" ".join(told[1:]).encode())) if told and not told[0].startswith("Z") else None
    return None


@cache
def boot_id() -> str:
    """Identifies the time since the machine's start, by the first digits of what Linux makes at random; else empty."""
    try:
        return (PROCESSES / "sys/kernel/random/boot_id").read_text("utf-8").strip().partition("-")[0]
    except OSError:
        return ""


@cache
def pid_namespace() -> int:
    """The namespace of the pids that this process sees."""
    try:
        return (PROCESSES / "self/ns/pid").stat().st_ino
    except OSError:
        return 0
