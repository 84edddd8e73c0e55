"""The environment channels of a project, by name; those in files, databases and tools of servers."""

from __future__ import annotations

import asyncio
import json
import math
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import closing
from copy import copy
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from harness.criteria.paths import PathError, path_of_key
from harness.environment.channel import (
    MAX_DOCUMENT,
    Channel,
    SlotPlaceholders,
    corrupt,
    encoded,
    refusal,
    rejected,
    unreadable,
)
from harness.environment.python_channel import PythonChannel
from harness.model.channel_settings import ChannelSettings
from harness.model.settings import WorldMark
from harness.model.tools import ToolAnswer, ToolRequest
from harness.recovery.failure import Circumstances, Failed, Failure
from harness.resilience.replaced import write_whole
from harness.resilience.threads import on_own_thread
from harness.spec.step_base import EffectClass
from harness.task_secrets import hidden
from harness.values import map_texts

if TYPE_CHECKING:
    from harness.environment.http_channel import Recover

T = TypeVar("T")


class LocalChannel(Channel):
    """A channel in one file of this machine, the same for every world. `timeout`: seconds for one read or write."""

    one_for_all = True
    refused: ClassVar[tuple[type[Exception], ...]] = (OSError, ValueError, RecursionError)
    """The errors by which the file refuses what is asked; any other is a defect."""

    def __init__(self, name: str, place: Callable[[], Path], timeout: float) -> None:
        """`place` returns the path of the file, which may change with its service."""
        super().__init__(name)
        self._place, self._timeout = place, timeout

    @property
    def _path(self) -> Path:
        return self._place()

    async def _timed(self, what: str, work: Awaitable[T]) -> T:
        """Wait for work on a thread of its own: a pipe, a dead server or another process may block it for ever."""
        try:
            async with asyncio.timeout(self._timeout):
                return await work
        except TimeoutError as error:
            raise unreadable(self._name, f"{self._path} cannot be {what}: it took too long", error) from error
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise corrupt(self._name, f"{self._path} is not JSON: {error}", error) from error
        except self.refused as error:
            why = (error.strerror if isinstance(error, OSError) else None) or error
            raise rejected(self._name, f"{self._path} cannot be {what}: {why}", error) from error


# A channel in a JSON file.

_READABLE = 200_000
"""Bytes from which a document is written without line breaks: they would cost seconds, and triple its size."""
_HALF_WRITTEN = 0.2
"""Seconds after which a file that does not parse is read once more."""


class FileChannel(LocalChannel):
    """Reads and replaces the file as a whole."""

    def __init__(self, name: str, place: Callable[[], Path], *, timeout: float, start: Path | None = None) -> None:
        """`start` is the path to which a run's first reset copies the original file; all its processes share it."""
        super().__init__(name, place, timeout)
        self._start = start

    async def read(self, world: str) -> Any:  # noqa: ARG002 - one file for every world
        return await self._timed("read", self._load_file())

    async def _load_file(self) -> Any:
        """Load the file; a damaged one is read again, since the site may be writing it."""
        try:
            return await on_own_thread(self._load)
        except (json.JSONDecodeError, UnicodeDecodeError):
            await asyncio.sleep(_HALF_WRITTEN)
            return await on_own_thread(self._load)

    async def writable(self) -> bool:
        return True

    async def resettable(self) -> bool:
        return self._start is not None

    async def reset(self, world: str) -> None:
        """Restore the file as it was before the first reset of the run, when nothing had been changed yet."""
        if self._start is None:
            raise refusal(self._name, 'a file is reset only under `isolation = "reset"`')
        async with self._writing(world):
            await self._timed("reset", on_own_thread(self._back_to_start, self._start))

    async def _replace(self, world: str, document: Any) -> None:  # noqa: ARG002
        await self._timed("written", on_own_thread(self._store, document))

    def _back_to_start(self, start: Path) -> None:
        """Restore the original. An empty copy, which is no JSON document, means that there was no file: delete it."""
        start.parent.mkdir(parents=True, exist_ok=True)
        if not start.exists():
            write_whole(start, self._path.read_bytes() if self._path.exists() else b"")
        elif content := start.read_bytes():
            self._write(content)
        else:
            self._path.unlink(missing_ok=True)

    def _load(self) -> Any:
        with self._path.open("rb") as file:
            content = file.read(MAX_DOCUMENT + 1)
        _check_size(content)
        return json.loads(content)

    def _store(self, document: Any) -> None:
        """Replace the file. A reader sees the old file or the new one, never half of one."""
        content = _check_size(encoded(document))
        if len(content) <= _READABLE:
            content = encoded(document, indent=2) + b"\n"
        self._write(content)

    def _write(self, content: bytes) -> None:
        target = self._path.resolve()  # a symbolic link stays a link
        target.parent.stat()  # `write_whole` would make a folder that is missing, and hide that the path is wrong
        write_whole(target, content)


