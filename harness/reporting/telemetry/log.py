"""`.harness/events/<run>.jsonl`: a line for each record, by single appends, so that xdist's workers share the file.

`.harness/events.jsonl` is a link to that of the run which began last. Where links cannot be made there is none.
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

from harness.model.events import Event
from harness.model.settings import LogProfile, Settings
from harness.reporting.telemetry.record import Record, TelemetryEvent, describe, level, read
from harness.reporting.telemetry.stream import Telemetry, TextRedactor
from harness.resilience import SystemClock

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


# Log profiles, and the sink that writes to the logger `harness.resilience`.

LOGGER = "harness.resilience"
PROFILES: dict[LogProfile, int] = {
    "production": logging.ERROR,
    "evaluation": logging.WARNING,
    "debug": logging.DEBUG,
}
"""Errors only; errors and warnings; all steps and their context."""


def level_name(event: TelemetryEvent) -> str:
    return logging.getLevelName(level(event))


class LogSink:
    """The record travels along as `record.harness`, for handlers that want more than the line."""

    name = "logging"

    def __init__(self, profile: LogProfile) -> None:
        self._logger = logging.getLogger(LOGGER)
        self._logger.setLevel(PROFILES[profile])
        if not any(isinstance(handler, logging.NullHandler) for handler in self._logger.handlers):
            self._logger.addHandler(logging.NullHandler())  # without handlers Python would print to stderr

    def __call__(self, record: Record) -> None:
        self._logger.log(level(record.event), "%s", line(record), extra={"harness": record})


def line(record: Record) -> str:
    """With the task, where it belongs to one."""
    where = "" if record.step is None else f" step {record.step}"
    place = f" [{record.task_id}{where}]" if record.task_id else ""
    return f"{describe(record.event)}{place}"


# The stream of a run without pytest: `harness chaos`, `harness verify`, `execute_task`. The file, and the logger.


class RunEvents:
    """Writes `.harness/events/<run>.jsonl`, as a run of pytest does; figures are of those runs alone."""

    def __init__(self, settings: Settings, run: str, redactor: TextRedactor, *, leads: bool = True) -> None:
        """`leads`: `.harness/events.jsonl` leads there. Nothing is raised for a file that cannot be written."""
        clock, path, profile = SystemClock(), events_of(settings.root, run), settings.log_profile
        begin(path, clock.wall(), leads=leads)
        self._log = EventLog(path)
        self._stream = Telemetry(run, clock, redactor, steps=profile == "debug", sinks=[self._log, LogSink(profile)])

    def emit(self, event: TelemetryEvent) -> None:
        """What circuits and services did (`resilience.events.Emit`); from any thread."""
        self._stream.emit(event)

    def on(self, event: Event | Record) -> None:
        """What the engine says; a record is there already."""
        if not isinstance(event, Record):
            self._stream.on(event)

    def close(self) -> tuple[str, ...]:
        """The file is whole. Why something was not written, in a line each."""
        self._log.close()
        return tuple(f"telemetry: {sink}: {problem}" for sink, problem in self._stream.problems.items())
