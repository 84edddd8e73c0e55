"""What is left of sessions when their server was killed: `.harness/serve.sqlite3`."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from harness.model.ledger import Gone, ItemFacts, why_not
from harness.resilience.owner import Owner
from harness.resilience.sqlite_file import OtherFileError, SqliteKind, connect, move_aside
from harness.values import replace

STORE: Final = Path(".harness/serve.sqlite3")
_TABLE = "CREATE TABLE sessions (id TEXT PRIMARY KEY, content BLOB NOT NULL)"
_KIND: Final = SqliteKind(application=int.from_bytes(b"SESS"), schema=1, tables=(_TABLE,))
_KEPT_SESSIONS: Final = 200
_PATIENCE = 2.0
WAIT_MS: Final = 200
"""Milliseconds that a change waits for another process: the whole bridge waits with it."""


class StoredSession(Struct, frozen=True):
    """One session, as it was last written."""

    id: str
    state: str
    agent: str = ""
    client: str = ""
    folder: str = ""
    created: str = ""
    task: str | None = None
    turn: int | None = None
    wrote: bool = False
    """Whether its task had begun a step that must not be done twice."""
    had: tuple[str, ...] = ()
    """Ids of the tasks that a server has run for it."""
    why: str = ""
    owner: Owner = Owner()
    """The process that had it."""

    @property
    def over(self) -> bool:
        return self.state in ("closed", "error")

    @property
    def owned(self) -> bool:
        """Whether its server still runs."""
        return self.owner.alive

    @property
    def resumable(self) -> bool:
        """Whether its client may go on: it has no task, or one that may begin anew since nothing was written."""
        return not self.over and not self.why_lost

    @property
    def why_lost(self) -> str:
        """Why its task, if it has one, does not begin anew; empty if it does."""
        return why_not(ItemFacts(wrote=self.wrote), Gone.SERVER) if self.task is not None else ""


class SessionStore:
    """The sessions of a project, in a file that a killed server leaves whole."""

    def __init__(self, root: Path, owner: Owner | None = None) -> None:
        """Open or make the file. `owner`: the process that has the sessions, this one by default.

        Raises OSError if neither is possible; a damaged one is put aside (`note`).
        """
        self._path = root / STORE
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self.note = ""
        """What happened to a damaged file; empty if nothing did."""
        self._owner = owner or Owner.this()
        try:
            self._database = self._opened()
        except (sqlite3.DatabaseError, OtherFileError) as error:
            if isinstance(error, sqlite3.OperationalError):
                raise OSError(f"{STORE} cannot be opened: {error}") from error
            away = move_aside(self._path, str(os.getpid()))
            why = f"was of {error}" if isinstance(error, OtherFileError) else "was damaged"
            self.note = f"{STORE} {why}: it is kept as {away.name}, and its sessions cannot be resumed"
            self._database = self._opened()
        self._count_unreadable()

    def _opened(self) -> sqlite3.Connection:
        database = connect(self._path, _PATIENCE)
        try:
            _KIND.prepare(database, _PATIENCE)
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute("SELECT count(*) FROM sessions").fetchone()
            database.execute(f"PRAGMA busy_timeout = {WAIT_MS}")
        except BaseException:
            database.close()
            raise
        return database

    def save(self, session: StoredSession) -> None:
        """Write a session; a kill of this process loses nothing of it. Raises OSError."""
        content = msgspec.json.encode(replace(session, owner=self._owner))
        try:
            self._database.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?)", (session.id, content))
        except sqlite3.Error as error:
            raise OSError(f"{STORE} cannot be written: {error}") from error

    def claim(self, name: str) -> StoredSession | None:
        """The session of a server that ended or was killed, which this process has from now on; None if there is none.

        One that cannot go on (`resumable`) is returned too, and stays as it is. Of several processes that claim a
        session at once, one gets it. Raises OSError if the file cannot be written.
        """
        if self._claimable(name) is None:
            return None
        try:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                found = self._claimable(name)
                if found is not None and found.resumable:
                    self.save(found)
                self._database.execute("COMMIT")
            finally:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise OSError(f"{STORE} cannot be written: {error}") from error
        return found

    def _claimable(self, name: str) -> StoredSession | None:
        """The session with that id, unless a running server has it, or what is written cannot be read."""
        with suppress(sqlite3.Error, msgspec.DecodeError, TypeError):
            row = self._database.execute("SELECT content FROM sessions WHERE id = ?", (name,)).fetchone()
            found = msgspec.json.decode(row[0], type=StoredSession) if row else None
            return None if found is None or found.owned else found
        return None

    def _count_unreadable(self) -> None:
        """Say in `note` how many of the newest sessions cannot be read."""
        query, rows, bad = "SELECT content FROM sessions ORDER BY rowid DESC LIMIT ?", [], 0
        with suppress(sqlite3.Error):
            rows = self._database.execute(query, (_KEPT_SESSIONS,)).fetchall()
        for (content,) in rows:
            try:
                msgspec.json.decode(content, type=StoredSession)
            except (msgspec.DecodeError, TypeError):
                bad += 1
        if bad:
            self.note = self.note or f"{STORE}: {bad} of its sessions cannot be read, nor resumed"

    def close(self) -> None:
        """Close the file. Sessions older than the newest ones are deleted."""
        with suppress(sqlite3.Error):
            newest = "SELECT rowid FROM sessions ORDER BY rowid DESC LIMIT ?"
            self._database.execute(f"DELETE FROM sessions WHERE rowid NOT IN ({newest})", (_KEPT_SESSIONS,))  # noqa: S608
        self._database.close()


def stored_sessions(root: Path) -> list[StoredSession]:
    """All kept sessions, the newest first, for lists. Raises OSError for a file that cannot be read."""
    path = root / STORE
    if not path.is_file():
        return []
    try:
        with closing(connect(f"{path.absolute().as_uri()}?mode=ro", _PATIENCE)) as database:
            rows = database.execute("SELECT content FROM sessions ORDER BY rowid DESC").fetchall()
        return [msgspec.json.decode(content, type=StoredSession) for (content,) in rows]
    except (sqlite3.Error, msgspec.DecodeError) as error:
        raise OSError(f"{STORE} cannot be read: {error}") from error
