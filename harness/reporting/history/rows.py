"""Converts values to rows of the history, and back."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from harness.model.consumption import ModelFigures
from harness.model.tool_use import ToolFigures, of_all_tools
from harness.reporting.history.file import HistoryError
from harness.reporting.history.record import Ending, Execution, Happening, RunRecord, packed
from harness.resilience.owner import Owner

# Writes rows of the tables, always within a transaction of the caller.


def _insertion(table: str, columns: str, verb: str = "INSERT") -> str:
    """A statement that names its columns: a later version may add others while this process has the file open."""
    names = columns.split()
    return f"{verb} INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' for _ in names)})"


_RUN = _insertion(
    "runs",
    "run started finished ending exit_status commit_id branch shard note "
    "pid host process_started boot pid_namespace document",
    "INSERT OR REPLACE",
)
_EXECUTION = _insertion(
    "executions",
    "run nodeid task_id number outcome worker started seconds final_state code healed retries recoveries recovered "
    "agent takeovers model_calls failed_calls replayed_calls input_tokens cached_tokens output_tokens cost_usd "
    "unpriced_calls tool_calls tool_errors tool_failures",
)
_DOCUMENT = _insertion("documents", "execution document")
_ATTEMPT = _insertion("attempts", "execution position step act number t seconds passed code")
_FAILURE = _insertion("failures", "execution code error_type family step expected message")
_WARNING = _insertion("warnings", "execution position type step message")
_HAPPENING = _insertion("happenings", "run position at type level task_id document")
_BEFORE = "DELETE FROM executions WHERE run = ? AND nodeid = ? AND number = ?"
_END = "UPDATE runs SET finished = ?, ending = ?, exit_status = ?, note = ?, document = ? WHERE run = ?"
_OLD = "SELECT run FROM runs ORDER BY started DESC, run DESC LIMIT -1 OFFSET ?"
_EMPTY = "DELETE FROM runs WHERE run = ? AND NOT EXISTS (SELECT 1 FROM executions WHERE executions.run = runs.run)"


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """A transaction; it waits for other writers before it begins, not in between."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            with suppress(sqlite3.Error):
                database.execute("ROLLBACK")
        raise


def insert_run(database: sqlite3.Connection, run: RunRecord, owner: Owner) -> None:
    """Insert a run without its executions and events; it replaces one of the same name, with all its parts."""
    run = _without_parts(run)
    finished, ending, status, note = _ending(run)
    who = (owner.pid or None, owner.host, owner.birth or None, owner.boot, owner.namespace)
    facts: Row = (run.run, stamp(run.started), finished, ending, status, run.commit, run.branch, run.shard, note)
    database.execute(_RUN, (*facts, *who, _run_document(run)))


def insert_execution(database: sqlite3.Connection, run: str, execution: Execution) -> None:
    """Insert an execution with its attempts, warnings and failure."""
    each = _writable(execution)
    key = database.execute(_EXECUTION, _execution_row(run, each)).lastrowid or 0
    database.execute(_DOCUMENT, (key, packed(each)))
    database.executemany(_ATTEMPT, _attempt_rows(key, each))
    database.executemany(_WARNING, _warning_rows(key, each))
    if failure := _failure_row(key, each):
        database.execute(_FAILURE, failure)


def replace_execution(database: sqlite3.Connection, run: str, execution: Execution) -> None:
    """Insert an execution in place of the same one."""
    database.execute(_BEFORE, (run, execution.nodeid, execution.number))
    insert_execution(database, run, execution)


def insert_happenings(database: sqlite3.Connection, run: str, happenings: Sequence[Happening]) -> None:
    """Replace the events of a run."""
    database.execute("DELETE FROM happenings WHERE run = ?", (run,))
    rows: Iterator[Row] = (
        (run, position, stamp(each.at), each.type, each.level, each.task_id, each.model_dump_json())
        for position, each in enumerate(map(_writable, happenings))
    )
    database.executemany(_HAPPENING, rows)


def end_run(database: sqlite3.Connection, run: RunRecord) -> None:
    """Write the present state of a run and its events, in place of the old ones."""
    insert_happenings(database, run.run, run.happenings)
    run = _without_parts(run)
    database.execute(_END, (*_ending(run), _run_document(run), run.run))


def add_run(database: sqlite3.Connection, run: RunRecord, owner: Owner) -> None:
    """Add a whole run in one transaction; to an existing run, only what is new is added.

    A run without tasks is not added.
    """
    if _adds_nothing(database, run):
        return
    with transaction(database):
        if database.execute("SELECT 1 FROM runs WHERE run = ?", (run.run,)).fetchone() is None:
            insert_run(database, run, owner)
        for each in run.executions:
            replace_execution(database, run.run, each)
        end_run(database, run)
        drop_empty(database, run.run)


def _adds_nothing(database: sqlite3.Connection, run: RunRecord) -> bool:
    """Return whether the run exists unchanged, or does not exist and has no tasks."""
    there = database.execute("SELECT document FROM runs WHERE run = ?", (run.run,)).fetchone()
    if there is None:
        return not run.executions
    return bool(there["document"] == _run_document(_without_parts(run)))


