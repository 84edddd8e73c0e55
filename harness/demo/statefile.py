"""The file of the worlds: it outlives the process, killed or not; one that is broken gives way to a new one."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

MEMORY: Final = ":memory:"
LAYOUT: Final = 1
"""Of the tables; a file of another layout is put aside."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS worlds (world TEXT PRIMARY KEY, used INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS documents (
    world TEXT NOT NULL, site TEXT NOT NULL, collection TEXT NOT NULL, id TEXT NOT NULL, depth INTEGER NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (world, site, collection, id, depth)
);
"""
_COMPANIONS: Final = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside its file."""


def open_state(path: str) -> sqlite3.Connection:
    """Open or create the database; raise ``sqlite3.Error`` when there can be none at ``path``."""
    try:
        return _opened(path)
    except sqlite3.OperationalError:  # no such folder, no rights: a new file would fare no better
        raise
    except sqlite3.DatabaseError:
        _put_aside(Path(path))
        return _opened(path)


def _opened(path: str) -> sqlite3.Connection:
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
    """Raise ``sqlite3.DatabaseError`` for a file that is damaged, or of another layout."""
    ((layout,),) = database.execute("PRAGMA user_version")
    ((tables,),) = database.execute("SELECT count(*) FROM sqlite_schema")
    if tables and layout != LAYOUT:
        raise sqlite3.DatabaseError(f"its layout is {layout} instead of {LAYOUT}")
    ((found,),) = database.execute("PRAGMA quick_check(1)")
    if found != "ok":
        raise sqlite3.DatabaseError(found)


def _put_aside(file: Path) -> None:
    """It may be somebody's own: it is renamed, not deleted."""
    for suffix in _COMPANIONS:
        file.with_name(f"{file.name}{suffix}").unlink(missing_ok=True)
    file.replace(file.with_name(f"{file.name}.broken"))
