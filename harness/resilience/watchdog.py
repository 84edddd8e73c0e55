"""Runs a command that must not outlive the harness.

Usage: `python -I -S watchdog.py <harness pid> <leash> <file> <adopts> <command>`.

The leash is the descriptor of a pipe whose other end only the harness holds. When the pipe ends, or the parent is no
longer the harness, the watchdog ends the whole process group, and removes the file in which the harness named itself
as owner. It is started as a file and without `site`, so that it costs milliseconds. If standard input is not the leash,
the harness speaks with the command over it: the command has it and standard output then, and the watchdog has neither.

Whoever ends the command on purpose sends SIGUSR1 to the watchdog first. The watchdog then ends by that signal itself,
which no command can imitate, and so tells the harness that this was no crash.

On Linux the death of the parent also wakes a watchdog that is stopped (SIGSTOP); what it watches is killed as it is.

With `adopts`, on Linux, what the command has started comes to the watchdog as soon as its own parent has ended, also a
daemon in a session of its own that has cleared its environment. All of it ends with the command.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading

_TYPE_CHECKING = False  # the module typing costs milliseconds
if _TYPE_CHECKING:
    from collections.abc import Callable

GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""
_PARENT_CHECK = 1.0
"""Seconds between two checks of the parent's pid: a fork of the harness may hold the pipe open after its death."""
_CANNOT_START = 127
ADOPTS, ADOPTS_NOT = "adopts", "-"
ROUNDS = 100
"""How often what the command has left is looked for: what was killed leaves its own children to the watchdog."""
_PAUSE = 0.01
"""Seconds between two rounds."""
STDIN, STDOUT = 0, 1
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def main(arguments: list[str]) -> int:
    """Run the command to its end; return its exit code as a shell would."""
    # Unlike SIG_IGN, a handler is not inherited by the command: it gets the group's SIGTERM, the watchdog waits for it.
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    intended = threading.Event()
    signal.signal(signal.SIGUSR1, lambda _number, _frame: intended.set())
    harness, leash, told, adopts, *command = arguments
    adopting = adopts == ADOPTS and _prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        process = _start(command, int(leash))
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]}: {error.strerror or error}\n")
        return _CANNOT_START
    orphaned = threading.Event()
    end_the_rest: Callable[[], None] = _end_descendants if adopting else lambda: None
    watched = int(harness), int(leash), told, process, orphaned, end_the_rest
    watch = threading.Thread(target=_watch, args=watched, daemon=True)
    watch.start()
    code = _reap_until(process) if adopting else process.wait()
    if orphaned.is_set():
        watch.join()
    end_the_rest()
    if intended.is_set():
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGUSR1)
    return 128 - code if code < 0 else code


def _start(command: list[str], leash: int) -> subprocess.Popen[bytes]:
    if leash == STDIN:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL)
    process = subprocess.Popen(command)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (STDIN, STDOUT):  # else the harness would not see that the command has closed them
        os.dup2(nothing, stream)
    return process


def _watch(
    harness: int,
    leash: int,
    told: str,
    process: subprocess.Popen[bytes],
    orphaned: threading.Event,
    end_the_rest: Callable[[], None],
) -> None:
    """Wait for the death of the harness; then end the group, this process included, and the rest before it."""
    at_death_of_parent(signal.SIGCONT)  # here, since it costs milliseconds that the command need not wait for
    while os.getppid() == harness:
        readable, _, _ = select.select([leash], [], [], _PARENT_CHECK)
        if readable and not os.read(leash, 1):
            break
    orphaned.set()
    _withdraw(harness, told)
    os.killpg(0, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    end_the_rest()
    os.killpg(0, signal.SIGKILL)


def at_death_of_parent(number: signal.Signals) -> None:
    """Let Linux send a signal to this process when its parent dies: a stopped process would not notice that."""
    _prctl(PR_SET_PDEATHSIG, number)


def _prctl(option: int, value: int) -> bool:
    """Set something of this process that Linux has; False if the system cannot do that."""
    import ctypes

    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def _reap_until(process: subprocess.Popen[bytes]) -> int:
    """Reap whatever ends, until the command does; return its exit code."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == process.pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode


def _end_descendants() -> None:
    """Kill all that has this process for an ancestor. Bounded."""
    pause = threading.Event()
    for _ in range(ROUNDS):
        found = _descendants()
        if not found:
            return
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        pause.wait(_PAUSE)


def _descendants() -> list[int]:
    """What runs and has this process for an ancestor, by the files that Linux has about processes."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - as above
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
            state, parent = file.read().rpartition(b")")[2].split()[:2]
            parents[int(name)] = int(parent), state
    found = [os.getpid()]
    for pid in found:
        found += [child for child, (parent, _) in parents.items() if parent == pid]
    return [pid for pid in found[1:] if parents[pid][1] != b"Z"]


def _withdraw(harness: int, told: str) -> None:
    """Remove the owner file before the command ends: until then no other process has a reason to write it."""
    import json

    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        with open(told, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs milliseconds
            owner = json.load(file)["owner"]
        if owner["pid"] == harness:
            os.unlink(told)  # noqa: PTH108


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