def _check_size(content: bytes) -> bytes:
    if len(content) > MAX_DOCUMENT:
        raise ValueError(f"it is larger than {MAX_DOCUMENT} bytes")
    return content


# A channel in a SQLite database of the system under test: one table, or all of them.

_SOURCE: Final = "taskspec"
"""The value of a column `source` in rows that this channel adds."""


class SqliteChannel(LocalChannel):
    """Reads and writes rows as JSON.

    With `key`, the document is an object: the key column's text -> the row as an object, or with `value` the one column
    of that name. Without `key` it is the list of the table's rows, and without `table` an object of all tables, each a
    list of rows; these two are readonly. A text that holds a JSON object, list or string is read as that (a key is
    not), with `as_json` any JSON, and an object or list is written as its JSON. If the table has the columns `ts`,
    `source` and `confidence` of a memory entry, new and changed rows fill them in.
    """

    refused = (sqlite3.Error, OSError, ValueError, TypeError)

    def __init__(
        self,
        name: str,
        place: Callable[[], Path],
        table: str | None,
        key: str | None,
        value: str | None,
        timeout: float,
        *,
        as_json: bool = False,
    ) -> None:
        super().__init__(name, place, timeout)
        self._table, self._key, self._value = table, key, value
        self._plain = partial(_plain, any_json=as_json)

    async def read(self, world: str) -> Any:  # noqa: ARG002 - one database for every world
        return await self._timed("read", on_own_thread(self._with_connection, self._read, "ro"))

    async def writable(self) -> bool:
        return self._key is not None

    async def reset(self, world: str) -> None:  # noqa: ARG002
        raise refusal(self._name, "the channel of a database cannot reset it: name a command or a callable in `reset`")

    async def _replace(self, world: str, document: Any) -> None:  # noqa: ARG002
        if self._key is None:
            raise refusal(self._name, "only a table with a `key` column can be written; this channel names none")
        if not isinstance(document, dict):
            raise refusal(self._name, "the document of a table with a `key` column is an object")
        store = partial(self._store, document=document)
        await self._timed("written", on_own_thread(self._with_connection, store, "rw"))

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
            return _sized({name: self._rows(db, name) for (name,) in names if not name.startswith("sqlite_")})
        rows = self._rows(db, self._table, self._key)
        if self._key is None:
            return _sized(rows)
        self._check_columns(db)
        return _sized({str(row[self._key]): row[self._value] if self._value else row for row in rows})

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
        values = [cell if column == self._key else self._cell(cell) for column, cell in fields.items()]
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

    def _rows(self, db: sqlite3.Connection, table: str, key: str | None = None) -> list[dict[str, Any]]:
        """The rows of a table. A key is a name: it stays as it is, even if it looks like JSON."""
        rows = db.execute(f"SELECT * FROM {_quote_name(table)}").fetchall()  # noqa: S608 - a quoted name
        columns = rows[0].keys() if rows else ()
        return [{name: row[name] if name == key else self._plain(row[name]) for name in columns} for row in rows]

    def _cell(self, value: Any) -> Any:
        """A value without a type in SQLite is written as JSON, and so is a text that would be read as JSON."""
        as_json = isinstance(value, dict | list | bool) or (isinstance(value, str) and self._plain(value) != value)
        return json.dumps(value, ensure_ascii=False) if as_json else value


def _plain(cell: Any, *, any_json: bool) -> Any:
    """A cell as JSON: a text that holds a JSON object, list or string is parsed, and with `any_json` any JSON value.

    Other texts stay as they are, also those that are too deep.
    """
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace")
    if isinstance(cell, str) and (any_json or cell[:1] in ("{", "[", '"')):
        try:
            return json.loads(cell, parse_constant=_finite, parse_float=_finite)
        except (ValueError, RecursionError):
            return cell
    return cell


def _finite(text: str) -> float:
    """The number. Raises ValueError for `NaN`, `Infinity` and `1e999`, which no JSON document can have."""
    if not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sized(document: Any) -> Any:
    _check_size(encoded(document))
    return document


# A channel that is a tool of a server: one tool returns the document, and another one may replace it.

CallTool = Callable[[ToolRequest, float], Awaitable[ToolAnswer]]
"""Calls a tool within so many seconds. Raises Failed."""
_WORLD = "{world}"
"""What stands in `arguments` for the id of the world."""
_AWAY = ("TOOL_UNAVAILABLE", "TOOL_TIMEOUT", "CIRCUIT_OPEN")
"""Failures of a server that was not reached; any other is an answer."""


