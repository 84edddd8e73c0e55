"""A channel in a SQLite database of the system under test: one table, or all of them."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from harness.environment.channel import MAX_DOCUMENT, Channel, encoded, refusal, rejected, unreadable
from harness.resilience.threads import on_own_thread

T = TypeVar("T")
_SOURCE: Final = "taskspec"
"""The value of a column `source` in rows that this channel adds."""


class SqliteChannel(Channel):
    """Reads and writes rows as JSON; the same for every world. `timeout` is in seconds for one read or write.

    With `key`, the document is an object: the key column's text -> the row as an object, or with `value` the one column
    of that name. Without `key` it is the list of the table's rows, and without `table` an object of all tables, each a
    list of rows; these two are readonly. A text that holds a JSON object, list or string is read as that (a key is
    not), and an object or list is written as its JSON. If the table has the columns `ts`, `source` and `confidence` of
    a memory entry, new and changed rows fill them in.
    """

    one_for_all = True

    def __init__(
        self,
        name: str,
        place: Callable[[], Path],
        table: str | None,
        key: str | None,
        value: str | None,
        timeout: float,
    ):
        """`place` returns the path of the database, which may change with its service."""
        super().__init__(name)
        self._place = place
        self._table, self._key, self._value = table, key, value
        self._timeout = timeout

    @property
    def _path(self) -> Path:
        return self._place()

    async def read(self, world: str) -> Any:  # noqa: ARG002 - one database for every world
        return await self._run_on_thread("read", self._read, "ro")

    async def writable(self) -> bool:
        return self._key is not None

    async def reset(self, world: str) -> None:  # noqa: ARG002
        raise refusal(self._name, "the channel of a database cannot reset it: name a command or a callable in `reset`")

    async def _replace(self, world: str, document: Any) -> None:  # noqa: ARG002
        if self._key is None:
            raise refusal(self._name, "only a table with a `key` column can be written; this channel names none")
        if not isinstance(document, dict):
            raise refusal(self._name, "the document of a table with a `key` column is an object")
        await self._run_on_thread("written", lambda db: self._store(db, document), "rw")

    async def _run_on_thread(self, what: str, work: Callable[[sqlite3.Connection], T], mode: str) -> T:
        """Run the work on a thread of its own: another process may lock the database for long."""
        try:
            async with asyncio.timeout(self._timeout):
                return await on_own_thread(self._with_connection, work, mode)
        except TimeoutError as error:
            raise unreadable(self._name, f"{self._path} cannot be {what}: it took too long", error) from error
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            raise rejected(self._name, f"{self._path} cannot be {what}: {error}", error) from error

    def _with_connection(self, work: Callable[[sqlite3.Connection], T], mode: str) -> T:
        if not self._path.is_file():
            raise FileNotFoundError("there is no such file")
        uri = f"{self._path.resolve().as_uri()}?mode={mode}"
        with closing(sqlite3.connect(uri, uri=True, timeout=self._timeout, isolation_level=None)) as db:
            db.row_factory = sqlite3.Row
            return work(db)

    def _read(self, db: sqlite3.Connection) -> Any:
        if self._table is None:
            names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
            return _check_size({name: _rows(db, name) for (name,) in names if not name.startswith("sqlite_")})
        rows = _rows(db, self._table, self._key)
        if self._key is None:
            return _check_size(rows)
        self._check_columns(db)
        return _check_size({str(row[self._key]): row[self._value] if self._value else row for row in rows})

    def _store(self, db: sqlite3.Connection, document: Mapping[str, Any]) -> None:
        """Write the rows that differ, all or none of them."""
        before = self._read(db)
        columns = self._check_columns(db)
        table, key = _quote_name(str(self._table)), _quote_name(str(self._key))
        db.execute("BEGIN IMMEDIATE")
        try:
            for name in before.keys() - document.keys():
                db.execute(f"DELETE FROM {table} WHERE {key} = ?", (name,))  # noqa: S608 - quoted names of the settings
            for name, value in document.items():
                if name not in before or before[name] != value:
                    self._put_row(db, name, value, columns, new=name not in before)
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise

    def _put_row(self, db: sqlite3.Connection, name: str, value: Any, columns: set[str], *, new: bool) -> None:
        cells = {self._value: value} if self._value else {**value, str(self._key): name}
        if unknown := {str(cell) for cell in cells} - columns:
            raise ValueError(f"the table {self._table} has no column {', '.join(sorted(unknown))}")
        moment = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        extra = {"ts": moment, "source": _SOURCE, "confidence": 1.0} if self._value else {}
        fields = {column: cell for column, cell in extra.items() if column in columns} | cells
        if new:
            fields |= {self._key: name}
        names = [_quote_name(str(column)) for column in fields]
        values = [cell if column == self._key else _cell(cell) for column, cell in fields.items()]
        if new:
            marks = ", ".join("?" * len(names))
            db.execute(f"INSERT INTO {_quote_name(str(self._table))} ({', '.join(names)}) VALUES ({marks})", values)  # noqa: S608
        else:
            sets = ", ".join(f"{column} = ?" for column in names)
            where = f"{_quote_name(str(self._key))} = ?"
            db.execute(f"UPDATE {_quote_name(str(self._table))} SET {sets} WHERE {where}", (*values, name))  # noqa: S608

    def _check_columns(self, db: sqlite3.Connection) -> set[str]:
        """The columns of the table. Raises ValueError for a column of the settings that it does not have."""
        columns = {row["name"] for row in db.execute(f"PRAGMA table_info({_quote_name(str(self._table))})")}
        for column in (self._key, self._value):
            if column is not None and column not in columns:
                known = ", ".join(sorted(columns)) or "none"
                raise ValueError(f"the table {self._table} has no column {column} (its columns: {known})")
        return columns


def _rows(db: sqlite3.Connection, table: str, key: str | None = None) -> list[dict[str, Any]]:
    """The rows of a table. A key is a name: it stays as it is, even if it looks like JSON."""
    rows = db.execute(f"SELECT * FROM {_quote_name(table)}").fetchall()  # noqa: S608 - a quoted name
    columns = rows[0].keys() if rows else ()
    return [{name: row[name] if name == key else _plain(row[name]) for name in columns} for row in rows]


def _plain(cell: Any) -> Any:
    """A cell as JSON: a text that holds a JSON object, list or string is parsed; other texts stay as they are."""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace")
    if isinstance(cell, str) and cell[:1] in ("{", "[", '"'):
        try:
            return json.loads(cell)
        except ValueError:
            return cell
    return cell


def _cell(value: Any) -> Any:
    """The reverse: a value without a type in SQLite is written as JSON, and so is a text that would be read as JSON."""
    as_json = isinstance(value, dict | list | bool) or (isinstance(value, str) and _plain(value) != value)
    return json.dumps(value, ensure_ascii=False) if as_json else value


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _check_size(document: Any) -> Any:
    if len(encoded(document)) > MAX_DOCUMENT:
        raise ValueError(f"it is larger than {MAX_DOCUMENT} bytes")
    return document
