"""Where the browser is: the one asked for, Playwright's own download, then the system's (DESIGN 5)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from harness.model.settings import BrowserSettings
from harness.recovery.failure import Failed, Failure

VARIABLE = "HARNESS_BROWSER_EXECUTABLE"
HEADLESS_NAMES = ("chromium-headless-shell", "chrome-headless-shell", "headless_shell")
FULL_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = "no browser found: apt-get install chromium, run `playwright install chromium`, or install google-chrome"
NO_WINDOW = "no browser that can show a window (only {} is installed): apt-get install chromium, or drop --headed"

Which = Callable[[str], str | None]


def find(settings: BrowserSettings, own: Path, environment: Mapping[str, str], which: Which = shutil.which) -> Path:
    """The executable to start. `own` is where Playwright's download would be. Raises Failed when there is none."""
    asked = settings.executable or environment.get(VARIABLE)
    if asked:
        return _asked(asked, which)
    found = next(filter(_starts, _candidates(settings.headed, own, which)), None)
    if found is not None:
        return found
    shell = next(filter(_starts, _candidates(False, own, which)), None)
    raise Failed(Failure("BROWSER_LAUNCH_FAILED", NO_WINDOW.format(shell.name) if shell else INSTALL))


def _starts(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK) and not _is_snap_stub(path)


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
