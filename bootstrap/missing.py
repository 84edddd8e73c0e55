"""Names everything that Debian lacks at once, for users without root, who have to ask an administrator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bootstrap.browser import find_browser

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bootstrap.machine import Facts, Machine

LIBRARY = "libatomic"
LIBRARY_PACKAGE = "libatomic1"
BROWSER_PACKAGES = ("chromium-headless-shell", "chromium")


def apt_advice(machine: Machine, venv: Path, package: str) -> str:
    """The line that names `package`, and what later steps of the set-up would lack. Raises SetupError."""
    return f"run as root: apt-get install {' '.join(dict.fromkeys((package, *_missing_later(machine, venv))))}"


def _missing_later(machine: Machine, venv: Path) -> Iterator[str]:
    if machine.facts.is_root:
        return  # later steps install the rest
    if not has_library(machine.facts):
        yield LIBRARY_PACKAGE
    if machine.facts.distribution == "debian" and find_browser(machine, venv) is None:
        yield BROWSER_PACKAGES[0]


def has_library(facts: Facts) -> bool:
    """Return whether the library of Playwright's driver exists; the driver itself may not exist yet."""
    patterns = (f"{LIBRARY}.so.1", f"*/{LIBRARY}.so.1")
    return any(True for folder in facts.libraries for pattern in patterns for _ in folder.glob(pattern))
