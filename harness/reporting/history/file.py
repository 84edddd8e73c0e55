"""The file of the history: made, recognized, refused, and put aside if it is certainly broken."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from harness.reporting.files import shown_path
from harness.resilience.sqlite_file import OtherFileError, SqliteKind, code_of, connect, is_broken, move_aside

# The tables of the history. Columns are for queries; `document` has the whole value, so that nothing is lost.

_TABLES = (
    """CREATE TABLE runs (
    run TEXT PRIMARY KEY, started TEXT NOT NULL, finished TEXT, ending TEXT NOT NULL, exit_status INTEGER,
    commit_id TEXT NOT NULL, branch TEXT NOT NULL, shard TEXT NOT NULL, note TEXT NOT NULL,
    pid INTEGER, host TEXT NOT NULL, process_started REAL,
    document TEXT NOT NULL,
    boot TEXT NOT NULL, pid_namespace INTEGER NOT NULL
)""",
    "CREATE INDEX runs_by_time ON runs (started)",
    """CREATE TABLE executions (
    id INTEGER PRIMARY KEY, run TEXT NOT NULL REFERENCES runs ON DELETE CASCADE,
    nodeid TEXT NOT NULL, task_id TEXT NOT NULL, number INTEGER NOT NULL, outcome TEXT NOT NULL,
    worker TEXT NOT NULL, started TEXT, seconds REAL NOT NULL,
    final_state TEXT, code TEXT, healed INTEGER NOT NULL,
    retries INTEGER NOT NULL, recoveries INTEGER NOT NULL, recovered INTEGER NOT NULL,
    agent TEXT NOT NULL, takeovers INTEGER NOT NULL,
    model_calls INTEGER NOT NULL, failed_calls INTEGER NOT NULL, replayed_calls INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL, unpriced_calls INTEGER NOT NULL,
    tool_calls INTEGER NOT NULL, tool_errors INTEGER NOT NULL, tool_failures INTEGER NOT NULL
)""",
    "CREATE INDEX executions_by_run ON executions (run, nodeid)",
    "CREATE INDEX executions_by_node ON executions (nodeid)",
    """CREATE TABLE documents (
    execution INTEGER PRIMARY KEY REFERENCES executions ON DELETE CASCADE, document BLOB NOT NULL
)""",
    """CREATE TABLE attempts (
    execution INTEGER NOT NULL REFERENCES executions ON DELETE CASCADE, position INTEGER NOT NULL,
    step INTEGER NOT NULL, act TEXT NOT NULL, number INTEGER NOT NULL,
    t REAL NOT NULL, seconds REAL NOT NULL, passed INTEGER NOT NULL, code TEXT,
    PRIMARY KEY (execution, position)
) WITHOUT ROWID""",
    """CREATE TABLE failures (
    execution INTEGER PRIMARY KEY REFERENCES executions ON DELETE CASCADE,
    code TEXT, error_type TEXT, family TEXT, step INTEGER, expected INTEGER NOT NULL, message TEXT NOT NULL
)""",
    """CREATE TABLE warnings (
    execution INTEGER NOT NULL REFERENCES executions ON DELETE CASCADE, position INTEGER NOT NULL,
    type TEXT NOT NULL, step INTEGER, message TEXT NOT NULL,
    PRIMARY KEY (execution, position)
) WITHOUT ROWID""",
    """CREATE TABLE happenings (
    run TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, position INTEGER NOT NULL,
    at TEXT NOT NULL, type TEXT NOT NULL, level TEXT NOT NULL, task_id TEXT NOT NULL, document TEXT NOT NULL,
    PRIMARY KEY (run, position)
) WITHOUT ROWID""",
)
KIND: Final = SqliteKind(application=int.from_bytes(b"TSHI"), schema=4, tables=_TABLES)

HISTORY: Final = Path(".harness/history.sqlite3")
"""The path below the project's root."""
PATIENCE: Final = 5.0
"""Seconds that a reader, and a run that begins or ends, waits for another process."""
_SHUT = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR}
_NOT_NOW = {
    sqlite3.SQLITE_BUSY: "another process holds the history ({}); try again in a moment",
    sqlite3.SQLITE_LOCKED: "another process holds the history ({}); try again in a moment",
    sqlite3.SQLITE_FULL: "there is no space for the history ({}); free space on the disk",
}
_OTHERS = "It is left as it is"


