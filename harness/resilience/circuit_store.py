"""The state of circuits in a SQLite file: shared by the processes of a run, kept for the next one.

A file that is no such store is an error when it is opened, never an empty store. Afterwards a store that cannot be
used (somebody holds its lock) costs a moment, and everybody goes on with what he knows himself. Use one store from one
thread.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from harness.resilience.breaker_state import Snapshot
from harness.resilience.circuit_file import CircuitStoreError, is_busy, open_file, snapshot_of
from harness.resilience.clock import Clock

__all__ = ["CircuitStore", "CircuitStoreError"]

PATIENCE = 0.1
"""Seconds that a caller may be held up by another process's lock."""
RETRY = 0.5
"""Seconds until a store that could not be used is tried again: not every caller pays that wait."""

_LOAD = "SELECT * FROM circuits WHERE name = ?"
_NAMES = "SELECT name FROM circuits ORDER BY name"
_SAVE = """INSERT OR REPLACE INTO circuits
    (name, state, failures, successes, calls, error, opened_at, probe_until, generation, reason, saved_at)
    VALUES (:name, :state, :failures, :successes, :calls, :error, :opened_at, :probe_until, :generation, :reason,
            :saved_at)"""
_warn = logging.getLogger(__name__).warning


class CircuitStore:
    """One file of circuits."""

    def __init__(
        self,
        path: Path | str,
        clock: Clock,
        *,
        patience: float = PATIENCE,
        say: Callable[[str], None] = _warn,
    ) -> None:
        """Open or make the file; raises CircuitStoreError, naming file and remedy, for one that is no such store.

        `say` is told, once, that the store cannot be used for now.
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
            self._gone(error)

    @property
    def usable(self) -> bool:
        """Whether the last use of the file went well."""
        return self._away_since is None

    def away_for(self) -> float:
        """Seconds since which nothing can be written, 0 when it can."""
        return 0.0 if self._away_since is None else self._clock.now() - self._away_since

    def load(self, name: str) -> Snapshot | None:
        """What is kept of a circuit; None: nothing, or it cannot be read for now."""
        found: Snapshot | None = None
        if self._worth_trying():
            with self._tolerant():
                row = self._open().execute(_LOAD, (name,)).fetchone()
                found = snapshot_of(row) if row else None
        return found

    def names(self) -> tuple[str, ...]:
        """All circuits of which something is kept."""
        found: tuple[str, ...] = ()
        if self._worth_trying():
            with self._tolerant():
                found = tuple(row["name"] for row in self._open().execute(_NAMES))
        return found

    @contextmanager
    def exclusive(self) -> Iterator[bool]:
        """Nobody else writes in here. False: the store cannot be used now, and nothing will be kept.

        What is raised inside undoes what was saved inside.
        """
        database = self._begun()
        try:
            yield database is not None
            if database is not None:
                with self._tolerant():
                    database.execute("COMMIT")
        finally:
            if database is not None and database.in_transaction:
                with suppress(sqlite3.Error):
                    database.execute("ROLLBACK")

    def save(self, name: str, circuit: Snapshot) -> None:
        """Keep this of a circuit; inside `exclusive`, where it answered True."""
        with self._tolerant():
            self._open().execute(_SAVE, {"name": name, **asdict(circuit)})

    def close(self) -> None:
        """Done with the file; it stays."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _open(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = open_file(self.path, self._patience, self._clock.wall())
        return self._db

    def _begun(self) -> sqlite3.Connection | None:
        begun: sqlite3.Connection | None = None
        if self._worth_trying():
            with self._tolerant():
                database = self._open()
                database.execute("BEGIN IMMEDIATE")
                begun, self._away_since = database, None
        return begun

    def _worth_trying(self) -> bool:
        return self._clock.now() >= self._retry_at

    @contextmanager
    def _tolerant(self) -> Iterator[None]:
        """A store that fails while it is used is done without for a moment."""
        try:
            yield
        except (sqlite3.Error, CircuitStoreError, ValueError) as error:
            self._gone(error)

    def _gone(self, error: Exception) -> None:
        now = self._clock.now()
        self._retry_at = now + RETRY
        self._away_since = now if self._away_since is None else self._away_since
        if not self._said:
            self._said = True
            why = "another process holds its lock" if is_busy(error) else str(error)
            self._say(f"circuits are not shared for now: {self.path}: {why}; going on with what this process knows")
