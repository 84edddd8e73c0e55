"""The expected seconds of tasks, from a history or from what `harness history durations` has written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from statistics import median

import msgspec
from msgspec import Struct

from harness.reporting.files import shown_path
from harness.reporting.history.file import HistoryError
from harness.reporting.history.reading import RUNS_OF_DURATIONS, seconds_in
from harness.spec.names import blank_unprintable

_SQLITE = b"SQLite format 3\0"
_HOW = "write it with: harness history durations > durations.json"


class Durations(Struct, frozen=True, forbid_unknown_fields=True):
    """The document that `harness history durations` writes."""

    seconds: dict[str, float]
    """Id of a task -> the median duration, in seconds, of its passed executions."""
    runs: int = RUNS_OF_DURATIONS
    """The number of runs, the newest first, that were read."""

    @property
    def digest(self) -> str:
        """A short name of the values: machines that divide a suite by the same ones have the same."""
        text = json.dumps(self.seconds, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def usual(self) -> float:
        """The seconds that an unknown task is expected to take: the median of the known ones."""
        return median(self.seconds.values()) if self.seconds else 1.0

    def of(self, task_id: str) -> float:
        return self.seconds.get(task_id, self.usual)


def read_durations(file: Path) -> Durations:
    """Read the durations in a file: a history (`history.sqlite3`) or the document. Raises HistoryError."""
    try:
        with file.open("rb") as opened:
            history = opened.read(len(_SQLITE)) == _SQLITE
        found = Durations(dict(sorted(seconds_in(file).items()))) if history else _document(file)
    except OSError as error:
        raise HistoryError(f"{shown_path(file)}: cannot be read: {error.strerror or error}; {_HOW}") from error
    if wrong := _impossible(found.seconds):
        raise HistoryError(
            f"{shown_path(file)}: expected a number of seconds, 0 or more, for {blank_unprintable(wrong)}; {_HOW}"
        )
    return found


def _document(file: Path) -> Durations:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Durations)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        expected = "expected a history (history.sqlite3) or the document of `harness history durations`"
        raise HistoryError(f"{shown_path(file)}: {expected}, found something else: {error}; {_HOW}") from error


def _impossible(seconds: Mapping[str, float]) -> str:
    """The first task whose seconds are no length of time."""
    return next((name for name, value in seconds.items() if not 0 <= value < float("inf")), "")
