"""Installs a browser if none is found: Debian's package, or Playwright's own download."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bootstrap.browser import find_browser
from bootstrap.machine import SetupError, say
from bootstrap.missing import BROWSER_PACKAGES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bootstrap.machine import Machine
    from bootstrap.packages import SystemPackages

DOWNLOAD_SECONDS = 300
START_SECONDS = 30


def prepare_browser(machine: Machine, packages: SystemPackages, venv: Path) -> Path:
    """Find a browser, or install one. Raises SetupError."""
    found = find_browser(machine, venv)
    if found:
        return found
    say("no browser found")
    for attempt in _attempts(machine, packages, venv):
        installed = find_browser(machine, venv) if attempt else None
        if installed and _starts(machine, installed):
            return installed
    raise SetupError(f"no browser could be installed; {_advice(machine)}")


def _attempts(machine: Machine, packages: SystemPackages, venv: Path) -> Iterator[bool]:
    """Try the ways to get one, each if the one before failed; a user's Debian is changed last."""
    on_debian = machine.facts.distribution == "debian"
    if on_debian and machine.facts.is_root:
        yield packages.install(*BROWSER_PACKAGES)
    if machine.facts.system == "Linux" and machine.facts.is_root:
        yield _download(machine, venv, "--with-deps")
    yield _download(machine, venv)
    if on_debian and not machine.facts.is_root:
        yield packages.install(*BROWSER_PACKAGES)


def _download(machine: Machine, venv: Path, *options: str) -> bool:
    say(f"playwright install {' '.join((*options, '--only-shell', 'chromium'))} (at most {DOWNLOAD_SECONDS} s)")
    command = (str(venv / "bin" / "python"), "-m", "playwright", "install", *options, "--only-shell", "chromium")
    done = machine.run(command, seconds=DOWNLOAD_SECONDS)
    if not done.ok:
        say(f"playwright install failed: {done.reason}")
    return done.ok


def _starts(machine: Machine, browser: Path) -> bool:
    """Return whether the browser starts: asking for its version loads libraries of the system that may be missing."""
    done = machine.run((str(browser), "--version"), seconds=START_SECONDS)
    if not done.ok:
        say(f"the browser does not start: {done.reason}")
    return done.ok


def _advice(machine: Machine) -> str:
    if machine.facts.distribution == "debian":
        return f"run as root: apt-get install {BROWSER_PACKAGES[0]}"
    if machine.facts.system == "Linux":
        return (
            "install Google Chrome, or run as root: "
            ".venv/bin/python -m playwright install --with-deps --only-shell chromium"
        )
    return "install Google Chrome, or run: .venv/bin/python -m playwright install --only-shell chromium"
