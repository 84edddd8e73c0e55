"""Finds an Allure: 3 from npm, installed once into the user's cache folder; 2 where only Java is there."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import platformdirs

VERSION = "3.18.0"
VERSION_2 = "2.46.1"
INSTALL_LIMIT = 300
"""Seconds for the npm installation."""

Major = Literal[2, 3]
_BINARY = "allure.cmd" if os.name == "nt" else "allure"
_BIN = Path("node_modules", ".bin", _BINARY)
_BIN_2 = Path("node_modules", "allure-commandline", "dist", "bin", "allure.bat" if os.name == "nt" else "allure")
"""The program that needs Java alone; the one in `.bin` is for Node."""
_ADVICE = f"install Node.js, then run `npm install allure@{VERSION}` here; or install Java and Allure 2"


class ReportError(Exception):
    """The report could not be built; the message is one line that says what to do."""


@dataclass(frozen=True, slots=True)
class Allure:
    """A program that builds reports."""

    program: Path
    version: str

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])


def find_allure(project: Path, say: Callable[[str], None] = print, major: Major | None = None) -> Allure:
    """Allure 3: the project's own, the cached one, one on PATH, else installed now; where that cannot be, Allure 2.

    `major` asks for one of them. ReportError when there is none.
    """
    if major == 2:
        return _allure_2(project, say)
    try:
        return _there(project, 3) or install(3, say)
    except ReportError as error:
        if major == 3 or not shutil.which("java"):
            raise
        found = _allure_2(project, say)
        say(f"{error}; so Allure {found.version} builds the report")
        return found


def _allure_2(project: Path, say: Callable[[str], None]) -> Allure:
    if not shutil.which("java"):
        raise ReportError("Allure 2 needs Java, and there is none")
    return _there(project, 2) or install(2, say)


def cache_folder(major: Major = 3) -> Path:
    name = f"allure-{VERSION}" if major == 3 else f"allure-commandline-{VERSION_2}"
    return Path(platformdirs.user_cache_dir("pytest-taskspec")) / name


def install(major: Major, say: Callable[[str], None] = print) -> Allure:
    """Install the pinned version. ReportError without npm, or when npm fails."""
    package = f"allure@{VERSION}" if major == 3 else f"allure-commandline@{VERSION_2}"
    npm, folder = shutil.which("npm"), cache_folder(major)
    if npm is None:
        raise ReportError(f"Allure {major} is not installed, and there is no npm: {_ADVICE}")
    say(f"installing {package} from npm into {folder} (once)")
    building = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    try:
        _run_npm([npm, "install", "--prefix", str(building), "--no-audit", "--no-fund", "--ignore-scripts", package],
                 building)  # fmt: skip
        _publish(building, folder, _program(major))
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return Allure(folder / _program(major), VERSION if major == 3 else VERSION_2)


def _program(major: Major) -> Path:
    return _BIN if major == 3 else _BIN_2


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


def _publish(building: Path, folder: Path, program: Path) -> None:
    """By rename; one that another process put there meanwhile is as good."""
    if not (building / program).is_file():
        raise ReportError(f"npm has installed no {program.name}: {_ADVICE}")
    (building / program).chmod(0o755)  # Allure 2's package does so in a script, and scripts are not run
    shutil.rmtree(folder, ignore_errors=True)
    try:
        building.rename(folder)
    except OSError:
        if not (folder / program).is_file():
            raise


def _there(project: Path, major: Major) -> Allure | None:
    """The first one of this kind: Allure 2 and 3 bear the same name and take different options."""
    for candidate in _candidates(project, major):
        if candidate.is_file() and (version := _version(candidate)).startswith(f"{major}."):
            return Allure(candidate, version)
    return None


def _candidates(project: Path, major: Major) -> Iterator[Path]:
    yield project / _program(major)
    yield cache_folder(major) / _program(major)
    if found := shutil.which("allure"):
        yield Path(found)


def _version(program: Path) -> str:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _one_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and "npm warn" not in line.lower()]
    return " ".join(lines[:2])[:200] or "no reason given"
