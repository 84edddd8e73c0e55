"""The database file of the worlds: it outlives the process, and a broken one is replaced by a new one."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

MEMORY: Final = ":memory:"
LAYOUT: Final = 1
"""The version of the tables; a file with another version is put aside."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS worlds (world TEXT PRIMARY KEY, used INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS documents (
    world TEXT NOT NULL, site TEXT NOT NULL, collection TEXT NOT NULL, id TEXT NOT NULL, depth INTEGER NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (world, site, collection, id, depth)
);
CREATE TABLE IF NOT EXISTS effects (
    world TEXT NOT NULL, name TEXT NOT NULL, times INTEGER NOT NULL, PRIMARY KEY (world, name)
);
"""
_COMPANIONS: Final = ("-wal", "-shm", "-journal")
"""The suffixes of files that SQLite keeps next to its own."""


def open_state(path: str) -> sqlite3.Connection:
    """Open or create the database; raise ``sqlite3.Error`` if that is impossible at ``path``."""
    try:
        return _open_database(path)
    except sqlite3.OperationalError:  # the folder does not exist or is not writable: a new file would fail too
        raise
    except sqlite3.DatabaseError:
        _put_aside(Path(path))
        return _open_database(path)


def _open_database(path: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        # A killed process loses nothing; a world is test data, so a power cut may lose the last writes.
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")
        _check(database)
        database.executescript(_SCHEMA)
        database.execute(f"PRAGMA user_version = {LAYOUT}")
    except sqlite3.Error:
        database.close()
        raise
    return database


def _check(database: sqlite3.Connection) -> None:
    """Raise ``sqlite3.DatabaseError`` for a file that is damaged, or has another version."""
    ((layout,),) = database.execute("PRAGMA user_version")
    ((tables,),) = database.execute("SELECT count(*) FROM sqlite_schema")
    if tables and layout != LAYOUT:
        raise sqlite3.DatabaseError(f"its layout is {layout} instead of {LAYOUT}")
    ((found,),) = database.execute("PRAGMA quick_check(1)")
    if found != "ok":
        raise sqlite3.DatabaseError(found)


def _put_aside(file: Path) -> None:
    """Rename the file; it is not deleted, since it may be a user's own."""
    for suffix in _COMPANIONS:
        file.with_name(f"{file.name}{suffix}").unlink(missing_ok=True)
    file.replace(file.with_name(f"{file.name}.broken"))