def prune(database: sqlite3.Connection, keep: int, but: str = "") -> tuple[str, ...]:
    """Delete all but the newest runs; returns the deleted names. `but` stays, however old its clock makes it."""
    old = tuple(name for row in database.execute(_OLD, (keep,)) if (name := str(row["run"])) != but)
    database.executemany("DELETE FROM runs WHERE run = ?", [(run,) for run in old])
    return old


def drop_empty(database: sqlite3.Connection, run: str) -> None:
    """Delete a run without tasks."""
    database.execute(_EMPTY, (run,))


def _ending(run: RunRecord) -> tuple[str | None, str, int | None, str]:
    return (stamp(run.finished), run.ending, run.exit_status, run.note)


def _without_parts(run: RunRecord) -> RunRecord:
    """The run without its executions and events, which have rows of their own, and are many."""
    return _writable(run.model_copy(update={"executions": (), "happenings": ()}))


Row = tuple[object, ...]
Model = TypeVar("Model", bound=BaseModel)
_REST = {"executions", "happenings", "running"}


def stamp(at: datetime | None) -> str | None:
    """The time in UTC with a fixed width, so that texts sort like times."""
    try:
        return at.astimezone(UTC).isoformat(timespec="microseconds") if at else None
    except OverflowError:  # a foreign file may say the year 1 or 9999
        return at.replace(tzinfo=UTC).isoformat(timespec="microseconds") if at else None


def _writable(value: Model) -> Model:
    """The value itself; half a character (a lone surrogate, which pages do produce) is replaced by `?`."""
    try:
        value.model_dump_json()
    except (PydanticSerializationError, UnicodeEncodeError):
        text = json.dumps(value.model_dump(mode="json"), ensure_ascii=False, default=str)
        return type(value).model_validate_json(text.encode("utf-8", "replace"))
    return value


def _run_document(run: RunRecord) -> str:
    return run.model_dump_json(exclude=_REST)


def _execution_row(run: str, each: Execution) -> Row:
    record = each.record
    recoveries, used = (record.recoveries, record.used) if record else ((), ModelFigures())
    called = of_all_tools(record.tools) if record else ToolFigures()
    return (
        run,
        each.nodeid,
        each.task_id,
        each.number,
        each.outcome,
        each.worker,
        stamp(each.began),
        each.seconds,
        record.final_state if record else None,
        record.code if record else None,
        each.healed,
        record.retries if record else 0,
        len(recoveries),
        sum(worked for _, worked in recoveries),
        record.agent if record else "",
        record.takeovers if record else 0,
        used.calls,
        used.failed_calls,
        used.replayed_calls,
        used.input_tokens,
        used.cached_tokens,
        used.output_tokens,
        used.cost_usd,
        used.unpriced_calls,
        called.calls,
        called.errors,
        called.failed,
    )


def _attempt_rows(execution: int, each: Execution) -> Iterator[Row]:
    lines = each.record.steps if each.record else ()
    tries = ((line, number, found) for line in lines for number, found in enumerate(line.attempts, 1))
    for position, (line, number, found) in enumerate(tries):
        yield execution, position, line.index, line.act, number, found.t, found.seconds, found.passed, found.code


def _failure_row(execution: int, each: Execution) -> Row | None:
    """The row of a failure; None if the execution has not failed. A declared failure is one too."""
    record = each.record
    if record is None:
        return (execution, None, None, None, None, False, each.reason) if each.outcome == "failed" else None
    if record.code is None and each.outcome != "failed":
        return None
    facts = (record.code, record.error_type, record.family, record.step_index, record.expected)
    return (execution, *facts, record.message or each.reason)


def _warning_rows(execution: int, each: Execution) -> Iterator[Row]:
    for position, warning in enumerate(each.record.warnings if each.record else ()):
        step = warning.get("step_index")
        kind, message = str(warning.get("type", "")), str(warning.get("message", ""))
        yield (execution, position, kind, step if isinstance(step, int) else None, message)


@contextmanager
def readable(row: sqlite3.Row) -> Iterator[None]:
    """Raise HistoryError for a document of the run that this version cannot read."""
    try:
        yield
    except (ValidationError, zlib.error) as error:
        raise HistoryError(f"run {row['run']}: its record in the history cannot be read: {error}") from error


def run_of(row: sqlite3.Row, happenings: Iterator[Happening]) -> RunRecord:
    """The run without its executions. Raises HistoryError for a document that this version cannot read."""
    with readable(row):
        run = RunRecord.model_validate_json(row["document"])
        parts = {"happenings": tuple(happenings), "ending": ending_of(row), "running": is_running(row)}
        return run.model_copy(update=parts)


def owner_of(row: sqlite3.Row) -> Owner:
    """The process that writes a run, or wrote it; nobody if that is not known."""
    return Owner(row["pid"] or 0, row["process_started"] or 0, row["boot"], row["pid_namespace"], row["host"])


def ending_of(row: sqlite3.Row) -> Ending:
    """How the run ended. An unfinished one whose process is gone was killed, also if no later run has noted that."""
    gone = row["ending"] == "unfinished" and owner_of(row).gone
    return "killed" if gone else cast("Ending", row["ending"])


def is_running(row: sqlite3.Row) -> bool:
    """Return whether the run still runs, as far as this machine can tell."""
    return row["ending"] == "unfinished" and owner_of(row).alive


def happening_of(document: str) -> Happening:
    return Happening.model_validate_json(document)
