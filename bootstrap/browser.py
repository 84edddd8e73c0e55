"""Finds a Chromium without starting anything, in the order in which the harness looks for it at run time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from bootstrap.machine import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bootstrap.machine import Facts, Machine

EXECUTABLE_VARIABLE = "HARNESS_BROWSER_EXECUTABLE"
SYSTEM_COMMANDS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "microsoft-edge",
    "microsoft-edge-stable",
)
MAC_APPLICATIONS = ("Google Chrome", "Chromium", "Microsoft Edge")
PLAYWRIGHT_EXECUTABLES = (
    "*/chrome-headless-shell",
    "*/headless_shell",
    "*/chrome",
    "*/*.app/Contents/MacOS/*",
)
SCRIPT_HEAD = 8192
"""The number of bytes of a launcher script that are read to see whether it starts a snap."""


def find_browser(machine: Machine, venv: Path) -> Path | None:
    """The browser that the harness will use, or None. Raises SetupError if the variable names no file."""
    named = machine.facts.environ.get(EXECUTABLE_VARIABLE)
    if named:
        if not Path(named).is_file():
            raise SetupError(f"{EXECUTABLE_VARIABLE} names a file that does not exist: {named}")
        return Path(named)
    return playwright_browser(machine.facts, venv) or system_browser(machine)


def playwright_browser(facts: Facts, venv: Path) -> Path | None:
    """The browser that Playwright itself installed, of the revision that this Playwright requires."""
    for package in venv.glob("lib/python3.*/site-packages/playwright/driver/package"):
        for cache in _caches(facts, package):
            for directory in _wanted_builds(package, cache):
                found = _executable(directory)
                if found:
                    return found
    return None


def _caches(facts: Facts, package: Path) -> Iterator[Path]:
    declared = facts.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    if declared == "0":
        yield package / ".local-browsers"
    elif declared:
        yield Path(declared)
    elif facts.system == "Darwin":
        yield facts.home / "Library" / "Caches" / "ms-playwright"
    else:
        yield Path(facts.environ.get("XDG_CACHE_HOME") or facts.home / ".cache") / "ms-playwright"


def _wanted_builds(package: Path, cache: Path) -> Iterator[Path]:
    browsers = json.loads((package / "browsers.json").read_text())["browsers"]
    revisions = {browser["name"]: browser["revision"] for browser in browsers}
    for name in ("chromium-headless-shell", "chromium"):
        if name in revisions:
            yield cache / f"{name.replace('-', '_')}-{revisions[name]}"


def _executable(directory: Path) -> Path | None:
    """The executable in a download; None if the download was cut off, since the marker is written last."""
    if not (directory / "INSTALLATION_COMPLETE").exists():
        return None
    return next(
        (path for pattern in PLAYWRIGHT_EXECUTABLES for path in directory.glob(pattern) if path.is_file()), None
    )


def system_browser(machine: Machine) -> Path | None:
    for name in SYSTEM_COMMANDS:
        found = machine.which(name)
        if found and not is_snap(found):
            return found
    for folder in machine.facts.applications:
        for name in MAC_APPLICATIONS:
            executable = folder / f"{name}.app" / "Contents" / "MacOS" / name
            if executable.is_file():
                return executable
    return None


def is_snap(executable: Path) -> bool:
    """Return whether it is a snap, or Ubuntu's script that starts one.

    A snap is confined: it cannot read the profile directories that the harness makes for it.
    """
    resolved = executable.resolve()
    if "snap" in executable.parts or "snap" in resolved.parts:
        return True
    with resolved.open("rb") as file:
        head = file.read(SCRIPT_HEAD)
    return head.startswith(b"#!") and b"/snap/" in head
