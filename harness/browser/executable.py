"""Where the browser is: the one asked for, Playwright's own download, then the system's (DESIGN 5)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from harness.failure import Failed, Failure
from harness.settings import BrowserSettings

VARIABLE = "HARNESS_BROWSER_EXECUTABLE"
HEADLESS_NAMES = ("chromium-headless-shell", "chrome-headless-shell", "headless_shell")
FULL_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = "no browser found: run `playwright install chromium`, or install chromium or google-chrome"

Which = Callable[[str], str | None]


def find(settings: BrowserSettings, own: Path, environment: Mapping[str, str], which: Which = shutil.which) -> Path:
    """The executable to start. `own` is where Playwright's download would be. Raises Failed when there is none."""
    asked = settings.executable or environment.get(VARIABLE)
    if asked:
        return _asked(asked, which)
    for candidate in _candidates(settings.headed, own, which):
        if candidate.is_file() and os.access(candidate, os.X_OK) and not _is_snap_stub(candidate):
            return candidate
    raise Failed(Failure("BROWSER_LAUNCH_FAILED", INSTALL))


def _asked(name: str, which: Which) -> Path:
    found = which(name)
    if found is None:
        raise Failed(Failure("BROWSER_LAUNCH_FAILED", f"the browser asked for is not there: {name}"))
    return Path(found)


def _candidates(headed: bool, own: Path, which: Which) -> Iterator[Path]:
    if not headed:
        yield from _own_shells(own)
    yield own
    names = FULL_NAMES if headed else HEADLESS_NAMES + FULL_NAMES
    yield from (Path(found) for found in map(which, names) if found)


def _own_shells(own: Path) -> Iterator[Path]:
    """Playwright puts the headless shell of the same revision beside the full browser."""
    if len(own.parents) < 3:
        return
    revision = own.parents[1].name.rpartition("-")[2]
    folder = own.parents[2] / f"chromium_headless_shell-{revision}"
    for name in HEADLESS_NAMES:
        yield from sorted(folder.glob(f"*/{name}"))


def _is_snap_stub(path: Path) -> bool:
    """Ubuntu's `chromium-browser` is a shell script that only asks for the snap."""
    with path.open("rb") as file:
        head = file.read(4096)
    return head.startswith(b"#!") and b"snap" in head