class ToolChannel(Channel):
    """`tool` reads, and `restore` replaces the document, which is its argument `restore_argument`.

    Both get the `arguments` of the settings. Reading is a `read`, and replacing is `idempotent`, by declaration.
    """

    def __init__(self, name: str, settings: ChannelSettings, call: CallTool) -> None:
        super().__init__(name)
        self._settings = settings
        self._call = call

    async def read(self, world: str) -> Any:
        tool = str(self._settings.tool)
        answer = await self._answer(tool, "read", self._arguments(world))
        document = answer.document
        if answer.structured is None and document == answer.text:
            raise rejected(self._name, f"{tool} did not answer with JSON: {hidden(answer.text)[:200]!r}")
        return document

    async def writable(self) -> bool:
        return self._settings.restore is not None

    async def reset(self, world: str) -> None:  # noqa: ARG002
        raise refusal(self._name, "a channel of a tool cannot be reset; declare in `reset` of [tool.harness] what can")

    async def _replace(self, world: str, document: Any) -> None:
        if self._settings.restore is None:
            raise refusal(self._name, "name in its `restore` the tool that replaces the document")
        copy = json.loads(json.dumps(document))
        arguments = {**self._arguments(world), self._settings.restore_argument: copy}
        await self._answer(self._settings.restore, "idempotent", arguments)

    async def _answer(self, tool: str, effect: EffectClass, arguments: Mapping[str, Any]) -> ToolAnswer:
        server, _, name = tool.partition(".")
        try:
            answer = await self._call(ToolRequest(server, name, arguments, effect), self._settings.timeout)
        except Failed as failed:
            failure = failed.failure
            raised = unreadable if failure.code in _AWAY else rejected
            advice = f". {failure.advice}" if failure.advice else ""
            refused = raised(self._name, f"{tool}: {failure.message} ({failure.code}){advice}", failed)
            if not failure.retryable:
                refused.failure = refused.failure.also(Circumstances(permanent=True))
            raise refused from failed
        if answer.is_error:
            raise rejected(self._name, f"{tool} answered that it failed: {hidden(answer.text)[:500]}")
        return answer

    def _arguments(self, world: str) -> dict[str, Any]:
        given: dict[str, Any] = map_texts(self._settings.arguments, lambda text: text.replace(_WORLD, world))
        return given


# The channels of a project, by name.


class Channels:
    """The channels of a run, shared by all its tasks: each call names the world. Every call raises Failed.

    `hosts` maps host names to the real ports on 127.0.0.1. `recover` restarts the service behind a URL. Raises
    ValueError for settings that fit no kind of channel.
    """

    def __init__(
        self,
        settings: Mapping[str, ChannelSettings],
        *,
        hosts: Mapping[str, int],
        recover: Recover | None = None,
        root: Path,
        mark: WorldMark = WorldMark(),  # noqa: B008 - frozen
        starts: Path | None = None,
        call: CallTool | None = None,
        places: SlotPlaceholders = SlotPlaceholders(),  # noqa: B008 - frozen
    ) -> None:
        """The channels of a project.

        `mark` tells the site which world it is. `starts` is a folder for the original files: they are reset to these,
        for all processes of the run; None: files cannot be reset. `call` calls tools of servers. `places` has the
        values of placeholders.
        """
        made = partial(
            _channel, hosts=hosts, recover=recover, root=root, mark=mark, starts=starts, call=call, places=places
        )
        self._channels = {name: made(name, each) for name, each in settings.items()}
        self.clocks: Mapping[str, str] = {name: each.clock for name, each in settings.items() if each.clock}
        """Channel -> path at which the task's `time` is written."""
        self._schemas = {
            name: _Schema(name, root / each.schema_file) for name, each in settings.items() if each.schema_file
        }
        self._readonly = frozenset(name for name, each in settings.items() if each.readonly)

    def without(self, names: Collection[str]) -> Channels:
        """The same channels without some of them. They are closed with all."""
        if not names:
            return self
        rest = copy(self)
        rest._channels = {n: each for n, each in self._channels.items() if n not in names}  # noqa: SLF001 - a copy
        rest.clocks = {name: path for name, path in self.clocks.items() if name not in names}
        return rest

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._channels)

    async def read(self, name: str, world: str) -> Any:
        """Read the document; one that violates the schema of its channel is DATA_CORRUPTION."""
        document = await self._channel_named(name).read(world)
        if schema := self._schemas.get(name):
            schema.check(document)
        return document

    async def writable(self, name: str) -> bool:
        """Return whether the document can be replaced. Whether the other side accepts it is not known."""
        return name not in self._readonly and await self._channel_named(name).writable()

    async def write(self, name: str, world: str, path: str, value: Any) -> None:
        """Write one value into the document."""
        await self._open(name).write(world, path, value)

    async def put(self, name: str, world: str, key: str, value: Any) -> None:
        """Write one value at a key of the document; the key may contain dots and brackets."""
        try:
            path = path_of_key(key)
        except PathError as error:
            raise refusal(name, str(error)) from error
        await self._open(name).write(world, path, value)

    async def restore(self, name: str, world: str, document: Any) -> None:
        """Replace the whole document."""
        await self._open(name).restore(world, document)

    async def merge(self, name: str, world: str, patch: Any) -> bool:
        """Apply a merge patch (RFC 7386). Returns False, with nothing written, if the channel cannot do that."""
        return await self._open(name).merge(world, patch)

    async def resettable(self) -> tuple[str, ...]:
        """The names of the channels that can be reset; a readonly channel cannot."""
        names = [name for name in self.names if name not in self._readonly]
        able = await asyncio.gather(*(self._channel_named(name).resettable() for name in names))
        return tuple(name for name, can in zip(names, able, strict=True) if can)

    async def reset(self, name: str, world: str) -> None:
        """Reset the document to the initial state of the system under test."""
        await self._open(name).reset(world)

    async def close(self) -> None:
        """Close all connections. It never raises."""
        await asyncio.gather(*(channel.close() for channel in self._channels.values()), return_exceptions=True)

    def _open(self, name: str) -> Channel:
        """Return a channel for writing; raises Failed for a readonly one."""
        if name in self._readonly:
            raise refusal(name, f"it is read-only: `readonly = true` in [tool.harness.channels.{name}]")
        return self._channel_named(name)

    def _channel_named(self, name: str) -> Channel:
        channel = self._channels.get(name)
        if channel is None:
            known = ", ".join(sorted(self._channels)) or "none"
            message = f"there is no channel `{name}` in [tool.harness.channels]; known channels: {known}"
            raise Failed(Failure("INVALID_INPUT", message))
        return channel


