"""The environment channels of a project, by name."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harness.criteria.paths import PathError, quoted
from harness.environment.channel import MAX_DOCUMENT, Channel, assigned, corrupt, encoded, refused, rejected, unreadable
from harness.environment.http_channel import HttpChannel, Recover
from harness.environment.python_channel import PythonChannel
from harness.environment.sqlite_channel import SqliteChannel
from harness.model.settings import ChannelSettings, WorldMark
from harness.recovery.failure import Failed, Failure
from harness.resilience.threads import on_own_thread

# A channel in a JSON file, the same for every world.

READABLE = 200_000
"""Bytes; a larger document is written without line breaks: they would cost seconds, and triple its size."""
HALF_WRITTEN = 0.2
"""Seconds after which a file that does not parse is read once more."""


class FileChannel:
    """Reads and replaces the file as a whole. `timeout` is seconds for one of the two.

    Each has a thread of its own: a pipe, or a file on a server that is gone, may hold one for ever.
    """

    def __init__(self, name: str, path: Path, *, timeout: float, start: Path | None = None) -> None:
        """`start` is where the first reset of a run keeps the file as it was; all processes of the run share it."""
        self._start = start
        self._name = name
        self._path = path
        self._timeout = timeout
        self._writing = asyncio.Lock()

    async def read(self, world: str) -> Any:  # noqa: ARG002 - one file for every world
        try:
            async with asyncio.timeout(self._timeout):
                return await self._loaded()
        except TimeoutError as error:
            raise unreadable(self._name, f"{self._path} cannot be read: it took too long", error) from error
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise corrupt(self._name, f"{self._path} is no JSON: {error}", error) from error
        except (OSError, ValueError, RecursionError) as error:
            raise rejected(self._name, f"{self._path} cannot be read: {_words(error)}", error) from error

    async def _loaded(self) -> Any:
        """Looked at twice before it is called damaged: the site may be writing it."""
        try:
            return await on_own_thread(self._load)
        except (json.JSONDecodeError, UnicodeDecodeError):
            await asyncio.sleep(HALF_WRITTEN)
            return await on_own_thread(self._load)

    async def writable(self) -> bool:
        return True

    async def write(self, world: str, path: str, value: Any) -> None:
        async with self._writing:
            await self._replace(assigned(self._name, await self.read(world), path, value))

    async def restore(self, world: str, document: Any) -> None:  # noqa: ARG002
        async with self._writing:
            await self._replace(document)

    async def merge(self, world: str, patch: Any) -> bool:  # noqa: ARG002
        return False

    async def resettable(self) -> bool:
        return self._start is not None

    async def reset(self, world: str) -> None:  # noqa: ARG002
        """To what it was before the first reset of the run: nothing had been done by then."""
        if self._start is None:
            raise refused(self._name, 'a file is reset only under `isolation = "reset"`')
        async with self._writing:
            await self._timed("reset", self._back_to_start, self._start)

    async def close(self) -> None:
        """Nothing is held open."""

    async def _replace(self, document: Any) -> None:
        await self._timed("written", self._store, document)

    async def _timed(self, what: str, work: Callable[[Any], None], argument: Any) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await on_own_thread(work, argument)
        except TimeoutError as error:
            raise unreadable(self._name, f"{self._path} cannot be {what}: it took too long", error) from error
        except (OSError, ValueError, RecursionError) as error:
            raise rejected(self._name, f"{self._path} cannot be {what}: {_words(error)}", error) from error

    def _back_to_start(self, start: Path) -> None:
        """A file that was not there is not there again. Its copy is empty then, which no JSON document is."""
        start.parent.mkdir(parents=True, exist_ok=True)
        if not start.exists():
            _write(start, self._path.read_bytes() if self._path.exists() else b"")
        elif content := start.read_bytes():
            _write(self._path.resolve(), content)
        else:
            self._path.unlink(missing_ok=True)

    def _load(self) -> Any:
        with self._path.open("rb") as file:
            content = file.read(MAX_DOCUMENT + 1)
        _bounded(content)
        return json.loads(content)

    def _store(self, document: Any) -> None:
        """A reader sees the old file or the new one, never half of one."""
        content = _bounded(encoded(document))
        if len(content) <= READABLE:
            content = encoded(document, indent=2) + b"\n"
        _write(self._path.resolve(), content)  # a link stays one


def _write(target: Path, content: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        scratch = Path(folder) / target.name
        scratch.write_bytes(content)
        scratch.replace(target)


def _words(error: BaseException) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _bounded(content: bytes) -> bytes:
    if len(content) > MAX_DOCUMENT:
        raise ValueError(f"it is larger than {MAX_DOCUMENT} bytes")
    return content


class Channels:
    """Shared by all tasks of a run: each call says which world it speaks of. Every call raises Failed.

    `hosts` maps host names to the real ports on 127.0.0.1. `recover` starts the service behind a URL
    again. Raises ValueError for settings that fit no kind.
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
    ) -> None:
        """`mark` is how the site is told the world. `starts` is a folder in which files are kept as the run met them:
        what they are reset to, for all processes of the run; None: they cannot be reset.
        """
        made = partial(_channel, hosts=hosts, recover=recover, root=root, mark=mark, starts=starts)
        self._channels = {name: made(name, each) for name, each in settings.items()}
        self.clocks: Mapping[str, str] = {name: each.clock for name, each in settings.items() if each.clock}
        """Channel -> path that the task's `time` is written to."""
        self._schemas = {
            name: _Schema(name, root / each.schema_file) for name, each in settings.items() if each.schema_file
        }
        self._readonly = frozenset(name for name, each in settings.items() if each.readonly)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._channels)

    async def read(self, name: str, world: str) -> Any:
        """The document, now; one that breaks the schema of its channel is DATA_CORRUPTION."""
        document = await self._named(name).read(world)
        if schema := self._schemas.get(name):
            schema.check(document)
        return document

    async def writable(self, name: str) -> bool:
        """Whether there is a way to replace the document; that the other side then agrees is not known."""
        return name not in self._readonly and await self._named(name).writable()

    async def write(self, name: str, world: str, path: str, value: Any) -> None:
        """Put one value into the document."""
        await self._open(name).write(world, path, value)

    async def put(self, name: str, world: str, key: str, value: Any) -> None:
        """Put one value at a key of the document, which may hold dots and brackets."""
        try:
            path = quoted(key)
        except PathError as error:
            raise refused(name, str(error)) from error
        await self._open(name).write(world, path, value)

    async def restore(self, name: str, world: str, document: Any) -> None:
        """Replace the whole document."""
        await self._open(name).restore(world, document)

    async def merge(self, name: str, world: str, patch: Any) -> bool:
        """Apply a merge patch (RFC 7386), where the channel can; False: it cannot, and nothing was written."""
        return await self._open(name).merge(world, patch)

    async def resettable(self) -> tuple[str, ...]:
        """The names of those that have a way to be reset; a channel that is only read has none."""
        names = [name for name in self.names if name not in self._readonly]
        able = await asyncio.gather(*(self._named(name).resettable() for name in names))
        return tuple(name for name, can in zip(names, able, strict=True) if can)

    async def reset(self, name: str, world: str) -> None:
        """Back to the state that the system under test starts from."""
        await self._open(name).reset(world)

    async def close(self) -> None:
        """Close connections. Never raises."""
        await asyncio.gather(*(channel.close() for channel in self._channels.values()), return_exceptions=True)

    def _open(self, name: str) -> Channel:
        """To be written."""
        if name in self._readonly:
            raise refused(name, f"it is only read: `readonly = true` in [tool.harness.channels.{name}]")
        return self._named(name)

    def _named(self, name: str) -> Channel:
        channel = self._channels.get(name)
        if channel is None:
            known = ", ".join(sorted(self._channels)) or "none"
            message = f"there is no channel `{name}` in [tool.harness.channels]; known channels: {known}"
            raise Failed(Failure("INVALID_INPUT", message))
        return channel


