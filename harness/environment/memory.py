"""Memory entries by world, in one SQLite file."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS memory (
    world TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, ts TEXT NOT NULL, source TEXT NOT NULL,
    confidence REAL NOT NULL, PRIMARY KEY (world, key)
)
"""
_PUT: Final = """
INSERT INTO memory (world, key, value, ts, source, confidence) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (world, key) DO UPDATE SET
    value = excluded.value, ts = excluded.ts, source = excluded.source, confidence = excluded.confidence
"""
_BUSY: Final = 30.0
"""Seconds that one process waits for another one to finish writing."""
_GET: Final = "SELECT key, value, ts, source, confidence FROM memory WHERE world = ? ORDER BY rowid"


class MemoryEntry(Struct, frozen=True):
    """One MemoryKV entry. `ts` is ISO 8601, UTC, in whole seconds."""

    key: str
    value: Any
    ts: str
    source: str
    confidence: float = 1.0

    @classmethod
    def at(cls, key: str, value: Any, moment: datetime, source: str) -> MemoryEntry:
        return cls(key, value, timestamp(moment), source)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def timestamp(moment: datetime) -> str:
    """The time as text: `2025-11-16T09:00:23Z`."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _row(world: str, entry: MemoryEntry) -> tuple[str, str, str, str, str, float]:
    # A number that JSON lacks becomes null, as in the browser's own JSON.stringify.
    value = json.dumps(json.loads(json.dumps(entry.value), parse_constant=lambda _: None))
    return world, entry.key, value, entry.ts, entry.source, entry.confidence


class MemoryStore:
    """The entries of every world. It may be used from several threads, and several processes may share the file."""

    def __init__(self, path: Path | str = ":memory:") -> None:
        """Open or make the file; raises sqlite3.DatabaseError if it is no database."""
        if path != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, timeout=_BUSY, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        # Memory is test data: speed counts, and a power cut may lose the last entries.
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute(_SCHEMA)

    def put(self, world: str, entry: MemoryEntry) -> None:
        """Write an entry, replacing one with the same key. Raises TypeError for a value that is not JSON."""
        row = _row(world, entry)
        with self._lock:
            self._db.execute(_PUT, row)

    def replace(self, world: str, entries: Iterable[MemoryEntry]) -> None:
        """Replace all entries of the world at once. Raises TypeError for a value that is not JSON."""
        rows = [_row(world, entry) for entry in entries]
        with self._lock, self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM memory WHERE world = ?", (world,))
            self._db.executemany(_PUT, rows)

    def entries(self, world: str) -> dict[str, MemoryEntry]:
        """Key -> entry, in the order in which they were first written."""
        with self._lock:
            rows = self._db.execute(_GET, (world,)).fetchall()
        return {key: MemoryEntry(key, json.loads(value), *rest) for key, value, *rest in rows}

    def forget(self, world: str, key: str) -> None:
        """Remove one entry."""
        with self._lock:
            self._db.execute("DELETE FROM memory WHERE world = ? AND key = ?", (world, key))

    def clear(self, world: str) -> None:
        """Remove all entries of a world."""
        with self._lock:
            self._db.execute("DELETE FROM memory WHERE world = ?", (world,))

    def close(self) -> None:
        with self._lock:
            self._db.close()
