"""The file of the history: made, recognized, refused, and put aside if it is certainly broken."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from harness.reporting.files import shown_path
from harness.resilience.sqlite_file import code_of, connect, is_broken, move_aside, number_of, to_wal

# The tables of the history. Columns are for queries; `document` has the whole value, so that nothing is lost.

SCHEMA: Final = 4
"""The version of the schema; it is the file's `user_version`."""
APPLICATION: Final = 0x54534849
"""The `application_id` of the file: "TSHI" in ASCII."""

_Columns = Mapping[str, tuple[str, str]]
"""Name of a column -> its type and default."""
_ADDED: Final[Mapping[str, Mapping[int, _Columns]]] = {
    "executions": {
        2: {
            "agent": ("TEXT", "''"),
            "takeovers": ("INTEGER", "0"),
            "model_calls": ("INTEGER", "0"),
            "failed_calls": ("INTEGER", "0"),
            "replayed_calls": ("INTEGER", "0"),
            "input_tokens": ("INTEGER", "0"),
            "cached_tokens": ("INTEGER", "0"),
            "output_tokens": ("INTEGER", "0"),
            "cost_usd": ("REAL", "0"),
            "unpriced_calls": ("INTEGER", "0"),
        },
        3: {
            "tool_calls": ("INTEGER", "0"),
            "tool_errors": ("INTEGER", "0"),
            "tool_failures": ("INTEGER", "0"),
        },
    },
    "runs": {
        4: {
            "boot": ("TEXT", "''"),
            "pid_namespace": ("INTEGER", "0"),
        },
    },
}
"""Table -> version of the schema -> what it has added.

A writer adds it to an old file, a reader sees it with its defaults.
"""


def _added_since(version: int, table: str) -> _Columns:
    """The columns of the table that a file of this version lacks."""
    return {name: how for each, columns in _ADDED[table].items() if each > version for name, how in columns.items()}


def _declared(columns: _Columns) -> list[str]:
    return [f"{name} {kind} NOT NULL DEFAULT {value}" for name, (kind, value) in columns.items()]


TABLES: Final = (
    f"""CREATE TABLE runs (
    run TEXT PRIMARY KEY,
    started TEXT NOT NULL,
    finished TEXT,
    ending TEXT NOT NULL,
    exit_status INTEGER,
    commit_id TEXT NOT NULL,
    branch TEXT NOT NULL,
    shard TEXT NOT NULL,
    note TEXT NOT NULL,
    pid INTEGER,
    host TEXT NOT NULL,
    process_started REAL,
    document TEXT NOT NULL,
    {",".join(_declared(_added_since(1, "runs")))}
)""",
    "CREATE INDEX runs_by_time ON runs (started)",
    f"""CREATE TABLE executions (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL REFERENCES runs ON DELETE CASCADE,
    nodeid TEXT NOT NULL,
    task_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    worker TEXT NOT NULL,
    started TEXT,
    seconds REAL NOT NULL,
    final_state TEXT,
    code TEXT,
    healed INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    recoveries INTEGER NOT NULL,
    recovered INTEGER NOT NULL,
    {",".join(_declared(_added_since(1, "executions")))}
)""",
    "CREATE INDEX executions_by_run ON executions (run, nodeid)",
    "CREATE INDEX executions_by_node ON executions (nodeid)",
    """CREATE TABLE documents (
    execution INTEGER PRIMARY KEY REFERENCES executions ON DELETE CASCADE,
    document BLOB NOT NULL
)""",
    """CREATE TABLE attempts (
    execution INTEGER NOT NULL REFERENCES executions ON DELETE CASCADE,
    position INTEGER NOT NULL,
    step INTEGER NOT NULL,
    act TEXT NOT NULL,
    number INTEGER NOT NULL,
    t REAL NOT NULL,
    seconds REAL NOT NULL,
    passed INTEGER NOT NULL,
    code TEXT,
    PRIMARY KEY (execution, position)
) WITHOUT ROWID""",
    """CREATE TABLE failures (
    execution INTEGER PRIMARY KEY REFERENCES executions ON DELETE CASCADE,
    code TEXT,
    error_type TEXT,
    family TEXT,
    step INTEGER,
    expected INTEGER NOT NULL,
    message TEXT NOT NULL
)""",
    """CREATE TABLE warnings (
    execution INTEGER NOT NULL REFERENCES executions ON DELETE CASCADE,
    position INTEGER NOT NULL,
    type TEXT NOT NULL,
    step INTEGER,
    message TEXT NOT NULL,
    PRIMARY KEY (execution, position)
) WITHOUT ROWID""",
    """CREATE TABLE happenings (
    run TEXT NOT NULL REFERENCES runs ON DELETE CASCADE,
    position INTEGER NOT NULL,
    at TEXT NOT NULL,
    type TEXT NOT NULL,
    level TEXT NOT NULL,
    task_id TEXT NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (run, position)
) WITHOUT ROWID""",
)

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
        return _open_database(f"{path.absolute().as_uri()}?mode=rwc", path, patience, make=True)


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
        return _open_database(f"{uri}?mode=rw", path, PATIENCE)
    except sqlite3.OperationalError as error:
        if code_of(error) not in _SHUT:
            raise
        return _open_database(f"{uri}?mode=ro&immutable=1", path, PATIENCE)


