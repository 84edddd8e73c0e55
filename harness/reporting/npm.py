"""Finds Allure 3, or installs it once from npm into the user's cache folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import platformdirs

VERSION = "3.18.0"
INSTALL_LIMIT = 300
"""Seconds for the npm installation."""

_BINARY = "allure.cmd" if os.name == "nt" else "allure"
_ADVICE = f"install Node.js, then run `npm install allure@{VERSION}` here"


class ReportError(Exception):
    """The report could not be built; the message is one line that says what to do."""


def allure_command(project: Path, say: Callable[[str], None] = print) -> Path:
    """The Allure 3 program: the project's own, the cached one, one on PATH, else installed now."""
    for candidate in _candidates(project):
        if candidate.is_file() and _is_allure_3(candidate):
            return candidate
    return install(cache_folder(), say)


def cache_folder() -> Path:
    return Path(platformdirs.user_cache_dir("pytest-taskspec")) / f"allure-{VERSION}"


def install(folder: Path, say: Callable[[str], None] = print) -> Path:
    """Install the pinned version. ReportError without npm, or when npm fails."""
    npm = shutil.which("npm")
    if npm is None:
        raise ReportError(f"Allure 3 is not installed, and there is no npm: {_ADVICE}")
    say(f"installing allure@{VERSION} from npm into {folder} (once)")
    building = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    try:
        _run_npm([npm, "install", "--prefix", str(building), "--no-audit", "--no-fund", "--ignore-scripts",
                  f"allure@{VERSION}"], building)  # fmt: skip
        _publish(building, folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return folder / "node_modules" / ".bin" / _BINARY


def _run_npm(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_LIMIT, stdin=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ReportError(f"npm could not install Allure ({_one_line(str(error))}): {_ADVICE}") from error
    if done.returncode != 0:
        raise ReportError(f"npm could not install Allure ({_one_line(done.stderr)}): {_ADVICE}")


def _publish(building: Path, folder: Path) -> None:
    """By rename; one that another process put there meanwhile is as good."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        building.rename(folder)
    except OSError:
        if not (folder / "node_modules" / ".bin" / _BINARY).is_file():
            raise


def _candidates(project: Path) -> Iterator[Path]:
    yield project / "node_modules" / ".bin" / _BINARY
    yield cache_folder() / "node_modules" / ".bin" / _BINARY
    if found := shutil.which("allure"):
        yield Path(found)


def _is_allure_3(program: Path) -> bool:
    """Allure 2 bears the same name and takes other options."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and done.stdout.strip().startswith("3.")


def _one_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and "npm warn" not in line.lower()]
    return " ".join(lines[:2])[:200] or "no reason given"
