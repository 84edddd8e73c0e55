"""The environment channels of a project, by name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.failure import Failed, Failure
from harness.settings import ChannelSettings
from harness.world.channel import Channel, refused
from harness.world.file_channel import FileChannel
from harness.world.http_channel import HttpChannel
from harness.world.python_channel import PythonChannel


class Channels:
    """Shared by all tasks of a run: each call says which world it speaks of. Every call raises Failed.

    `hosts` maps host names to the real ports on 127.0.0.1. Raises ValueError for settings that fit no kind.
    """

    def __init__(self, settings: Mapping[str, ChannelSettings], *, hosts: Mapping[str, int], root: Path) -> None:
        self._channels = {name: _channel(name, each, hosts, root) for name, each in settings.items()}
        self.clocks: Mapping[str, str] = {name: each.clock for name, each in settings.items() if each.clock}
        """Channel -> path that the task's `time` is written to."""
        self._readonly = frozenset(name for name, each in settings.items() if each.readonly)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._channels)

    async def read(self, name: str, world: str) -> Any:
        """The document, now."""
        return await self._named(name).read(world)

    async def writable(self, name: str) -> bool:
        """Whether there is a way to replace the document; that the other side then agrees is not known."""
        return name not in self._readonly and await self._named(name).writable()

    async def write(self, name: str, world: str, path: str, value: Any) -> None:
        """Put one value into the document."""
        await self._open(name).write(world, path, value)

    async def restore(self, name: str, world: str, document: Any) -> None:
        """Replace the whole document."""
        await self._open(name).restore(world, document)

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


def _channel(name: str, settings: ChannelSettings, hosts: Mapping[str, int], root: Path) -> Channel:
    match settings:
        case ChannelSettings(url=str(url), file=None, python=None):
            return HttpChannel(name, url, timeout=settings.timeout, hosts=hosts)
        case ChannelSettings(url=None, file=str(file), python=None):
            return FileChannel(name, root / file, timeout=settings.timeout)
        case ChannelSettings(url=None, file=None, python=str(target)):
            return PythonChannel(name, target, restore=settings.restore, root=root, timeout=settings.timeout)
    raise ValueError(f"channel `{name}` needs exactly one of `url`, `file` and `python`")
