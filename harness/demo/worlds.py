"""The worlds: one environment document per world id, kept in SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

# The environment document as rows, and back: one row per site, collection and id.

Document: TypeAlias = dict[str, Any]
"""``{site: {collection: {id: body}}}``; a site or collection that is no object, or an empty one, is kept as it is."""

Key: TypeAlias = tuple[str, ...]
"""``(site,)``, ``(site, collection)`` or ``(site, collection, id)``."""

_DEPTH = 3


def to_rows(document: Document) -> dict[Key, str]:
    """Return the rows of a document: their bodies as JSON, by key."""
    return {key: json.dumps(body) for key, body in _leaves(document, ())}


def _leaves(node: dict[str, Any], above: Key) -> Iterator[tuple[Key, Any]]:
    for name, body in node.items():
        key = (*above, name)
        if isinstance(body, dict) and body and len(key) < _DEPTH:
            yield from _leaves(body, key)
        else:
            yield key, body


def to_document(rows: Iterable[tuple[Key, str]]) -> Document:
    """Return the document that the rows describe."""
    document: Document = {}
    for key, body in rows:
        node = document
        for name in key[:-1]:
            node = node.setdefault(name, {})
        node[key[-1]] = json.loads(body)
    return document


# The database file of the worlds: it outlives the process, and a broken one is replaced by a new one.

_MEMORY: Final = ":memory:"
_LAYOUT: Final = 1
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


def _open_state(path: str) -> sqlite3.Connection:
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
        database.execute(f"PRAGMA user_version = {_LAYOUT}")
    except sqlite3.Error:
        database.close()
        raise
    return database


def _check(database: sqlite3.Connection) -> None:
    """Raise ``sqlite3.DatabaseError`` for a file that is damaged, or has another version."""
    ((layout,),) = database.execute("PRAGMA user_version")
    ((tables,),) = database.execute("SELECT count(*) FROM sqlite_schema")
    if tables and layout != _LAYOUT:
        raise sqlite3.DatabaseError(f"its layout is {layout} instead of {_LAYOUT}")
    ((found,),) = database.execute("PRAGMA quick_check(1)")
    if found != "ok":
        raise sqlite3.DatabaseError(found)


def _put_aside(file: Path) -> None:
    """Rename the file; it is not deleted, since it may be a user's own."""
    for suffix in _COMPANIONS:
        file.with_name(f"{file.name}{suffix}").unlink(missing_ok=True)
    file.replace(file.with_name(f"{file.name}.broken"))


SEED: Final = Path(__file__).with_name("seed.json")
_KEPT_WORLDS: Final = 500
DEFAULT_WORLD: Final = "default"
"""The world of requests without a world id; unlike the others it is reset when the process starts."""

_UPSERT: Final = """
INSERT INTO documents (world, site, collection, id, depth, body) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (world, site, collection, id, depth) DO UPDATE SET body = excluded.body
"""
_DELETE: Final = "DELETE FROM documents WHERE world = ? AND site = ? AND collection = ? AND id = ? AND depth = ?"
_TOUCH: Final = """
INSERT INTO worlds (world, used) VALUES (?, (SELECT coalesce(max(used), 0) + 1 FROM worlds))
ON CONFLICT (world) DO UPDATE SET used = excluded.used
"""
_COUNT: Final = """
INSERT INTO effects (world, name, times) VALUES (?, ?, 1) ON CONFLICT (world, name) DO UPDATE SET times = times + 1
"""
_STALE: Final = "SELECT world FROM worlds ORDER BY used DESC LIMIT -1 OFFSET ?"


class Worlds:
    """Documents by world id; a world starts as a copy of the seed, the least recently used ones are dropped."""

    def __init__(self, path: str = _MEMORY, *, kept: int = _KEPT_WORLDS, seed: Document | None = None) -> None:
        """Open or create the database at ``path``; raise ``sqlite3.Error`` if that is impossible."""
        self._seed = to_rows(seed if seed is not None else json.loads(SEED.read_text(encoding="utf-8")))
        self._kept = kept
        self._db = _open_state(path)
        self._drop(DEFAULT_WORLD)

    def read(self, world: str) -> Document:
        """Return the whole document of a world."""
        with self._transaction():
            return to_document(self._rows(world).items())

    @contextmanager
    def change(self, world: str, effect: str = "") -> Iterator[Document]:
        """Yield the document for changes and store what changed; an exception inside stores nothing.

        A change with an ``effect`` is counted under this name.
        """
        with self._transaction():
            before = self._rows(world)
            document = to_document(before.items())
            yield document
            after = to_rows(document)
            self._store(world, before, after)
            if effect and after != before:
                self._db.execute(_COUNT, (world, effect))

    def effects(self, world: str) -> dict[str, int]:
        """Return how often each counted effect was had; a document that is put back does not change it."""
        return dict(self._db.execute("SELECT name, times FROM effects WHERE world = ? ORDER BY name", (world,)))

    def replace(self, world: str, document: Document) -> None:
        """Make ``document`` the whole document of a world, in its own order."""
        self._rewrite(world, to_rows(document))

    def reset(self, world: str) -> None:
        """Reset a world to the seed."""
        self._rewrite(world, self._seed)

    def ids(self) -> list[str]:
        """Return the ids of the kept worlds, the least recently used first."""
        return [world for (world,) in self._db.execute("SELECT world FROM worlds ORDER BY used")]

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _rows(self, world: str) -> dict[Key, str]:
        known = self._db.execute("SELECT 1 FROM worlds WHERE world = ?", (world,)).fetchone()
        self._db.execute(_TOUCH, (world,))
        if known is None:
            self._store(world, {}, self._seed)
            for (stale,) in self._db.execute(_STALE, (self._kept,)).fetchall():
                self._drop(stale)
        found = self._db.execute(
            "SELECT site, collection, id, depth, body FROM documents WHERE world = ? ORDER BY rowid", (world,)
        )
        return {(site, collection, entry)[:depth]: body for site, collection, entry, depth, body in found}

    def _store(self, world: str, before: dict[Key, str], after: dict[Key, str]) -> None:
        gone = [_address(world, key) for key in before if key not in after]
        changed = [(*_address(world, key), body) for key, body in after.items() if before.get(key) != body]
        if gone:
            self._db.executemany(_DELETE, gone)
        if changed:
            self._db.executemany(_UPSERT, changed)

    def _rewrite(self, world: str, rows: dict[Key, str]) -> None:
        """Write every row again: an updated row would keep its old place, and pages list rows in order."""
        with self._transaction():
            self._rows(world)
            self._db.execute("DELETE FROM documents WHERE world = ?", (world,))
            self._store(world, {}, rows)

    def _drop(self, world: str) -> None:
        for table in ("documents", "effects", "worlds"):
            self._db.execute(f"DELETE FROM {table} WHERE world = ?", (world,))  # noqa: S608 - the three names above


def _address(world: str, key: Key) -> tuple[str, str, str, str, int]:
    site, collection, entry = (*key, "", "")[:3]
    return world, site, collection, entry, len(key)