class HistoryError(ValueError):
    """The history, or a run in it, is not available; the text names the file, the problem and the remedy."""


class NotNowError(HistoryError):
    """It cannot be written at the moment: another process holds it, or the disk is full."""


class BrokenFileError(HistoryError):
    """It is certainly no database, or a damaged one."""


def place_of(root: Path) -> Path:
    """The path of a project's history, or of one in a folder that a CI system kept (`history.sqlite3` at its top)."""
    usual, plain = root / HISTORY, root / HISTORY.name
    return plain if plain.is_file() and not usual.exists() else usual


def open_writing(path: Path, patience: float = PATIENCE) -> sqlite3.Connection:
    """Open the file, or make it. Raises HistoryError; BrokenFileError for a damaged one."""
    with name_file_in_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        return _open_database(f"{path.absolute().as_uri()}?mode=rwc", patience, make=True)


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file for reading, while others may write to it. Raises HistoryError, also for errors inside."""
    if not path.is_file():
        raise HistoryError(
            f"{shown_path(path)}: no history yet; a run of pytest with tasks begins it "
            "(unless `[tool.harness] history_runs = 0`)"
        )
    with name_file_in_errors(path), closing(_for_reading(path)) as database:
        yield database


def put_aside(root: Path, mark: str) -> str:
    """Move a broken file away, with SQLite's files next to it; nothing is deleted. Returns a line about it.

    Raises HistoryError if it cannot be moved.
    """
    path = place_of(root)
    with name_file_in_errors(path):
        away = move_aside(path, mark)
    return f"{shown_path(path)} was damaged: it is kept as {away.name}, and a new history begins"


def _for_reading(path: Path) -> sqlite3.Connection:
    """Open for reading. In a readonly folder, SQLite opens a file only if it is told that no other process writes."""
    uri = path.absolute().as_uri()
    try:
        return _open_database(f"{uri}?mode=rw", PATIENCE)
    except sqlite3.OperationalError as error:
        if code_of(error) not in _SHUT:
            raise
        return _open_database(f"{uri}?mode=ro&immutable=1", PATIENCE)


def _open_database(uri: str, patience: float, *, make: bool = False) -> sqlite3.Connection:
    database = connect(uri, patience)
    try:
        if make:
            KIND.prepare(database, patience)
        else:
            KIND.is_made(database)
        database.execute("PRAGMA foreign_keys = ON")
        database.execute("PRAGMA synchronous = NORMAL")
        if not make:
            database.execute("PRAGMA query_only = ON")
            database.execute("SELECT 1 FROM runs LIMIT 1").fetchone()
    except BaseException:
        database.close()
        raise
    return database


@contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and the disk into errors that name the file."""
    try:
        yield
    except OtherFileError as error:
        raise HistoryError(_refusal(path, error.version)) from error
    except (sqlite3.Error, OSError) as error:
        raise _explanation(path, error) from error
    except OverflowError as error:
        raise HistoryError(f"{shown_path(path)}: a number is too large for the history: {error}") from error


def _refusal(path: Path, version: int | None) -> str:
    """Why a database is not this history; `version`: its schema, if it is a history."""
    if version is None:
        return (
            f"{shown_path(path)}: expected the history of runs, found a database of something else. {_OTHERS}: "
            "move it away to begin a history"
        )
    return (
        f"{shown_path(path)}: the history has schema {version}, and this version of pytest-taskspec knows "
        f"{KIND.schema}. {_OTHERS}: use the version that wrote it, or move the file away to begin a new history"
    )


def _explanation(path: Path, error: sqlite3.Error | OSError) -> HistoryError:
    """The same error in words for people."""
    file = shown_path(path)
    if not isinstance(error, sqlite3.Error):
        said = error.strerror or str(error)
        return HistoryError(f"{file}: the history cannot be kept here: {said}; free space, or make its folder writable")
    if is_broken(error):
        return BrokenFileError(f"{file}: the history is damaged ({error}); move it away to begin a new one")
    if why := _NOT_NOW.get(code_of(error)):
        return NotNowError(f"{file}: {why.format(error)}")
    if code_of(error) in _SHUT:
        return HistoryError(
            f"{file}: the history cannot be used: {error}; free space, or make the file and its folder writable"
        )
    return HistoryError(f"{file}: the history cannot be used: {error}")
