"""`.harness/events.jsonl`: a line for each record, by single appends, so that xdist's workers share the file."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

from harness.telemetry.levels import level_name
from harness.telemetry.record import Record, read

EVENTS_FILE = Path(".harness/events.jsonl")


def begin(path: Path) -> None:
    """A new run: what is there goes. Nothing is raised: what cannot be removed, cannot be written either, and told."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


class EventLog:
    """A sink. Raises OSError once, for the first line that cannot be written, and is silent from then on."""

    def __init__(self, path: Path) -> None:
        """The file is made with the first record."""
        self.name = path.name
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
        for line in whole.decode("utf-8", "replace").splitlines():
            if (record := read(line)) is not None and record.run == self._run:
                yield record
