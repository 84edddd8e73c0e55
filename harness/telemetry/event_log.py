"""`.harness/events/<run>.jsonl`: a line for each record, by single appends, so that xdist's workers share the file.

`.harness/events.jsonl` is a link to that of the run which began last. Where links cannot be made there is none.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from harness.telemetry.levels import level_name
from harness.telemetry.record import Record, read

EVENTS_FILE = Path(".harness/events.jsonl")
KEPT = 5
"""Runs whose files stay."""
LIVES = timedelta(hours=1)
"""A run that has written since then may still go on: its file stays too."""


def events_of(root: Path, run: str) -> Path:
    """The file of one run in a project."""
    return root / EVENTS_FILE.with_suffix("") / f"{run}.jsonl"


def begin(path: Path, now: datetime, *, leads: bool = True) -> None:
    """A new run, with its file: the link leads there now, if this one `leads`, and files of old runs go.

    Nothing is raised: a file that cannot be made here, cannot be written either, and that is told.
    """
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        if leads:
            _link(path.parent.with_suffix(".jsonl"), path)
        _forget(path, (now - LIVES).timestamp())


def _link(link: Path, path: Path) -> None:
    """Whole at any moment: made beside it, and put in its place."""
    made = link.with_name(f".{link.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        made.unlink(missing_ok=True)
        made.symlink_to(path.relative_to(link.parent))
        try:
            made.replace(link)
        except OSError:
            made.unlink()


def _forget(path: Path, since: float) -> None:
    written = {each: each.stat().st_mtime for each in path.parent.glob("*.jsonl") if each != path}
    for old in sorted(written, key=lambda each: written[each], reverse=True)[KEPT - 1 :]:
        if written[old] < since:
            old.unlink(missing_ok=True)


class EventLog:
    """A sink. Raises OSError once, for the first line that cannot be written, and is silent from then on."""

    name = EVENTS_FILE.name

    def __init__(self, path: Path) -> None:
        """The file is made with the first record."""
        self._path = path
        self._file: int | None = None
        self._broken = False

    def __call__(self, record: Record) -> None:
        if self._broken:
            return
        line = json.dumps(record.as_json(level_name(record.event)), ensure_ascii=False, default=str) + "\n"
        try:
            self._append(line.encode("utf-8", "replace"))
        except OSError:
            self._broken = True
            self.close()
            raise

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append(self, line: bytes) -> None:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if os.write(self._file, line) < len(line):
            raise OSError(errno.ENOSPC, "the disk is full", str(self._path))


class Tail:
    """Reads what was appended since the last look; only whole lines, and only those of one run."""

    def __init__(self, path: Path, run: str) -> None:
        self._path = path
        self._run = run
        self._offset = 0

    def records(self) -> Iterator[Record]:
        """OSError when the file is there and cannot be read; nothing when it is not there (yet)."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.split(b"\n"):  # a text may hold what Python takes for the end of a line: U+2028
            if (record := read(line)) is not None and record.run == self._run:
                yield record
