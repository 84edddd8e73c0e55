"""A SQLite file that several processes share: made once, recognized by its numbers, refused if it is another's."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class OtherFileError(Exception):
    """The database is not of the kind that was asked for; it is left as it is."""

    def __init__(self, version: int | None) -> None:
        """`version`: its schema, if it is of that kind, but not the one that is known."""
        super().__init__("something else" if version is None else f"schema {version}")
        self.version = version


class SqliteKind(Struct, frozen=True):
    """A kind of file: its `application_id`, the version of its schema (`user_version`), and how to make its tables."""

    application: int
    schema: int
    tables: tuple[str, ...]

    def prepare(self, database: sqlite3.Connection, patience: float) -> None:
        """Make the tables in an empty file. Raises OtherFileError, and sqlite3's errors.

        Several processes may do this at once: the second finds it done.
        """
        if self.is_made(database):
            return
        _to_wal(database, patience)
        database.execute("BEGIN IMMEDIATE")
        if not self._is_ours(database):
            for statement in self.tables:
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {self.application}")
            database.execute(f"PRAGMA user_version = {self.schema}")
        database.execute("COMMIT")

    def is_made(self, database: sqlite3.Connection) -> bool:
        """Return True for a file of this kind, False for an empty one; raises OtherFileError for anything else.

        It looks in one transaction: a file that another process is just making is seen complete or not at all.
        """
        database.execute("BEGIN")
        try:
            return self._is_ours(database)
        finally:
            if database.in_transaction:  # a full disk has already ended it
                database.execute("ROLLBACK")

    def _is_ours(self, database: sqlite3.Connection) -> bool:
        application, version = _number_of(database, "application_id"), _number_of(database, "user_version")
        if application == self.application:
            if version != self.schema:
                raise OtherFileError(version)
            return True
        if application or version or database.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise OtherFileError(None)
        return False


def connect(place: Path | str, patience: float) -> sqlite3.Connection:
    """Open a file, or a URI of one. A statement waits at most `patience` seconds for another process.

    Transactions are begun and ended by statements; several threads may use it in turn.
    """
    uri = isinstance(place, str)
    database = sqlite3.connect(place, timeout=patience, isolation_level=None, check_same_thread=False, uri=uri)
    database.row_factory = sqlite3.Row
    return database


def _to_wal(database: sqlite3.Connection, patience: float) -> None:
    """Switch to write-ahead logging if the disk allows it, trying again: SQLite does not wait for a lock here."""
    from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed  # only for a file that is opened

    again = Retrying(
        stop=stop_after_delay(patience), wait=wait_fixed(0.01), retry=retry_if_exception(is_busy), reraise=True
    )
    again(database.execute, "PRAGMA journal_mode = WAL")


def move_aside(path: Path, mark: str) -> Path:
    """Move a broken file away, with SQLite's files next to it; nothing is deleted. Raises OSError."""
    away = path.with_name(f"{path.name}.broken-{mark}")
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(away.with_name(away.name + suffix))
    return away


def _number_of(database: sqlite3.Connection, pragma: str) -> int:
    return int(database.execute(f"PRAGMA {pragma}").fetchone()[0])


def code_of(error: BaseException) -> int:
    """The primary code of SQLite's error; 0 for any other."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def is_busy(error: BaseException) -> bool:
    """Return whether another process holds the lock at the moment."""
    return isinstance(error, sqlite3.Error) and code_of(error) in _BUSY


def is_broken(error: BaseException) -> bool:
    """Return whether the file is certainly no database, or a damaged one."""
    return isinstance(error, sqlite3.Error) and code_of(error) in _BROKEN
