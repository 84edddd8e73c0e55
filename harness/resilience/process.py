"""A program that the harness has started: its process group, its log, its end."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import psutil
from msgspec import Struct

from harness.resilience import Clock, poll_until, watchdog

GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""
KILLED_WITHIN = 2.0
"""Seconds that a process may take to end after SIGKILL."""
POLL = 0.05
"""Seconds between two checks."""
_TAIL_BYTES = 32_768
INTENDED = -signal.SIGUSR1
"""The exit code of a watchdog whose command was ended on purpose."""


class Program(Struct, frozen=True):
    """The command to start, with all placeholders filled in."""

    command: Sequence[str]
    environment: Mapping[str, str]
    cwd: Path
    alone: bool = False
    """Whether it gets only `environment`, and nothing of the harness's own."""
    adopts: bool = False
    """Whether all that it has started ends with it, on Linux also daemons in sessions of their own."""


class Child:
    """A command under its watchdog, in a process group of its own. `pid` is the watchdog's, and the group's id."""

    def __init__(self, program: Program, log: Path, told: Path, clock: Clock) -> None:
        """Start it; raises OSError if its log or its folder cannot be used. `told`: see the watchdog."""
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        self._clock = clock
        self._adopts = program.adopts
        with log.open("ab") as output:
            self._log_start = output.tell()
            self._process = self._start(program, output, str(told))

    def _start(self, program: Program, output: IO[bytes], told: str) -> subprocess.Popen[bytes]:
        return _watched(program, watchdog.STDIN, told, stdin=subprocess.PIPE, stdout=output, stderr=output)

    @property
    def pid(self) -> int:
        return self._process.pid

    def has_ended(self) -> bool:
        """Return whether it has ended, without reaping it: until `_sweep`, the pid and the group's id stay ours."""
        if self._process.returncode is not None:
            return True
        try:
            return psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    async def stop(self, grace: float = GRACE) -> int | None:
        """Send SIGTERM to the group, SIGKILL after `grace`. Returns the command's exit code as a shell reports it."""
        if not self.has_ended():
            self._signal(signal.SIGTERM)
            await self.wait(grace)
        if self._adopts and not self.has_ended():
            with contextlib.suppress(psutil.Error):
                signal_all(psutil.Process(self.pid).children(recursive=True), signal.SIGKILL)
            await self.wait(KILLED_WITHIN)  # the watchdog ends what comes to it, which it cannot once it is killed
        self._signal(signal.SIGKILL)
        # Nothing joins a group that was killed; and its id is ours until the watchdog is reaped.
        left = members(self.pid) if self._process.returncode is None else ()
        await self._until(lambda: self._process.poll() is not None, KILLED_WITHIN)
        await await_ends(left, self._clock, KILLED_WITHIN)  # the watchdog may end before its command does
        return self._sweep()

    def kill(self) -> None:
        """Send SIGKILL to the group, and wait only for its end."""
        self._signal(signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(KILLED_WITHIN)
        self._sweep()

    async def wait(self, seconds: float) -> bool:
        """Wait for its end; returns False if it still runs."""
        return await self._until(self.has_ended, seconds)

    async def _until(self, over: Callable[[], bool], seconds: float) -> bool:
        """Poll until `over`. A process whose first thread has ended is a zombie already, and has no exit code yet."""
        return await poll_until(self._clock, over, POLL, seconds)

    def tail(self, lines: int = 20) -> Sequence[str]:
        """The last lines of its log."""
        try:
            with self.log.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(self._log_start, size - _TAIL_BYTES))
                return log.read().decode(errors="replace").splitlines()[-lines:]
        except OSError:
            return ()

    def _signal(self, number: signal.Signals) -> None:
        # macOS answers EPERM for a group of which only a zombie is left.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def _sweep(self) -> int | None:
        """Reap it. The pipe is closed last, since the watchdog takes its end for the death of the harness."""
        code = self._process.poll()
        self._release()
        return code

    def _release(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()


class PipedChild(Child):
    """A command that the harness speaks with over its standard input and output; its log is its standard error."""

    def __init__(self, program: Program, log: Path, clock: Clock, errors: int | None = None) -> None:
        """Start it; raises OSError if its log or its folder cannot be used.

        `errors`: a descriptor for its standard error, of whoever writes the log himself.
        """
        self._errors = errors
        super().__init__(program, log, Path(os.devnull), clock)

    def _start(self, program: Program, output: IO[bytes], told: str) -> subprocess.Popen[bytes]:
        leash, self._leash = os.pipe()
        try:
            return _watched(
                program,
                leash,
                told,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output if self._errors is None else self._errors,
                pass_fds=(leash,),
            )
        except BaseException:
            os.close(self._leash)
            raise
        finally:
            os.close(leash)

    @property
    def pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """Its standard input and output, at the harness's end."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        return stdin, stdout

    @property
    def command_pid(self) -> int | None:
        """The process of the command itself; None if it has ended."""
        with contextlib.suppress(psutil.Error, IndexError):
            return psutil.Process(self.pid).children()[0].pid
        return None

    def _release(self) -> None:
        for pipe in self.pipes:
            with contextlib.suppress(OSError):
                pipe.close()
        if self._leash >= 0:
            os.close(self._leash)
            self._leash = -1


def _watched(program: Program, leash: int, told: str, **how: Any) -> subprocess.Popen[bytes]:
    """Start the command under its watchdog."""
    own = [sys.executable, "-I", "-S", watchdog.__file__, str(os.getpid()), str(leash), told]
    own.append(watchdog.ADOPTS if program.adopts else watchdog.ADOPTS_NOT)
    inherited = {} if program.alone else os.environ
    environment = {"PYTHONUNBUFFERED": "1", **inherited, **program.environment}
    return subprocess.Popen([*own, *program.command], cwd=program.cwd, env=environment, start_new_session=True, **how)


# Lists the processes of a group, and waits for their end.

LOOK = 0.01
"""Seconds between two checks."""


def members(group: int) -> Sequence[psutil.Process]:
    """The processes of the group that exist now, its leader included.

    All processes are searched: one whose parent has ended is no child of the leader, but still belongs to the group.
    """
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.Error):  # it may end while it is examined
            if os.getpgid(pid) == group:
                found.append(psutil.Process(pid))
    return found


def with_variable(name: str, value: str) -> Sequence[psutil.Process]:
    """The processes that exist now and have this environment variable, as everything that a program starts has.

    They may have left its process group (`setsid`). All processes are searched, which takes some milliseconds.
    """
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):  # those of others cannot be read
            if process.environ().get(name) == value:
                found.append(process)
    return found


def signal_all(processes: Iterable[psutil.Process], number: int) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


async def await_ends(processes: Sequence[psutil.Process], clock: Clock, seconds: float) -> bool:
    """Wait for the end of all; returns False if one still runs after `seconds`. A zombie has ended."""
    return await poll_until(clock, lambda: not any(map(runs, processes)), LOOK, seconds)


def runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# Finds the process that listens on a port.

SHOWN = 300
"""The number of characters of a command line that a message shows."""


def listening_pid(port: int) -> int | None:
    """The process that listens on the port at any address; None if there is none, or it is not visible."""
    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:  # only root may list all connections on macOS
        return next((pid for pid in psutil.pids() if _listens(pid, port)), None)
    listening = (c for c in connections if c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port == port)
    # psutil omits the pid of other users' processes.
    return next((connection.pid for connection in listening if connection.pid), None)


def describe_listener(port: int) -> str:
    """`pid 123 (python -m http.server 8470)`, for a message."""
    pid = listening_pid(port)
    if pid is None:
        return "a process that cannot be seen from here"
    command = command_of(pid)
    return f"pid {pid} ({command})" if command else f"pid {pid}"


def command_of(pid: int | None) -> str:
    """The command line of a process, at most 300 characters; empty if it is not visible."""
    try:
        return shlex.join(psutil.Process(pid).cmdline())[:SHOWN] if pid is not None else ""
    except psutil.Error:
        return ""


def owns_port(pid: int, port: int) -> bool:
    """Return whether the process, or a child of it, listens on the port."""
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return False
    return any(_listens(member, port) for member in (pid, *(child.pid for child in children)))


def _listens(pid: int, port: int) -> bool:
    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return False
    return any(c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port == port for c in connections)
