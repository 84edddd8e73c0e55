"""Workers of xdist that begin where the imports end, for a run that is itself a fork (tests/acceptance/warm.py).

They are forked before the run begins, because a worker must be a child of its controller, and must know nothing of it.
One that is started in place of a crashed one is started as ever.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import types
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import psutil
from execnet import gateway_io
from execnet.gateway_base import Popen2IO


class _Sleeper:
    """A forked process that waits to become a worker; as much of a `subprocess.Popen` as execnet asks for."""

    def __init__(self, pid: int, waking: socket.socket) -> None:
        self.pid = pid
        self._waking = waking

    def wake(self) -> tuple[int, int]:
        """The ends of its standard input and output."""
        reads, stdin = os.pipe()
        stdout, writes = os.pipe()
        order = {"cwd": os.getcwd(), "environment": dict(os.environ)}
        socket.send_fds(self._waking, [json.dumps(order).encode() + b"\n"], [reads, writes])
        for taken in (reads, writes):
            os.close(taken)
        self._waking.close()
        return stdin, stdout

    def forget(self) -> None:
        """In another fork: this one is none of its business."""
        self._waking.close()

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def fork_workers(number: int) -> bool:
    """Fork so many for the run that begins; whether this process is one of them, and has done its work."""
    sleepers: list[_Sleeper] = []
    for _ in range(number):
        ours, theirs = socket.socketpair()
        if pid := os.fork():
            theirs.close()
            sleepers.append(_Sleeper(pid, ours))
            continue
        ours.close()
        for sleeper in sleepers:
            sleeper.forget()
        _sleep_and_work(theirs)
        return True
    if sleepers:
        gateway_io.Popen2IOMaster = _master(sleepers)  # type: ignore[misc]
    return False


def workers_of(pid: int) -> list[psutil.Process]:
    """Those that were forked for this run, and are running."""
    return [each for each in psutil.Process(pid).children() if "tests.acceptance.warm" in each.cmdline()]


def number_of_workers(arguments: Sequence[str]) -> int:
    """How many pytest's arguments ask for."""
    told = (n if option == "-n" else option[2:] for option, n in pairwise((*arguments, "")) if option[:2] == "-n")
    return next((int(n) for n in told if n.isdigit()), 0)


def _master(sleepers: list[_Sleeper]) -> type[gateway_io.Popen2IOMaster]:
    class Master(gateway_io.Popen2IOMaster):
        def __init__(self, args: Any, execmodel: Any) -> None:
            if not sleepers:
                super().__init__(args, execmodel)
                return
            self.popen: Any = sleepers.pop(0)
            stdin, stdout = self.popen.wake()
            Popen2IO.__init__(self, os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb"), execmodel=execmodel)

    return Master


def _sleep_and_work(waking: socket.socket) -> None:
    """What `python -c` does with execnet's line, when it is wanted."""
    message, fds, _, _ = socket.recv_fds(waking, 1 << 20, 2)
    if not message:
        return
    while not message.endswith(b"\n"):
        message += waking.recv(1 << 20)
    waking.close()
    order = json.loads(message)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin = os.fdopen(0, closefd=False)  # pytest takes it away
    sys.argv = ["-c"]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(gateway_io.popen_bootstrapline, vars(main))
