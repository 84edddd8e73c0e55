"""A channel in a JSON file, the same for every world."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.resilience.threads import on_own_thread
from harness.world.channel import MAX_DOCUMENT, assigned, corrupt, encoded, refused, rejected, unreadable

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
