"""The file of the history: made, recognized, refused, and put aside when it is certainly broken."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from harness.reporting.files import shown_path

# The tables of the history. Columns are what is asked for; `document` has the whole value, so nothing is lost.

SCHEMA: Final = 1
"""Its number is the file's `user_version`."""
APPLICATION: Final = 0x54534849
"""`application_id`: "TSHI"."""

TABLES: Final = (
    """CREATE TABLE runs (
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
    document TEXT NOT NULL
)""",
    "CREATE INDEX runs_by_time ON runs (started)",
    """CREATE TABLE executions (
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
    recovered INTEGER NOT NULL
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
"""Below the project's root."""
PATIENCE: Final = 5.0
"""Seconds that a reader, and a run that begins or ends, waits for another process."""
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_SHUT = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR}
_NOT_NOW = {
    sqlite3.SQLITE_BUSY: "another process holds the history ({}); try again in a moment",
    sqlite3.SQLITE_LOCKED: "another process holds the history ({}); try again in a moment",
    sqlite3.SQLITE_FULL: "no room is left for the history ({}); make room on its disk",
}
_OTHERS = "It is left as it is"


class HistoryError(ValueError):
    """The history, or a run in it, cannot be had; the text names the file, what is wrong, and how to mend it."""


class NotNowError(HistoryError):
    """It cannot be written for now: another process holds it, or the disk is full."""


class BrokenFileError(HistoryError):
    """It is certainly no database, or a damaged one."""


def place_of(root: Path) -> Path:
    """The history of a project, or of a folder that a CI system kept of one (`history.sqlite3` at its top)."""
    usual, plain = root / HISTORY, root / HISTORY.name
    return plain if plain.is_file() and not usual.exists() else usual


def open_writing(path: Path, patience: float = PATIENCE) -> sqlite3.Connection:
    """The file, made if it is not there. Raises HistoryError, BrokenFileError for one that is damaged."""
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        return _opened(f"{path.absolute().as_uri()}?mode=rwc", path, patience, make=True)


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """The file for reading, while others may write to it. Raises HistoryError, also for what fails inside."""
    if not path.is_file():
        raise HistoryError(
            f"{shown_path(path)}: no history yet; a run of pytest with tasks begins it "
            "(unless `[tool.harness] history_runs = 0`)"
        )
    with explained(path), closing(_for_reading(path)) as database:
        yield database


def put_aside(root: Path, mark: str) -> str:
    """A broken file goes out of the way, with what SQLite keeps beside it, and nothing is deleted; a line that says so.

    Raises HistoryError when it cannot be moved.
    """
    path = place_of(root)
    away = path.with_name(f"{path.name}.broken-{mark}")
    with explained(path):
        for suffix in ("", "-wal", "-shm"):
            beside = path.with_name(path.name + suffix)
            if beside.exists():
                beside.rename(away.with_name(away.name + suffix))
    return f"{shown_path(path)} was damaged: it is kept as {away.name}, and a new history begins"


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process is in the way for now."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _in_the_way(error: BaseException) -> bool:
    return isinstance(error, sqlite3.Error) and is_busy(error)


def is_broken(error: sqlite3.Error) -> bool:
    return _code(error) in _BROKEN


def _for_reading(path: Path) -> sqlite3.Connection:
    """In a folder that cannot be written to, SQLite reads a file only when told that nobody else writes."""
    uri = path.absolute().as_uri()
    try:
        return _opened(f"{uri}?mode=rw", path, PATIENCE)
    except sqlite3.OperationalError as error:
        if _code(error) not in _SHUT:
            raise
        return _opened(f"{uri}?mode=ro&immutable=1", path, PATIENCE)


def _opened(uri: str, path: Path, patience: float, *, make: bool = False) -> sqlite3.Connection:
    database = sqlite3.connect(uri, timeout=patience, isolation_level=None, check_same_thread=False, uri=True)
    try:
        database.row_factory = sqlite3.Row
        if not _looked_at(database, path) and make:
            _to_wal(database, patience)
            _make(database, path)
        database.execute("PRAGMA foreign_keys = ON")
        database.execute("PRAGMA synchronous = NORMAL")
        if not make:
            database.execute("PRAGMA query_only = ON")
            database.execute("SELECT 1 FROM runs LIMIT 1").fetchone()
    except BaseException:
        database.close()
        raise
    return database


def _looked_at(database: sqlite3.Connection, path: Path) -> bool:
    """`_known` of one moment: another process that makes the file between two of its questions is seen whole or not."""
    database.execute("BEGIN")
    try:
        return _known(database, path)
    finally:
        if database.in_transaction:  # a full disk has ended it already
            database.execute("ROLLBACK")


def _known(database: sqlite3.Connection, path: Path) -> bool:
    """Whether it is ours; False: there is nothing in it yet. Raises HistoryError for anything else."""
    application, version = _number(database, "application_id"), _number(database, "user_version")
    if application == APPLICATION and version == SCHEMA:
        return True
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
    return False


def _to_wal(database: sqlite3.Connection, patience: float) -> None:
    """Where the disk can do it. SQLite does not wait for the change of mode as it does for a write: we ask again."""
    again = Retrying(
        stop=stop_after_delay(patience), wait=wait_fixed(0.01), retry=retry_if_exception(_in_the_way), reraise=True
    )
    again(database.execute, "PRAGMA journal_mode = WAL")


def _make(database: sqlite3.Connection, path: Path) -> None:
    """Several processes may do this at once: the second finds it done."""
    database.execute("BEGIN IMMEDIATE")
    if not _known(database, path):
        for table in TABLES:
            database.execute(table)
        database.execute(f"PRAGMA application_id = {APPLICATION}")
        database.execute(f"PRAGMA user_version = {SCHEMA}")
    database.execute("COMMIT")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """What SQLite and the disk say, as an error that names the file."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise _explanation(path, error) from error


def _explanation(path: Path, error: sqlite3.Error | OSError) -> HistoryError:
    """The same in words for people."""
    file = shown_path(path)
    if not isinstance(error, sqlite3.Error):
        said = error.strerror or str(error)
        return HistoryError(f"{file}: the history cannot be kept here: {said}; make room, or its folder writable")
    if is_broken(error):
        return BrokenFileError(f"{file}: the history is damaged ({error}); move it away to begin a new one")
    if why := _NOT_NOW.get(_code(error)):
        return NotNowError(f"{file}: {why.format(error)}")
    if _code(error) in _SHUT:
        return HistoryError(f"{file}: the history cannot be used: {error}; make room, or it and its folder writable")
    return HistoryError(f"{file}: the history cannot be used: {error}")


def _number(database: sqlite3.Connection, pragma: str) -> int:
    return int(database.execute(f"PRAGMA {pragma}").fetchone()[0])


def _code(error: sqlite3.Error) -> int:
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
