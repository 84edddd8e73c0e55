"""`.harness/cluster/<run>.jsonl`: what a run must not forget if its driver ends: results, and tasks that have written.

A line is on the disk of the operating system before the driver goes on, so it outlasts the driver's process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from harness.cluster.messages import Done, encode, from_slot
from harness.values import replace

FOLDER = Path(".harness/cluster")
KEPT = 5
"""The number of files of unfinished runs that are kept."""


class EarlierRun(Struct):
    """What an earlier run has left."""

    project: str
    """The digest of the project's files."""
    done: dict[str, Done] = field(default_factory=dict)
    crashed: dict[str, str] = field(default_factory=dict)
    """Item that ended as WORKER_CRASHED -> why."""
    begun: dict[str, str] = field(default_factory=dict)
    """Item without a result -> `wrote` for a task that had begun to write, `ran` for an ordinary test."""


class RunFile:
    """The file of the present run."""

    def __init__(self, root: Path, run: str, project: str) -> None:
        """Make the file. Raises OSError."""
        self.path = root / FOLDER / f"{run}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file: int | None = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.add("project", project)
        _forget_old(self.path)

    def add(self, word: str, value: str, why: str = "") -> None:
        """Note that a task begins to write (`wrote`), or another fact about an item. Raises OSError."""
        self._write(json.dumps([word, value, why]).encode() + b"\n")

    def done(self, done: Done) -> None:
        """Keep a result. Raises OSError."""
        self._write(encode(replace(done, files="")))

    def close(self, *, finished: bool) -> None:
        """Close the file; that of a finished run is deleted, since nobody goes on with it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if finished:
            self.path.unlink(missing_ok=True)

    def _write(self, line: bytes) -> None:
        if self._file is not None and os.write(self._file, line) < len(line):
            raise OSError(f"{self.path}: the disk is full")


def unfinished_runs(root: Path) -> list[str]:
    """The runs that can be gone on with, the newest last."""
    files = sorted((root / FOLDER).glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    return [path.stem for path in files]


def read_run(root: Path, run: str) -> EarlierRun:
    """Read what a run has left. Raises OSError, and ValueError for a broken file."""
    found = EarlierRun("")
    path = root / FOLDER / f"{run}.jsonl"
    for line in _whole_lines(path):
        try:
            _take(found, line)
        except (msgspec.MsgspecError, ValueError) as error:
            raise ValueError(f"{path}: a line cannot be read: {error}") from error
    return found


def _take(found: EarlierRun, line: bytes) -> None:
    if line.startswith(b"{"):
        done = from_slot(line)
        assert isinstance(done, Done)
        found.done[done.node] = done
        found.begun.pop(done.node, None)
        return
    word, value, why = _words(line)
    if word == "project":
        found.project = value
    elif word == "crashed":
        found.crashed[value] = why
        found.begun.pop(value, None)
    elif word == "again":
        found.begun.pop(value, None)
    else:
        found.begun[value] = word


def _words(line: bytes) -> tuple[str, str, str]:
    words: Any = json.loads(line)
    word, value, why = words
    return str(word), str(value), str(why)


def _whole_lines(path: Path) -> Iterator[bytes]:
    """The complete lines: a driver that was killed may have left a part of one."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line


def _forget_old(present: Path) -> None:
    others = sorted(
        (path for path in present.parent.glob("*.jsonl") if path != present), key=lambda p: p.stat().st_mtime
    )
    for path in others[: -KEPT + 1]:
        path.unlink(missing_ok=True)
