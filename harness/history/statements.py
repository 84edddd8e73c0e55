"""What is written into the tables; all of it inside a transaction of the caller's."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from harness.history.process import Process
from harness.history.record import Execution, Happening, RunRecord
from harness.history.rows import (
    Row,
    attempt_rows,
    execution_row,
    failure_row,
    happening_row,
    packed,
    run_document,
    stamp,
    warning_rows,
    writable,
)

_RUN = "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_EXECUTION = "INSERT INTO executions VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_BEFORE = "DELETE FROM executions WHERE run = ? AND nodeid = ? AND number = ?"
_ATTEMPT = "INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_FAILURE = "INSERT INTO failures VALUES (?, ?, ?, ?, ?, ?, ?)"
_WARNING = "INSERT INTO warnings VALUES (?, ?, ?, ?, ?)"
_HAPPENING = "INSERT INTO happenings VALUES (?, ?, ?, ?, ?, ?, ?)"
_END = "UPDATE runs SET finished = ?, ending = ?, exit_status = ?, note = ?, document = ? WHERE run = ?"
_OLD = "SELECT run FROM runs ORDER BY started DESC, run DESC LIMIT -1 OFFSET ?"
_EMPTY = "DELETE FROM runs WHERE run = ? AND NOT EXISTS (SELECT 1 FROM executions WHERE executions.run = runs.run)"


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; waits for other writers before it begins, not in between."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            with suppress(sqlite3.Error):
                database.execute("ROLLBACK")
        raise


def insert_run(database: sqlite3.Connection, run: RunRecord, process: Process) -> None:
    """Without its executions and happenings; in the place of one of the same name, and of all that it had."""
    run = _without_parts(run)
    finished, ending, status, note = _ending(run)
    who = (process.pid, process.host, process.started)
    facts: Row = (run.run, stamp(run.started), finished, ending, status, run.commit, run.branch, run.shard, note)
    database.execute(_RUN, (*facts, *who, run_document(run)))


def insert_execution(database: sqlite3.Connection, run: str, execution: Execution) -> None:
    """With its attempts, warnings and failure."""
    each = writable(execution)
    key = database.execute(_EXECUTION, execution_row(run, each)).lastrowid or 0
    database.execute("INSERT INTO documents VALUES (?, ?)", (key, packed(each)))
    database.executemany(_ATTEMPT, attempt_rows(key, each))
    database.executemany(_WARNING, warning_rows(key, each))
    if failure := failure_row(key, each):
        database.execute(_FAILURE, failure)


def replace_execution(database: sqlite3.Connection, run: str, execution: Execution) -> None:
    """The same, in the place of what was known of it before."""
    database.execute(_BEFORE, (run, execution.nodeid, execution.number))
    insert_execution(database, run, execution)


def insert_happenings(database: sqlite3.Connection, run: str, happenings: Sequence[Happening]) -> None:
    """In the place of those that it had."""
    database.execute("DELETE FROM happenings WHERE run = ?", (run,))
    rows = (happening_row(run, position, writable(each)) for position, each in enumerate(happenings))
    database.executemany(_HAPPENING, rows)


def end_run(database: sqlite3.Connection, run: RunRecord) -> None:
    """What is known of it now, and what happened in it, in the place of what was there."""
    insert_happenings(database, run.run, run.happenings)
    run = _without_parts(run)
    database.execute(_END, (*_ending(run), run_document(run), run.run))


def add_run(database: sqlite3.Connection, run: RunRecord, process: Process) -> None:
    """Whole, in one transaction; of one that is there already, what is known now is added, once.

    One that no task ran in leaves nothing.
    """
    if _adds_nothing(database, run):
        return
    with transaction(database):
        if database.execute("SELECT 1 FROM runs WHERE run = ?", (run.run,)).fetchone() is None:
            insert_run(database, run, process)
        for each in run.executions:
            replace_execution(database, run.run, each)
        end_run(database, run)
        drop_empty(database, run.run)


def _adds_nothing(database: sqlite3.Connection, run: RunRecord) -> bool:
    """Whether it is there as it is, or is not there and has no tasks."""
    there = database.execute("SELECT document FROM runs WHERE run = ?", (run.run,)).fetchone()
    if there is None:
        return not run.executions
    return bool(there["document"] == run_document(_without_parts(run)))


def prune(database: sqlite3.Connection, keep: int, but: str = "") -> tuple[str, ...]:
    """Only the newest runs stay; the names of those that went. `but` stays, however old its clock makes it."""
    old = tuple(name for row in database.execute(_OLD, (keep,)) if (name := str(row["run"])) != but)
    database.executemany("DELETE FROM runs WHERE run = ?", [(run,) for run in old])
    return old


def drop_empty(database: sqlite3.Connection, run: str) -> None:
    """A run that no task ran in."""
    database.execute(_EMPTY, (run,))


def _ending(run: RunRecord) -> tuple[str | None, str, int | None, str]:
    return (stamp(run.finished), run.ending, run.exit_status, run.note)


def _without_parts(run: RunRecord) -> RunRecord:
    """They have rows of their own, and are many."""
    return writable(run.model_copy(update={"executions": (), "happenings": ()}))
