"""A channel in a JSON file, the same for every world."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from harness.world.channel import MAX_DOCUMENT, assigned, refused, unreadable


class FileChannel:
    """Reads and replaces the file as a whole. `timeout` is seconds for one of the two."""

    def __init__(self, name: str, path: Path, *, timeout: float) -> None:
        self._name = name
        self._path = path
        self._timeout = timeout
        self._writing = asyncio.Lock()

    async def read(self, world: str) -> Any:  # noqa: ARG002 - one file for every world
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.to_thread(self._load)
        except (OSError, ValueError, RecursionError) as error:
            raise unreadable(self._name, f"{self._path} cannot be read: {_words(error)}", error) from error

    async def write(self, world: str, path: str, value: Any) -> None:
        async with self._writing:
            await self.restore(world, assigned(self._name, await self.read(world), path, value))

    async def restore(self, world: str, document: Any) -> None:  # noqa: ARG002
        try:
            async with asyncio.timeout(self._timeout):
                await asyncio.to_thread(self._store, document)
        except OSError as error:
            raise unreadable(self._name, f"{self._path} cannot be written: {_words(error)}", error) from error

    async def reset(self, world: str) -> None:  # noqa: ARG002
        raise refused(self._name, "a file cannot be reset")

    async def close(self) -> None:
        """Nothing is held open."""

    def _load(self) -> Any:
        with self._path.open("rb") as file:
            content = file.read(MAX_DOCUMENT + 1)
        if len(content) > MAX_DOCUMENT:
            raise ValueError(f"it is larger than {MAX_DOCUMENT} bytes")
        return json.loads(content)

    def _store(self, document: Any) -> None:
        """A reader sees the old file or the new one, never half of one."""
        scratch = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            scratch.write_text(json.dumps(document, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
            scratch.replace(self._path)
        finally:
            scratch.unlink(missing_ok=True)


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
