"""Writes runs into the history: task after task while a run goes on, or a whole run at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.history.abandoned import note_abandoned
from harness.history.file import explanation, is_busy, open_writing, place_of
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

QUICK = 0.25
"""Seconds that a task may be held up by another process; its row is then written with the next one."""
FINAL = 10.0
"""Seconds that the end of a run waits."""


class RunWriter:
    """One run that goes on. Use it from one thread. Everything raises HistoryError for a file that cannot be used."""

    def __init__(self, root: Path, run: RunRecord, process: Process) -> None:
        """The run is in the file from now on, unfinished."""
        self._path = place_of(root)
        self._run = run.run
        self._waiting: list[Execution] = []
        self._database = open_writing(self._path)
        try:
            with _explained(self._path), transaction(self._database):
                note_abandoned(self._database, root)
                insert_run(self._database, run, process)
            with suppress(sqlite3.Error):  # so that the file alone has the tables, should the run be killed
                self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._patience(QUICK)
        except BaseException:
            self._database.close()
            raise

    def add(self, execution: Execution) -> None:
        """Into the file at once, in the place of the same one; when another process is in the way, with the next."""
        self._waiting.append(execution)
        try:
            self._flush()
        except sqlite3.Error as error:
            if not is_busy(error):
                raise explanation(self._path, error) from error

    def finish(self, run: RunRecord, keep: int) -> None:
        """With what is known at the end of it; its executions are those that were added.

        A run that has none leaves nothing. Only the newest `keep` runs stay.
        """
        self._patience(FINAL)
        with _explained(self._path):
            self._flush()
            with transaction(self._database):
                end_run(self._database, run)
                drop_empty(self._database, self._run)
                prune(self._database, keep, but=self._run)

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._database.close()

    def _flush(self) -> None:
        with transaction(self._database):
            for each in self._waiting:
                replace_execution(self._database, self._run, each)
        self._waiting.clear()

    def _patience(self, seconds: float) -> None:
        self._database.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")


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
        with _explained(path):
            yield database
    finally:
        database.close()


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise explanation(path, error) from error
