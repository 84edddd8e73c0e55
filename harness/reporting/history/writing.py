"""Writes runs into the history: task after task while a run goes on, or a whole run at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from harness.reporting.files import read_json, shown_path, write_json
from harness.reporting.history.file import PATIENCE, HistoryError, NotNowError, explained, open_writing, place_of
from harness.reporting.history.record import Execution, Happening, OwnerProcess, RunRecord
from harness.reporting.history.rows import (
    add_run,
    drop_empty,
    end_run,
    insert_execution,
    insert_happenings,
    insert_run,
    prune,
    replace_execution,
    transaction,
)
from harness.reporting.telemetry.log import Tail, events_of, level_name
from harness.reporting.telemetry.record import Record, describe

# Runs whose process is gone without having ended them: a later run says so, and keeps what it can still find.

_UNFINISHED = "SELECT * FROM runs WHERE ending = 'unfinished' AND note = '' AND pid IS NOT NULL"


def note_abandoned(database: sqlite3.Connection, root: Path) -> None:
    """In a transaction of the caller's. Of processes of other machines nothing can be said."""
    for row in database.execute(_UNFINISHED).fetchall():
        process = OwnerProcess.of_row(row)
        if process.gone:
            run = RunRecord.model_validate_json(row["document"])
            note = f"its process (pid {process.pid}) is gone; what it had done until then is kept"
            found = happenings_of(root, run.run)
            end_run(database, run.model_copy(update={"note": note, "happenings": found}))


# What happened around the tasks of a run: out of its event log.

_OF_TASKS = {"step", "task"}
"""The record of a task says it."""
_OF_ATTEMPTS = {"retry", "failed", "recovered", "fallback"}
"""At a step, its attempts say it; without one, it was a service's or a setup's."""


def happenings_of(root: Path, run: str) -> tuple[Happening, ...]:
    """In the order of the log, which several processes write; nothing where there is none, or it cannot be read."""
    try:
        return tuple(_happenings(Tail(events_of(root, run), run).records()))
    except OSError:
        return ()


def _happenings(records: Iterator[Record]) -> Iterator[Happening]:
    for each in records:
        if _is_around(each):
            document = each.as_json(level_name(each.event))
            stamp = {name: document.pop(name) for name in ("at", "type", "level", "task_id", "worker")}
            del document["run"]
            yield Happening.model_validate({**stamp, "text": describe(each.event), "details": document})


def _is_around(record: Record) -> bool:
    kind = record.event.type
    return kind not in _OF_TASKS and not (record.step is not None and kind in _OF_ATTEMPTS)


# What a run could not write, because another process held the history until its end: kept beside it, and taken in.

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
        add_run(database, run, OwnerProcess())


QUICK = 0.25
"""Seconds that a task may be held up by another process; its row is then written with the next one."""
FINAL = 10.0
"""Seconds that the end of a run waits."""


class RunWriter:
    """One run that goes on. Use it from one thread. Everything raises HistoryError for a file that cannot be used.

    While another process holds the file, or the disk is full, nothing is raised: what is to be written waits.
    """

    def __init__(self, root: Path, run: RunRecord, process: OwnerProcess) -> None:
        """The run is in the file from now on, unfinished."""
        self._root = root
        self._path = place_of(root)
        self._run = run
        self._process = process
        self._waiting: list[Execution] = []
        self._database: sqlite3.Connection | None = None
        take_in(root)
        with suppress(NotNowError):
            self._opened(PATIENCE)

    def add(self, execution: Execution) -> None:
        """Into the file at once, in the place of the same one; when that cannot be for now, with the next."""
        self._waiting.append(execution)
        with suppress(NotNowError):
            self._write(QUICK)

    def finish(self, run: RunRecord, keep: int) -> str:
        """With what is known at the end of it; its executions are those that were added. What is to be said, if any.

        A run that has none leaves nothing. Only the newest `keep` runs stay. What cannot be written even now is put
        into a file beside the history (`take_in`).
        """
        try:
            database = self._write(FINAL)
            with explained(self._path), transaction(database):
                end_run(database, run)
                drop_empty(database, run.run)
                prune(database, keep, but=run.run)
        except NotNowError as error:
            file = keep_beside(self._root, run.model_copy(update={"executions": tuple(self._waiting)}))
            tasks = "1 task" if len(self._waiting) == 1 else f"{len(self._waiting)} tasks"
            kept = f"what it could not take ({tasks}) is in {file.name}"
            return f"{error}. {kept}; the next run, or `harness history`, takes it in"
        return ""

    def close(self) -> None:
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()

    def _write(self, patience: float) -> sqlite3.Connection:
        """What waits. Raises HistoryError."""
        database = self._opened(patience)
        with explained(self._path):
            database.execute(f"PRAGMA busy_timeout = {int(patience * 1000)}")
            with transaction(database):
                for each in self._waiting:
                    replace_execution(database, self._run.run, each)
        self._waiting.clear()
        return database

    def _opened(self, patience: float) -> sqlite3.Connection:
        """With the run in it. Raises HistoryError."""
        if self._database is not None:
            return self._database
        database = open_writing(self._path, patience)
        try:
            with explained(self._path), transaction(database):
                note_abandoned(database, self._root)
                insert_run(database, self._run, self._process)
            with suppress(sqlite3.Error):  # so that the file alone has the tables, should the run be killed
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except BaseException:
            database.close()
            raise
        self._database = database
        return database


def save_run(root: Path, run: RunRecord) -> None:
    """A whole run into the history of a project, in the place of one of the same name. Raises HistoryError."""
    with _writing(root) as database, transaction(database):
        insert_run(database, run, OwnerProcess())
        for each in run.executions:
            insert_execution(database, run.run, each)
        insert_happenings(database, run.run, run.happenings)


def drop_old_runs(root: Path, keep: int) -> tuple[str, ...]:
    """All but the newest `keep` runs go, and their room with them; the names of those. Raises HistoryError."""
    with _writing(root) as database:
        with transaction(database):
            gone = prune(database, keep)
        if gone:
            database.execute("VACUUM")
        return gone


@contextmanager
def _writing(root: Path) -> Iterator[sqlite3.Connection]:
    path = place_of(root)
    database = open_writing(path)
    try:
        with explained(path):
            yield database
    finally:
        database.close()
