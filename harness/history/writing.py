"""Writes runs into the history: task after task while a run goes on, or a whole run at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.history.abandoned import note_abandoned
from harness.history.file import PATIENCE, NotNowError, explained, open_writing, place_of
from harness.history.process import Process
from harness.history.record import Execution, RunRecord
from harness.history.statements import (
    drop_empty,
    end_run,
    insert_execution,
    insert_happenings,
    insert_run,
    prune,
    replace_execution,
    transaction,
)
from harness.history.unwritten import keep_beside, take_in

QUICK = 0.25
"""Seconds that a task may be held up by another process; its row is then written with the next one."""
FINAL = 10.0
"""Seconds that the end of a run waits."""


class RunWriter:
    """One run that goes on. Use it from one thread. Everything raises HistoryError for a file that cannot be used.

    While another process holds the file, or the disk is full, nothing is raised: what is to be written waits.
    """

    def __init__(self, root: Path, run: RunRecord, process: Process) -> None:
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
        insert_run(database, run, Process())
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
