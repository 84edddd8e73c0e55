"""The state of circuits in a SQLite file: the processes of a run share it, and the next run finds it.

Opening a file that is not such a store is an error, never an empty store. A store that cannot be used later (another
process holds its lock) costs each process a moment, and each goes on with its own knowledge. Use one store from one
thread.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec.structs import asdict

from harness.resilience.breaker import CircuitSnapshot, CircuitState
from harness.resilience.clock import Clock
from harness.resilience.sqlite_file import OtherFileError, SqliteKind, connect, is_busy

_KEPT_FOR: Final = 7 * 86400.0
"""Seconds after which an unused circuit is forgotten."""

_TABLE = """CREATE TABLE circuits (
    name TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    failures INTEGER NOT NULL,
    successes INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    error TEXT NOT NULL,
    opened_at REAL,
    probe_until REAL,
    generation INTEGER NOT NULL,
    reason TEXT NOT NULL,
    saved_at REAL NOT NULL,
    failed_at REAL
)"""
KIND: Final = SqliteKind(application=int.from_bytes(b"CIRC"), schema=2, tables=(_TABLE,))
_FOREIGN = "Name another file for the circuits"
_WAS_OURS = f"{_FOREIGN}; or remove this one, if it was theirs: only the memory of open circuits is lost"
_OF_ANOTHER = f"Use the version that wrote it, or remove it: only the memory of open circuits is lost. {_FOREIGN} else"


class CircuitStoreError(Exception):
    """The file cannot be used as a store of circuits; the text names the file, the problem and the remedy."""


def open_file(path: Path, patience: float, wall: datetime) -> sqlite3.Connection:
    """Open or make the file; raises CircuitStoreError if it is no such file, sqlite3's error if it is locked.

    A statement waits at most `patience` seconds for another process. `wall` is the time of day.
    """
    database: sqlite3.Connection | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        database = connect(path, patience)
        KIND.prepare(database, patience)
        problem = database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            raise _not_a_store(path, f"it is damaged ({problem})", _WAS_OURS)
        oldest = (wall.timestamp() - _KEPT_FOR,)
        if database.execute("SELECT 1 FROM circuits WHERE saved_at < ?", oldest).fetchone():
            database.execute("DELETE FROM circuits WHERE saved_at < ?", oldest)
    except BaseException as error:
        if database is not None:
            database.close()
        if isinstance(error, OtherFileError):
            if error.version is None:
                raise _not_a_store(path, "it is a database of something else", _FOREIGN) from error
            why = f"it has schema {error.version} and this version of the program knows {KIND.schema}"
            raise _not_a_store(path, why, _OF_ANOTHER) from error
        if isinstance(error, sqlite3.Error | OSError) and not is_busy(error):
            raise _not_a_store(path, str(error), _WAS_OURS) from error
        raise
    return database


def _snapshot_of(row: sqlite3.Row) -> CircuitSnapshot:
    """Read a row of the table; raises ValueError for an unknown state."""
    values = {key: row[key] for key in row.keys() if key != "name"}  # noqa: SIM118 - a Row iterates over its values
    return CircuitSnapshot(**{**values, "state": CircuitState(values["state"])})


def _not_a_store(path: Path, why: str, remedy: str) -> CircuitStoreError:
    return CircuitStoreError(f"{path}: expected a store of circuit states, found: {why}. {remedy}")


PATIENCE = 0.1
"""Seconds for which a caller waits for another process's lock."""
_RETRY = 0.5
"""Seconds until a store that could not be used is tried again, so that not every caller waits for it."""

_LOAD = "SELECT * FROM circuits WHERE name = ?"
_NAMES = "SELECT name FROM circuits ORDER BY name"
_SAVE = """INSERT OR REPLACE INTO circuits
    (name, state, failures, successes, calls, error, opened_at, probe_until, generation, reason, saved_at, failed_at)
    VALUES (:name, :state, :failures, :successes, :calls, :error, :opened_at, :probe_until, :generation, :reason,
            :saved_at, :failed_at)"""
_warn = logging.getLogger(__name__).warning


class CircuitStore:
    """One file of circuits."""

    def __init__(
        self, path: Path | str, clock: Clock, *, patience: float = PATIENCE, say: Callable[[str], None] = _warn
    ) -> None:
        """Open or make the file; raises CircuitStoreError, with file and remedy, for a file of another kind.

        `say` is called once, the first time that the store cannot be used.
        """
        self.path = Path(path)
        self._clock = clock
        self._patience = patience
        self._say = say
        self._said = False
        self._retry_at = float("-inf")
        self._away_since: float | None = None
        self._db: sqlite3.Connection | None = None
        try:
            self._open()
        except sqlite3.Error as error:
            self._note_gone(error)

    @property
    def usable(self) -> bool:
        """Whether the last use of the file succeeded."""
        return self._away_since is None

    def away_for(self) -> float:
        """Seconds for which the file has not been writable; 0 while it is."""
        return 0.0 if self._away_since is None else self._clock.now() - self._away_since

    def load(self, name: str) -> CircuitSnapshot | None:
        """Return the saved state of a circuit, or None if there is none or it cannot be read at the moment."""
        found: CircuitSnapshot | None = None
        if self._worth_trying():
            with self._tolerate_errors():
                row = self._open().execute(_LOAD, (name,)).fetchone()
                found = _snapshot_of(row) if row else None
        return found

    def names(self) -> tuple[str, ...]:
        """The names of all saved circuits."""
        found: tuple[str, ...] = ()
        if self._worth_trying():
            with self._tolerate_errors():
                found = tuple(row["name"] for row in self._open().execute(_NAMES))
        return found

    @contextmanager
    def exclusive(self) -> Iterator[bool]:
        """Hold the write lock of the file. Yields False if the store cannot be used now and nothing will be saved.

        An exception inside undoes what was saved inside.
        """
        database = self._begin_transaction()
        try:
            yield database is not None
            if database is not None:
                with self._tolerate_errors():
                    database.execute("COMMIT")
        finally:
            if database is not None and database.in_transaction:
                with suppress(sqlite3.Error):
                    database.execute("ROLLBACK")

    def save(self, name: str, circuit: CircuitSnapshot) -> None:
        """Save the state of a circuit; call it inside `exclusive`, if that yielded True."""
        with self._tolerate_errors():
            self._open().execute(_SAVE, {"name": name, **asdict(circuit)})

    def close(self) -> None:
        """Close the connection; the file stays."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _open(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = open_file(self.path, self._patience, self._clock.wall())
        return self._db

    def _begin_transaction(self) -> sqlite3.Connection | None:
        begun: sqlite3.Connection | None = None
        if self._worth_trying():
            with self._tolerate_errors():
                database = self._open()
                database.execute("BEGIN IMMEDIATE")
                begun, self._away_since = database, None
        return begun

    def _worth_trying(self) -> bool:
        return self._clock.now() >= self._retry_at

    @contextmanager
    def _tolerate_errors(self) -> Iterator[None]:
        """After an error of the database, go on without the store for a moment."""
        try:
            yield
        except (sqlite3.Error, CircuitStoreError, ValueError) as error:
            self._note_gone(error)

    def _note_gone(self, error: Exception) -> None:
        now = self._clock.now()
        self._retry_at = now + _RETRY
        self._away_since = now if self._away_since is None else self._away_since
        if not self._said:
            self._said = True
            why = "another process holds its lock" if is_busy(error) else str(error)
            self._say(f"circuits are not shared for now: {self.path}: {why}; going on with what this process knows")
