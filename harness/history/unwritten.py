"""What a run could not write, because another process held the history until its end: kept beside it, and taken in."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

from harness.history.file import HistoryError, NotNowError, explained, open_writing, place_of
from harness.history.process import Process
from harness.history.record import RunRecord
from harness.history.statements import add_run
from harness.reporting.documents import read_json, write_json
from harness.reporting.names import shown_path

_PATIENCE = 1.0
"""Seconds that a reader waits for the one who still holds it."""


def keep_beside(root: Path, run: RunRecord) -> Path:
    """The run, with what of it is not in the history, as a file. Raises HistoryError."""
    path = place_of(root)
    file = path.with_name(f"{path.name}.unwritten-{run.run}.json")
    try:
        write_json(file, run.model_dump(mode="json"))
    except OSError as error:
        why = f"what the history could not take cannot be written here either: {error.strerror or error}"
        raise HistoryError(f"{shown_path(file)}: {why}; make room on its disk") from error
    return file


def take_in(root: Path) -> None:
    """Into the history, with what is there of these runs. What still cannot be written stays for the next time."""
    path = place_of(root)
    for file in sorted(path.parent.glob(f"{path.name}.unwritten-*.json")):
        try:
            run = RunRecord.model_validate(read_json(file))
            _add(path, run)
        except NotNowError:
            return
        except (OSError, ValueError):
            continue  # nothing of ours, or a history that says itself what is wrong with it
        with suppress(OSError):
            file.unlink(missing_ok=True)


def _add(path: Path, run: RunRecord) -> None:
    with explained(path), closing(open_writing(path, _PATIENCE)) as database:
        add_run(database, run, Process())
