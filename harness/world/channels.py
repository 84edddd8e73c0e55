"""The environment channels of a project, by name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harness.criteria.paths import PathError, quoted
from harness.model.settings import ChannelSettings, WorldMark
from harness.recovery.failure import Failed, Failure
from harness.world.channel import Channel, corrupt, refused
from harness.world.file_channel import FileChannel
from harness.world.http_channel import HttpChannel, Recover
from harness.world.python_channel import PythonChannel
from harness.world.sqlite_channel import SqliteChannel


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
