"""`.harness/cluster/<run>.jsonl`: what a run must not forget if its driver ends: results, and tasks that have written.

A line is on the disk of the operating system before the driver goes on, so it outlasts the driver's process. A run that
is gone on with keeps its file, and one process at a time drives it.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field

from harness.cluster.messages import Done, encode, from_slot
from harness.model.ledger import Note, read_note
from harness.values import replace

_FOLDER = Path(".harness/cluster")
_KEPT = 5
"""The number of files of unfinished runs that are kept."""
_ANEW = "restore the file, or run the tasks anew, which repeats what the run has done"
_head = msgspec.json.Decoder(tuple[Literal["project"], str])


class RunIsDrivenError(Exception):
    """Another process drives the run now."""


class EarlierRun(Struct):
    """What an earlier run has left."""

    project: str
    """The digest of the project's files."""
    done: dict[str, Done] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    """That tasks begin to write, that ordinary tests begin, and what was decided when slots were lost."""


class RunFile:
    """The file of the present run, or of the earlier one that this run goes on with."""

    def __init__(self, root: Path, run: str, project: str, *, goes_on: bool = False) -> None:
        """Make the file, or open the one that there is. Raises OSError, and RunIsDrivenError."""
        self.run = run
        self.path = root / _FOLDER / f"{run}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        made = 0 if goes_on else os.O_CREAT
        self._file: int | None = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | made, 0o600)
        self._lock(self._file)
        if goes_on:
            os.ftruncate(self._file, self.path.read_bytes().rfind(b"\n") + 1)  # a killed driver may leave half a line
        else:
            self._write(msgspec.json.encode(("project", project)) + b"\n")
            for path in [each for each in _oldest_first(self.path.parent) if each != self.path][: -_KEPT + 1]:
                path.unlink(missing_ok=True)

    def add(self, what: Note | Done) -> None:
        """Keep a note about an item, or its result. Raises OSError."""
        self._write(what.line() if isinstance(what, Note) else encode(replace(what, files="")))

    def close(self, *, finished: bool) -> None:
        """Close the file; that of a finished run is deleted, since nobody goes on with it."""
        if finished:
            self.path.unlink(missing_ok=True)
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _lock(self, file: int) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close(finished=False)
            raise RunIsDrivenError(f"another process drives the run {self.run} now") from None
        except OSError:
            pass  # this file system has no locks

    def _write(self, line: bytes) -> None:
        """Write a line, or nothing: what follows half a line could not be read."""
        if self._file is None:
            return
        before = os.fstat(self._file).st_size
        if os.write(self._file, line) < len(line):
            with suppress(OSError):
                os.ftruncate(self._file, before)
            raise OSError(f"{self.path}: the disk is full")


def unfinished_runs(root: Path) -> list[str]:
    """The runs that can be gone on with, the newest last."""
    return [path.stem for path in _oldest_first(root / _FOLDER)]


def read_run(root: Path, run: str) -> EarlierRun:
    """Read what a run has left. Raises OSError, and ValueError for a broken file."""
    path = root / _FOLDER / f"{run}.jsonl"
    lines = iter(path.read_bytes().split(b"\n")[:-1])  # a driver that was killed may have left a part of a line
    try:
        found = EarlierRun(_head.decode(next(lines, b""))[1])
    except ValueError:
        raise ValueError(f"{path}:1: the digest of the project is missing; {_ANEW}") from None
    for number, line in enumerate(lines, start=2):
        try:
            _take(found, line)
        except ValueError as error:
            raise ValueError(f"{path}:{number}: this line cannot be read: {error}; {_ANEW}") from error
    return found


def _take(found: EarlierRun, line: bytes) -> None:
    """Note a line. Raises ValueError."""
    if line.startswith(b"{"):
        done = from_slot(line)
        if not isinstance(done, Done):
            raise ValueError("expected a result")
        found.done[done.node] = done
        found.notes.append(Note("over", done.node))
    else:
        found.notes.append(read_note(line))


def _oldest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
