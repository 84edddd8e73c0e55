"""Writes runs into the history: task by task during a run, or a whole run at once."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.model.events import MODEL
from harness.reporting.files import read_json, shown_path, write_json
from harness.reporting.history.file import (
    PATIENCE,
    HistoryError,
    NotNowError,
    name_file_in_errors,
    open_writing,
    place_of,
)
from harness.reporting.history.record import Execution, Happening, RunRecord, checkout_of
from harness.reporting.history.rows import (
    add_run,
    drop_empty,
    end_run,
    insert_execution,
    insert_happenings,
    insert_run,
    owner_of,
    prune,
    replace_execution,
    transaction,
)
from harness.reporting.telemetry.log import Tail, events_of, level_name
from harness.reporting.telemetry.record import Record, describe
from harness.resilience.events import AGENT, FellBack
from harness.resilience.owner import Owner

# Runs whose process has ended without finishing them: a later run notes that, and saves what it can find.

_UNFINISHED = "SELECT * FROM runs WHERE ending = 'unfinished' AND note = '' AND pid IS NOT NULL"


def _note_abandoned(database: sqlite3.Connection, root: Path) -> None:
    """Note unfinished runs whose process has ended; call it in a transaction. Other machines' runs are skipped."""
    for row in database.execute(_UNFINISHED).fetchall():
        owner = owner_of(row)
        if owner.gone:
            run = RunRecord.model_validate_json(row["document"])
            note = f"its process (pid {owner.pid}) has died; what it had done until then is kept"
            found = happenings_of(root, run.run)
            end_run(database, run.model_copy(update={"ending": "killed", "note": note, "happenings": found}))


# The record of a run at its beginning and at its end, of whichever kind it is.


def begun_record(
    root: Path, run: str, arguments: Iterable[str], environment: Mapping[str, str], **more: Any
) -> RunRecord:
    """The record of a run that begins now, with its checkout and its CI system."""
    from harness.reporting.allure.files import executor_of  # who only reads the history needs nothing of Allure

    checkout = checkout_of(root, os.environ)
    return RunRecord(
        run=run,
        started=datetime.now(UTC),
        project=root.name,
        arguments=tuple(arguments),
        environment=dict(environment),
        commit=checkout.commit,
        branch=checkout.branch,
        ci=executor_of(os.environ),
        **more,
    )


def ended_record(
    root: Path, run: RunRecord, status: int | None, environment: Mapping[str, str], *, interrupted: bool, **more: Any
) -> RunRecord:
    """The record of a run that ends now with this exit status, and what happened around its tasks."""
    end = {"finished": datetime.now(UTC), "ending": "interrupted" if interrupted else "finished"}
    found = {"environment": dict(environment), "happenings": happenings_of(root, run.run)}
    return run.model_copy(update={**end, "exit_status": status, **found, **more})


# Events around the tasks of a run, from its event log.

_OF_TASKS = {
    *("step", "task", "model-asked", "model-answered", "tool-called", "tool-answered"),
    *("run-begun", "task-begun", "step-begun"),
}
"""Types of events that the record of a task contains already."""
_OF_ATTEMPTS = {"retry", "failed", "recovered", "fallback"}
"""Types of events that the attempts of a step contain already; without a step, they come from a service or a setup."""


def happenings_of(root: Path, run: str) -> tuple[Happening, ...]:
    """The events of a run in the order of its log, which several processes write; empty if it cannot be read."""
    found = []
    try:
        for each in filter(_is_around, Tail(events_of(root, run), run).records()):
            document = each.as_json(level_name(each.event))
            stamp = {name: document.pop(name) for name in ("at", "type", "level", "task_id", "worker")}
            del document["run"]
            found.append(Happening.model_validate({**stamp, "text": describe(each.event), "details": document}))
    except OSError:
        return ()
    return tuple(found)


def _is_around(record: Record) -> bool:
    kind, event = record.event.type, record.event
    if isinstance(event, FellBack) and (event.name == AGENT or event.name.startswith(MODEL)):
        return True  # no attempt shows that another agent or model went on
    return kind not in _OF_TASKS and not (record.step is not None and kind in _OF_ATTEMPTS)


# Records that a run could not write, because another process locked the history: they are kept next to it, and added
# later.

READER_PATIENCE = 1.0
"""Seconds that a reader waits for a process that still holds it."""


def keep_beside(root: Path, run: RunRecord) -> Path:
    """Write what of the run is not in the history into a file. Raises HistoryError."""
    path = place_of(root)
    file = path.with_name(f"{path.name}.unwritten-{run.run}.json")
    try:
        write_json(file, run.model_dump(mode="json"))
    except OSError as error:
        why = f"the rows that the history could not take cannot be written here either: {error.strerror or error}"
        raise HistoryError(f"{shown_path(file)}: {why}; free space on the disk") from error
    return file


