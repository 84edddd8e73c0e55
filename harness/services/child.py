"""A program the harness has started: its process group, its log, its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness.resilience import Clock, Deadline
from harness.services import watchdog
from harness.services.group import gone, members

GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""
KILLED_WITHIN = 2.0
"""Seconds a SIGKILLed process may take to be gone."""
POLL = 0.05
"""Seconds between two looks."""
TAIL_BYTES = 32_768


@dataclass(frozen=True, slots=True)
class Program:
    """What is started, with all placeholders filled in."""

    command: Sequence[str]
    environment: Mapping[str, str]
    cwd: Path


class Child:
    """A command under its watchdog, in a process group of its own. `pid` is the watchdog's, and the group's id."""

    def __init__(self, program: Program, log: Path, told: Path, clock: Clock) -> None:
        """Start it; raises OSError when its log or its folder cannot be used. `told`: see the watchdog."""
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        self._clock = clock
        with log.open("ab") as output:
            self._log_start = output.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", watchdog.__file__, str(os.getpid()), str(told), *program.command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=program.cwd,
                env={"PYTHONUNBUFFERED": "1", **os.environ, **program.environment},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ended(self) -> bool:
        """Whether it is over. Looks without reaping: until `_sweep` the pid, and so the group's id, stays ours."""
        if self._process.returncode is not None:
            return True
        try:
            return psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    async def stop(self) -> int | None:
        """SIGTERM to the group, 3 seconds, SIGKILL. Returns the command's exit code as a shell would say it."""
        if not self.ended():
            self._signal(signal.SIGTERM)
            await self.wait(GRACE)
        self._signal(signal.SIGKILL)
        # Nobody joins a group that was killed; and its id is ours until the watchdog is reaped.
        left = members(self.pid) if self._process.returncode is None else ()
        await self._until(lambda: self._process.poll() is not None, KILLED_WITHIN)
        await gone(left, self._clock, KILLED_WITHIN)  # the watchdog may be over before its command is
        return self._sweep()

    def kill(self) -> None:
        """SIGKILL to the group, without waiting for more than its end."""
        self._signal(signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(KILLED_WITHIN)
        self._sweep()

    async def wait(self, seconds: float) -> bool:
        """Wait for its end; False when it goes on."""
        return await self._until(self.ended, seconds)

    async def _until(self, over: Callable[[], bool], seconds: float) -> bool:
        """A process whose first thread alone has ended is a zombie already, and has no exit code yet."""
        deadline = Deadline.after(seconds, self._clock.now())
        while not over():
            if not deadline.allows(POLL, self._clock.now()):
                return False
            await self._clock.sleep(POLL)
        return True

    def tail(self, lines: int = 20) -> Sequence[str]:
        """The last lines it has written."""
        try:
            with self.log.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(self._log_start, size - TAIL_BYTES))
                return log.read().decode(errors="replace").splitlines()[-lines:]
        except OSError:
            return ()

    def _signal(self, number: signal.Signals) -> None:
        # EPERM is what macOS says of a group in which only a zombie is left.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def _sweep(self) -> int | None:
        """Reap it. The pipe is closed last: its end is what the watchdog takes for the harness's death."""
        code = self._process.poll()
        if self._process.stdin is not None:
            self._process.stdin.close()
        return code
