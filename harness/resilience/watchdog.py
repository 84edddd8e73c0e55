"""Runs a command that must not outlive the harness: `python -I -S watchdog.py <harness pid> <leash> <file> <command>`.

The leash is the descriptor of a pipe whose other end only the harness holds. When the pipe ends, or the parent is no
longer the harness, the watchdog ends the whole process group, and removes the file in which the harness named itself
as owner. It is started as a file and without `site`, so that it costs milliseconds. If standard input is not the leash,
the harness speaks with the command over it: the command has it and standard output then, and the watchdog has neither.

Whoever ends the command on purpose sends SIGUSR1 to the watchdog first. The watchdog then ends by that signal itself,
which no command can imitate, and so tells the harness that this was no crash.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading

GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""
PARENT_CHECK = 1.0
"""Seconds between two checks of the parent's pid: a fork of the harness may hold the pipe open after its death."""
CANNOT_START = 127
STDIN, STDOUT = 0, 1


def main(arguments: list[str]) -> int:
    """Run the command to its end; return its exit code as a shell would."""
    # Unlike SIG_IGN, a handler is not inherited by the command: it gets the group's SIGTERM, the watchdog waits for it.
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    intended = threading.Event()
    signal.signal(signal.SIGUSR1, lambda _number, _frame: intended.set())
    harness, leash, told, *command = arguments
    try:
        process = _start(command, int(leash))
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]}: {error.strerror or error}\n")
        return CANNOT_START
    orphaned = threading.Event()
    watch = threading.Thread(target=_watch, args=(int(harness), int(leash), told, process, orphaned), daemon=True)
    watch.start()
    code = process.wait()
    if orphaned.is_set():
        watch.join()
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


def _watch(harness: int, leash: int, told: str, process: subprocess.Popen[bytes], orphaned: threading.Event) -> None:
    """Wait for the death of the harness; then end the group, this process included."""
    while os.getppid() == harness:
        readable, _, _ = select.select([leash], [], [], PARENT_CHECK)
        if readable and not os.read(leash, 1):
            break
    orphaned.set()
    _withdraw(harness, told)
    os.killpg(0, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    os.killpg(0, signal.SIGKILL)


def _withdraw(harness: int, told: str) -> None:
    """Remove the owner file before the command ends: until then no other process has a reason to write it."""
    import json

    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        with open(told, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs milliseconds
            owner = json.load(file)["owner"]
        if owner[0] == harness:
            os.unlink(told)  # noqa: PTH108


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
