"""A channel in a JSON file, the same for every world."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from harness.resilience.own_thread import on_own_thread
from harness.world.channel import MAX_DOCUMENT, assigned, encoded, refused, rejected, unreadable

READABLE = 200_000
"""Bytes; a larger document is written without line breaks: they would cost seconds, and triple its size."""


class FileChannel:
    """Reads and replaces the file as a whole. `timeout` is seconds for one of the two.

    Each has a thread of its own: a pipe, or a file on a server that is gone, may hold one for ever.
    """

    def __init__(self, name: str, path: Path, *, timeout: float) -> None:
        self._name = name
        self._path = path
        self._timeout = timeout
        self._writing = asyncio.Lock()

    async def read(self, world: str) -> Any:  # noqa: ARG002 - one file for every world
        try:
            async with asyncio.timeout(self._timeout):
                return await on_own_thread(self._load)
        except TimeoutError as error:
            raise unreadable(self._name, f"{self._path} cannot be read: it took too long", error) from error
        except (OSError, ValueError, RecursionError) as error:
            raise rejected(self._name, f"{self._path} cannot be read: {_words(error)}", error) from error

    async def writable(self) -> bool:
        return True

    async def write(self, world: str, path: str, value: Any) -> None:
        async with self._writing:
            await self._replace(assigned(self._name, await self.read(world), path, value))

    async def restore(self, world: str, document: Any) -> None:  # noqa: ARG002
        async with self._writing:
            await self._replace(document)

    async def reset(self, world: str) -> None:  # noqa: ARG002
        raise refused(self._name, "a file cannot be reset")

    async def close(self) -> None:
        """Nothing is held open."""

    async def _replace(self, document: Any) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await on_own_thread(self._store, document)
        except TimeoutError as error:
            raise unreadable(self._name, f"{self._path} cannot be written: it took too long", error) from error
        except (OSError, ValueError, RecursionError) as error:
            raise rejected(self._name, f"{self._path} cannot be written: {_words(error)}", error) from error

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
        target = self._path.resolve()  # a link stays one
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
