"""Prepares Playwright's driver, a Node.js that a minimal Linux cannot start because one library is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bootstrap.machine import SetupError
from bootstrap.missing import LIBRARY, LIBRARY_PACKAGE, apt_advice

if TYPE_CHECKING:
    from pathlib import Path

    from bootstrap.machine import Finished, Machine
    from bootstrap.packages import SystemPackages

START_SECONDS = 60


def prepare_driver(machine: Machine, packages: SystemPackages, python: Path) -> None:
    """Start the driver once, and install the library if it is missing. Raises SetupError."""
    started = _start(machine, python)
    if LIBRARY in started.output and not started.ok and packages.install(LIBRARY_PACKAGE):
        started = _start(machine, python)
    if started.ok:
        return
    if LIBRARY in started.output:
        if machine.which("apt-get"):
            raise SetupError(apt_advice(machine, python.parents[1], LIBRARY_PACKAGE))
        raise SetupError(f"Playwright's driver lacks a system library; install {LIBRARY}")
    raise SetupError(f"Playwright's driver does not start: {started.reason}")


def _start(machine: Machine, python: Path) -> Finished:
    return machine.run((str(python), "-m", "playwright", "--version"), seconds=START_SECONDS)