class _Schema:
    """What the project says of a channel's document. Raises ValueError for a file that is no JSON Schema."""

    def __init__(self, name: str, path: Path) -> None:
        from jsonschema import Draft202012Validator, SchemaError  # only for a project that declares one
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
        """Raises Failed for a document that breaks it."""
        error = self._best(self._validator.iter_errors(document))
        if error is not None:
            place = error.json_path.removeprefix("$").removeprefix(".") or "the document"
            raise corrupt(self._name, f"{place} breaks {self._file}: {error.message[:300]}")


def _channel(
    name: str,
    settings: ChannelSettings,
    *,
    hosts: Mapping[str, int],
    recover: Recover | None,
    root: Path,
    mark: WorldMark,
    starts: Path | None,
) -> Channel:
    kinds = ("url", "file", "python", "sqlite")
    if [getattr(settings, kind) is not None for kind in kinds].count(True) != 1:
        raise ValueError(f"channel `{name}` needs exactly one of {', '.join(f'`{kind}`' for kind in kinds)}")
    match settings:
        case ChannelSettings(url=str(url)):
            return HttpChannel(name, url, timeout=settings.timeout, hosts=hosts, recover=recover, mark=mark)
        case ChannelSettings(file=str(file)):
            return FileChannel(name, root / file, timeout=settings.timeout, start=starts and starts / f"{name}.json")
        case ChannelSettings(python=str(target)):
            return PythonChannel(name, target, restore=settings.restore, root=root, timeout=settings.timeout)
    database, table = root / str(settings.sqlite), settings.table
    return SqliteChannel(name, database, table, settings.key, settings.value, settings.timeout)