def _open_database(uri: str, path: Path, patience: float, *, make: bool = False) -> sqlite3.Connection:
    database = connect(uri, patience)
    try:
        version = _looked_at(database, path)
        if make and version != SCHEMA:
            to_wal(database, patience)
            _make(database, path)
        elif 0 < version < SCHEMA:
            _show_added(database, version)
        database.execute("PRAGMA foreign_keys = ON")
        database.execute("PRAGMA synchronous = NORMAL")
        if not make:
            database.execute("PRAGMA query_only = ON")
            database.execute("SELECT 1 FROM runs LIMIT 1").fetchone()
    except BaseException:
        database.close()
        raise
    return database


def _looked_at(database: sqlite3.Connection, path: Path) -> int:
    """`_version_of` in one transaction: a file that another process is just making is seen complete or not at all."""
    database.execute("BEGIN")
    try:
        return _version_of(database, path)
    finally:
        if database.in_transaction:  # a full disk has already ended it
            database.execute("ROLLBACK")


def _version_of(database: sqlite3.Connection, path: Path) -> int:
    """The schema of a history of ours, 0 for an empty file. Raises HistoryError for anything else."""
    application, version = number_of(database, "application_id"), number_of(database, "user_version")
    if application == APPLICATION and 1 <= version <= SCHEMA:
        return version
    if application == APPLICATION:
        raise HistoryError(
            f"{shown_path(path)}: the history has schema {version}, and this version of pytest-taskspec knows "
            f"{SCHEMA}. {_OTHERS}: use the version that wrote it, or move the file away to begin a new history"
        )
    if application or version or database.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise HistoryError(
            f"{shown_path(path)}: expected the history of runs, found a database of something else. {_OTHERS}: "
            "move it away to begin a history"
        )
    return 0


def _make(database: sqlite3.Connection, path: Path) -> None:
    """Make the tables, or what they lack. Several processes may do this at once: the second finds it done."""
    database.execute("BEGIN IMMEDIATE")
    version = _version_of(database, path)
    if version != SCHEMA:
        added = (
            f"ALTER TABLE {table} ADD COLUMN {column}"
            for table in _ADDED
            for column in _declared(_added_since(version, table))
        )
        for statement in added if version else TABLES:
            database.execute(statement)
        database.execute(f"PRAGMA application_id = {APPLICATION}")
        database.execute(f"PRAGMA user_version = {SCHEMA}")
    database.execute("COMMIT")


def _show_added(database: sqlite3.Connection, version: int) -> None:
    """Show the tables of an old file with the columns that they lack: a reader never changes a file."""
    for table in _ADDED:
        if added := _added_since(version, table):
            values = ", ".join(f"{value} AS {name}" for name, (_, value) in added.items())
            database.execute(f"CREATE TEMP VIEW {table} AS SELECT *, {values} FROM main.{table}")  # noqa: S608 - ours


@contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and the disk into errors that name the file."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise _explanation(path, error) from error
    except OverflowError as error:
        raise HistoryError(f"{shown_path(path)}: a number is too large for the history: {error}") from error


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
