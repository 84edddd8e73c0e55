"""Values as rows of the history, and back."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from harness.history.file import HistoryError
from harness.history.process import Process
from harness.history.record import Execution, Happening, RunRecord

Row = tuple[object, ...]
Model = TypeVar("Model", bound=BaseModel)
_REST = {"executions", "happenings", "running"}


def stamp(at: datetime | None) -> str | None:
    """In UTC and of one width, so that text sorts as time does."""
    return at.astimezone(UTC).isoformat(timespec="microseconds") if at else None


def writable(value: Model) -> Model:
    """The value itself; one with half a character (a lone surrogate, which pages do produce) has `?` in its place."""
    try:
        value.model_dump_json()
    except (PydanticSerializationError, UnicodeEncodeError):
        text = json.dumps(value.model_dump(mode="json"), ensure_ascii=False, default=str)
        return type(value).model_validate_json(text.encode("utf-8", "replace"))
    return value


def run_document(run: RunRecord) -> str:
    return run.model_dump_json(exclude=_REST)


def execution_row(run: str, each: Execution) -> Row:
    record = each.record
    recoveries = record.recoveries if record else ()
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
    )


def packed(each: Execution) -> bytes:
    return zlib.compress(each.model_dump_json().encode())


def attempt_rows(execution: int, each: Execution) -> Iterator[Row]:
    """A row for each attempt of each step, in order."""
    lines = each.record.steps if each.record else ()
    tries = ((line, number, found) for line in lines for number, found in enumerate(line.attempts, 1))
    for position, (line, number, found) in enumerate(tries):
        yield (
            execution,
            position,
            line.index,
            line.act,
            number,
            found.t,
            found.seconds,
            found.passed,
            found.code,
        )


def failure_row(execution: int, each: Execution) -> Row | None:
    """None for an execution that has not failed; a failure that the task declares is one too."""
    record = each.record
    if record is None:
        return (execution, None, None, None, None, False, each.reason) if each.outcome == "failed" else None
    if record.code is None and each.outcome != "failed":
        return None
    return (
        execution,
        record.code,
        record.error_type,
        record.family,
        record.step_index,
        record.expected,
        record.message or each.reason,
    )


def warning_rows(execution: int, each: Execution) -> Iterator[Row]:
    for position, warning in enumerate(each.record.warnings if each.record else ()):
        step = warning.get("step_index")
        kind, message = str(warning.get("type", "")), str(warning.get("message", ""))
        yield (execution, position, kind, step if isinstance(step, int) else None, message)


def happening_row(run: str, position: int, each: Happening) -> Row:
    return (run, position, stamp(each.at), each.type, each.level, each.task_id, each.model_dump_json())


def run_of(row: sqlite3.Row, executions: Iterator[Execution], happenings: Iterator[Happening]) -> RunRecord:
    """The whole value. Raises HistoryError for a document that this version cannot read."""
    try:
        run = RunRecord.model_validate_json(row["document"])
        parts = {"executions": tuple(executions), "happenings": tuple(happenings)}
        return run.model_copy(update={**parts, "running": is_running(row)})
    except (ValidationError, zlib.error) as error:
        raise HistoryError(f"run {row['run']}: what the history has of it cannot be read: {error}") from error


def is_running(row: sqlite3.Row) -> bool:
    """Whether it still goes on, as far as this machine can tell."""
    return row["ending"] == "unfinished" and Process.of_row(row).alive


def execution_of(document: bytes) -> Execution:
    return Execution.model_validate_json(zlib.decompress(document))


def happening_of(document: str) -> Happening:
    return Happening.model_validate_json(document)
