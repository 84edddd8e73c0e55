"""The machine that the project is prepared on: its facts, and commands run on it."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOT_FOUND = 127
TIMED_OUT = 124
GRACE_SECONDS = 5.0
TELL_SECONDS = 10.0
"""How often a command that takes long is told, with the last line that it wrote, and so many letters of that."""
TOLD = 100


class SetupError(Exception):
    """Set-up cannot go on; the message is one line that says what to do."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that decide how things are installed here."""

    system: str
    distribution: str
    is_root: bool
    home: Path
    applications: tuple[Path, ...] = ()
    libraries: tuple[Path, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that ended: exit code, and standard output and error together."""

    code: int
    output: str = ""

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def reason(self) -> str:
        """The line that says why it failed: the last one with an error, else the last one."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()]
        return next(reversed(errors or lines), f"exit code {self.code}")


class Machine(Protocol):
    """What the set-up needs from the machine; tests replace it."""

    @property
    def facts(self) -> Facts: ...

    def which(self, name: str) -> Path | None: ...

    def run(self, command: Sequence[str], *, seconds: float | None = None) -> Finished:
        """Run without standard input, and tell how far it is; the whole process group is killed after `seconds`."""
        ...


class ThisMachine:
    """The real machine."""

    def __init__(self) -> None:
        self.facts = read_facts()

    def which(self, name: str) -> Path | None:
        found = shutil.which(name)
        return Path(found) if found else None

    def run(self, command: Sequence[str], *, seconds: float | None = None) -> Finished:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            return Finished(NOT_FOUND, str(error))
        try:
            lines = _watched(process, seconds)
        finally:
            _end(process)
        if lines is None:
            return Finished(TIMED_OUT, f"gave up after {seconds:.0f} s")
        return Finished(process.returncode, "".join(lines))


def _watched(process: subprocess.Popen[str], seconds: float | None) -> list[str] | None:
    """What a command writes until it ends; None if it takes longer than `seconds`. A long one is told now and then."""
    assert process.stdout is not None
    lines: list[str] = []
    reader = threading.Thread(target=lines.extend, args=(process.stdout,), daemon=True)
    reader.start()
    passed = 0.0
    while reader.is_alive():
        if seconds is not None and passed >= seconds:
            return None
        pause = TELL_SECONDS if seconds is None else min(TELL_SECONDS, seconds - passed)
        reader.join(pause)
        passed += pause
        if reader.is_alive() and pause == TELL_SECONDS:
            told = (line.strip() for line in reversed(lines) if line.strip() and not line.startswith("WARNING"))
            say(f"{passed:.0f} s: {next(told, 'still at it')[:TOLD]}")
    process.wait()
    return lines


def _end(process: subprocess.Popen[str]) -> None:
    """Kill the whole group: a download is a grandchild, which killing only the child would leave running."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def read_facts() -> Facts:
    home = Path.home()
    return Facts(
        system=platform.system(),
        distribution=_distribution(),
        is_root=os.geteuid() == 0,
        home=home,
        applications=(Path("/Applications"), home / "Applications"),
        libraries=(Path("/usr/lib"), Path("/lib"), Path("/usr/local/lib")),
        environ=dict(os.environ),
    )


def _distribution() -> str:
    """The `ID` of os-release: debian, ubuntu, fedora; empty if there is none (macOS)."""
    try:
        return platform.freedesktop_os_release().get("ID", "")
    except OSError:
        return ""


def say(text: str) -> None:
    print(f"bootstrap: {text}", flush=True)