class _Schema:
    """The project's JSON Schema for a channel's document. Raises ValueError for a file that is none."""

    def __init__(self, name: str, path: Path) -> None:
        from jsonschema import Draft202012Validator, SchemaError  # only for a project that declares a schema
        from jsonschema.exceptions import best_match

        try:
            schema = json.loads(path.read_text("utf-8"))
            Draft202012Validator.check_schema(schema)
        except (OSError, ValueError, SchemaError) as error:
            why = getattr(error, "strerror", None) or getattr(error, "message", None) or error
            where = f"[tool.harness.channels.{name}] schema = {str(path)!r}"
            raise ValueError(f"{where}: expected a file with a JSON Schema: {why}") from error
        self._name = name
        self._file = path.name
        self._validator, self._best = Draft202012Validator(schema), best_match

    def check(self, document: Any) -> None:
        """Check a document; raises Failed if it violates the schema."""
        error = self._best(self._validator.iter_errors(document))
        if error is not None:
            place = error.json_path.removeprefix("$").removeprefix(".") or "the document"
            raise corrupt(self._name, f"{place} does not conform to {self._file}: {hidden(error.message)[:300]}")


def _channel(
    name: str,
    settings: ChannelSettings,
    *,
    hosts: Mapping[str, int],
    recover: Recover | None,
    root: Path,
    mark: WorldMark,
    starts: Path | None,
    call: CallTool | None,
    places: SlotPlaceholders,
) -> Channel:
    kinds = ("url", "file", "python", "sqlite", "tool")
    if [getattr(settings, kind) is not None for kind in kinds].count(True) != 1:
        raise ValueError(f"channel `{name}` needs exactly one of {', '.join(f'`{kind}`' for kind in kinds)}")
    match settings:
        case ChannelSettings(url=str(url)):
            from harness.environment.http_channel import HttpChannel  # with its client

            return HttpChannel(name, url, timeout=settings.timeout, hosts=hosts, recover=recover, mark=mark)
        case ChannelSettings(file=str(file)):
            start = starts and starts / f"{name}.json"
            return FileChannel(name, lambda: root / places.fill(file), timeout=settings.timeout, start=start)
        case ChannelSettings(tool=str()):
            if call is None:
                raise ValueError(f"channel `{name}` is a tool, and no tools can be called here")
            return ToolChannel(name, settings, call)
        case ChannelSettings(python=str(target)):
            restore, told = settings.restore, settings.arguments
            return PythonChannel(
                name, target, restore=restore, root=root, timeout=settings.timeout, arguments=told, places=places
            )
    database, table = lambda: root / places.fill(str(settings.sqlite)), settings.table
    return SqliteChannel(
        name, database, table, settings.key, settings.value, settings.timeout, as_json=settings.as_json
    )