def import_pending_runs(root: Path) -> None:
    """Add the runs in such files to the history. A run that still cannot be written stays for the next time."""
    path = place_of(root)
    for file in sorted(path.parent.glob(f"{path.name}.unwritten-*.json")):
        try:
            run = RunRecord.model_validate(read_json(file))
            with _writing(root, READER_PATIENCE) as database:
                add_run(database, run, Owner())
        except NotNowError:
            return
        except (OSError, ValueError):
            continue  # no file of this harness, or a history whose error is reported elsewhere
        with suppress(OSError):
            file.unlink(missing_ok=True)


QUICK = 0.25
"""Seconds for which a task waits for another process; after that its row is written with the next one."""
FINAL = 10.0
"""Seconds that the end of a run waits."""


class RunWriter:
    """Writes one running run. Use it from one thread. All methods raise HistoryError for a file that cannot be used.

    While another process holds the file, or the disk is full, nothing is raised: the rows wait.
    """

    def __init__(self, root: Path, run: RunRecord, owner: Owner) -> None:
        """Insert the run, unfinished."""
        self._root = root
        self._path = place_of(root)
        self._run = run
        self._owner = owner
        self._waiting: list[Execution] = []
        self._database: sqlite3.Connection | None = None
        import_pending_runs(root)
        with suppress(NotNowError):
            self._open_database(PATIENCE)

    def add(self, execution: Execution) -> None:
        """Write an execution at once, in place of the same one; if that is impossible at the moment, with the next."""
        self._waiting.append(execution)
        try:
            with suppress(NotNowError):
                self._write(QUICK)
        except BaseException:
            self._waiting.remove(execution)  # it must not keep the next ones out
            raise

    def finish(self, run: RunRecord, keep: int) -> str:
        """Write the final state of the run; its executions are those that were added. Returns a message, or "".

        A run without tasks is not kept, unless it had files that could not be collected. Only the newest `keep` runs
        stay. What cannot be written even now is put into a file next to the history (`import_pending_runs`).
        """
        try:
            database = self._write(FINAL)
            with name_file_in_errors(self._path), transaction(database):
                end_run(database, run)
                if not run.uncollected:  # else the run before it would look like the last one
                    drop_empty(database, run.run)
                prune(database, keep, but=run.run)
        except NotNowError as error:
            file = keep_beside(self._root, run.model_copy(update={"executions": tuple(self._waiting)}))
            tasks = "1 task" if len(self._waiting) == 1 else f"{len(self._waiting)} tasks"
            kept = f"the rows that it could not take ({tasks}) are in {file.name}"
            return f"{error}. {kept}; the next run or `harness history` adds them"
        return ""

    def close(self) -> None:
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()

    def _write(self, patience: float) -> sqlite3.Connection:
        """Write the waiting rows. Raises HistoryError."""
        database = self._open_database(patience)
        with name_file_in_errors(self._path):
            database.execute(f"PRAGMA busy_timeout = {int(patience * 1000)}")
            with transaction(database):
                for each in self._waiting:
                    replace_execution(database, self._run.run, each)
        self._waiting.clear()
        return database

    def _open_database(self, patience: float) -> sqlite3.Connection:
        """Open the database and insert the run. Raises HistoryError."""
        if self._database is not None:
            return self._database
        database = open_writing(self._path, patience)
        try:
            with name_file_in_errors(self._path), transaction(database):
                _note_abandoned(database, self._root)
                insert_run(database, self._run, self._owner)
            with suppress(sqlite3.Error):  # so that the file alone has the tables, even if the run is killed
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except BaseException:
            database.close()
            raise
        self._database = database
        return database


def save_run(root: Path, run: RunRecord) -> None:
    """Write a whole run into a project's history, in place of one of the same name. Raises HistoryError."""
    with _writing(root) as database, transaction(database):
        insert_run(database, run, Owner())
        for each in run.executions:
            insert_execution(database, run.run, each)
        insert_happenings(database, run.run, run.happenings)


def drop_old_runs(root: Path, keep: int) -> tuple[str, ...]:
    """Delete all but the newest `keep` runs and free their space; returns the deleted names. Raises HistoryError."""
    with _writing(root) as database:
        with transaction(database):
            gone = prune(database, keep)
        if gone:
            database.execute("VACUUM")
        return gone


@contextmanager
def _writing(root: Path, patience: float = PATIENCE) -> Iterator[sqlite3.Connection]:
    path = place_of(root)
    with name_file_in_errors(path), closing(open_writing(path, patience)) as database:
        yield database
