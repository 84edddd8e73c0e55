"""`.harness/events/<run>.jsonl`: a line for each record, by single appends, so that xdist's workers share the file.

`.harness/events.jsonl` is a link to the file of the run that began last. Where links cannot be made there is none.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from harness.model.settings import LogProfile
from harness.reporting.telemetry.record import Record, TelemetryEvent, describe, level, read
from harness.reporting.telemetry.stream import Sink
from harness.resilience.owner import Owner
from harness.resilience.replaced import replaced

EVENTS_FILE = Path(".harness/events.jsonl")
KEPT = 5
"""The number of runs whose files are kept."""
_LIVES = timedelta(hours=1)
"""A run that has written within this time may still go on: its file is kept too."""


def events_of(root: Path, run: str) -> Path:
    """The file of one run in a project."""
    return root / EVENTS_FILE.with_suffix("") / f"{run}.jsonl"


def owner_file(path: Path) -> Path:
    """The file that tells which process has begun the run of an event file."""
    return path.with_suffix(".owner")


def begin(path: Path, now: datetime, *, leads: bool = True) -> None:
    """Begin a run with its file: the link points to it if the run `leads`, and files of old runs are deleted.

    Nothing is raised: if the file cannot be made here, writing to it fails later, and that is reported.
    """
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        owner_file(path).write_text(Owner.this().label, "utf-8")
        if leads:
            link = path.parent.with_suffix(".jsonl")
            with contextlib.suppress(OSError), replaced(link) as made:  # so it is complete at any moment
                made.unlink(missing_ok=True)
                made.symlink_to(path.relative_to(link.parent))
        _forget(path, (now - _LIVES).timestamp())


def _forget(path: Path, since: float) -> None:
    written = {each: each.stat().st_mtime for each in path.parent.glob("*.jsonl") if each != path}
    for old in sorted(written, key=lambda each: written[each], reverse=True)[KEPT - 1 :]:
        if written[old] < since:
            old.unlink(missing_ok=True)
            owner_file(old).unlink(missing_ok=True)


class EventLog(Sink):
    """Writes the file. Raises OSError once, for the first line that cannot be written; then it is silent."""

    name = EVENTS_FILE.name

    def __init__(self, path: Path) -> None:
        """The file is made with the first record."""
        self._path = path
        self._file: int | None = None
        self._broken = False

    def on_record(self, record: Record) -> None:
        if self._broken:
            return
        try:
            self.append(as_line(record).encode("utf-8", "replace"))
        except OSError:
            self._broken = True
            self.close()
            raise

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def append(self, line: bytes) -> None:
        """Append a complete line. Raises OSError."""
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if os.write(self._file, line) < len(line):
            raise OSError(errno.ENOSPC, "the disk is full", str(self._path))


def append_line(path: Path, line: str) -> None:
    """Append a line that another process has made of a record (`as_line`). Raises OSError."""
    log = EventLog(path)
    try:
        log.append(line.encode("utf-8", "replace"))
    finally:
        log.close()


def as_line(record: Record) -> str:
    """A record as a line of the file."""
    return json.dumps(record.as_json(level_name(record.event)), ensure_ascii=False, default=str) + "\n"


class Tail:
    """Reads the lines that were appended since the last read: complete ones of one run only."""

    def __init__(self, path: Path, run: str) -> None:
        self._path = path
        self._run = run
        self._offset = 0

    def records(self) -> Iterator[Record]:
        """The new records. Raises OSError if the file cannot be read; yields nothing if it does not exist (yet)."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.split(b"\n"):  # a text may contain U+2028, which Python takes for the end of a line
            if (record := read(line)) is not None and record.run == self._run:
                yield record


# Log profiles, and the sink that writes to the logger `harness.resilience`.

LOGGER = "harness.resilience"
_PROFILES: dict[LogProfile, int] = {
    "production": logging.ERROR,
    "evaluation": logging.WARNING,
    "debug": logging.DEBUG,
}
"""The lowest level that each profile logs: errors; errors and warnings; all steps and their context."""


def level_name(event: TelemetryEvent) -> str:
    return logging.getLevelName(level(event))


class LogSink(Sink):
    """Logs each record; handlers find it as `record.harness` if they need more than the line."""

    name = "logging"

    def __init__(self, profile: LogProfile) -> None:
        self._logger = logging.getLogger(LOGGER)
        self._logger.setLevel(_PROFILES[profile])
        if not any(isinstance(handler, logging.NullHandler) for handler in self._logger.handlers):
            self._logger.addHandler(logging.NullHandler())  # without a handler, Python would print to stderr

    def on_record(self, record: Record) -> None:
        self._logger.log(level(record.event), "%s", line(record), extra={"harness": record})


def line(record: Record) -> str:
    """The event as a line, with the task if it belongs to one."""
    where = "" if record.step is None else f" step {record.step}"
    place = f" [{record.task_id}{where}]" if record.task_id else ""
    return f"{describe(record.event)}{place}"
