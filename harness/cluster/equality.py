"""What must be the same on the driver and on every slot: else the same task is another task there."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from msgspec import Struct

_SUFFIXES = (".py", ".toml", ".ini", ".cfg", ".yaml", ".yml")
"""The files of a project whose content counts. JSON counts only as a task file: a run writes JSON too."""
_TASKS = ("*.task.json",)
_SKIPPED = (".*", "__pycache__", "node_modules", "venv", "build", "dist", "*.egg", "*.egg-info", "CVS", "_darcs")
_MOST_FILES = 20_000
"""The number of files whose content counts; a project with more is told apart by the first ones, in order."""


class NodeFacts(Struct, frozen=True):
    """What is compared."""

    python: str
    """`3.12`."""
    taskspec: str
    playwright: str
    project: str
    """A digest of the project's files."""
    files: dict[str, str] = {}
    """File, relative to the project -> the start of its digest."""
    host: str = ""
    pid: int = 0

    @classmethod
    def here(cls, root: Path, leave_out: tuple[Path, ...] = ()) -> NodeFacts:
        """The facts of this process and of the project in a folder. `leave_out`: folders that a run writes to."""
        files = dict(_digests(root, leave_out))
        whole = hashlib.sha256("".join(f"{name}\0{digest}\0" for name, digest in files.items()).encode()).hexdigest()
        python = ".".join(platform.python_version_tuple()[:2])
        ours, playwright = _version("pytest-taskspec"), _version("playwright")
        return cls(python, ours, playwright, whole[:16], files, socket.gethostname(), os.getpid())


def differences(driver: NodeFacts, slot: NodeFacts) -> list[str]:
    """A line for each fact in which a slot differs from the driver, with both values."""
    pairs = {
        "Python": (driver.python, slot.python),
        "pytest-taskspec": (driver.taskspec, slot.taskspec),
        "Playwright": (driver.playwright, slot.playwright),
        "the project's files": (driver.project, slot.project),
    }
    lines = [f"{what}: {here} here, {there} there" for what, (here, there) in pairs.items() if here != there]
    found = sorted(name for name in {*driver.files, *slot.files} if driver.files.get(name) != slot.files.get(name))
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    if driver.project != slot.project and found:
        lines[-1] += f" ({', '.join(found[:3])}{more})"
    return lines


def _digests(root: Path, leave_out: tuple[Path, ...]) -> Iterator[tuple[str, str]]:
    for number, path in enumerate(_files(root, leave_out)):
        if number >= _MOST_FILES:
            return
        try:
            content = path.read_bytes()
        except OSError:
            continue
        yield path.relative_to(root).as_posix(), hashlib.sha256(content).hexdigest()[:12]


def _files(root: Path, leave_out: tuple[Path, ...]) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        read = (each for each in folders if not any(fnmatch(each, pattern) for pattern in _SKIPPED))
        folders[:] = sorted(each for each in read if Path(folder, each) not in leave_out)
        for name in sorted(files):
            if name.endswith(_SUFFIXES) or any(fnmatch(name, pattern) for pattern in _TASKS):
                yield Path(folder, name)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
