"""Memory and environment of a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Json = Any
"""A JSON value."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The world's side of a checkpoint."""

    entries: dict[str, Json]
    """Key -> MemoryKV entry."""
    environment: dict[str, Json]
    """Channel -> document, of the channels that can be written."""
    whole: bool
    """Whether that is the whole environment: every channel there is, and at least one.

    Only then going back undoes what the steps did, and a `write` may be done again (DESIGN 4.2).
    """
    refused: str = ""
    """Why the environment is not put back although it could be written: the isolation of the project forbids it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Memory and environment at the end; None where it was not taken."""

    memory: dict[str, Json] | None = None
    environment: dict[str, Json] | None = None
    why: str = "the task had not begun"
    """Why what is None was not taken."""


class World(Protocol):
    """Memory and environment of one task or episode (DESIGN 4.9). Channels raise Failed when unreadable."""

    def memory(self) -> Mapping[str, Json]:
        """Key -> value, as of the last `synchronize` and what was remembered since."""
        ...

    def remember(self, key: str, value: Json, source: str) -> None: ...

    async def synchronize(self) -> None:
        """Write what was remembered to where the system under test keeps its memory, and read what stands there now.

        Nothing, where the memory is the harness's own. Raises Failed.
        """
        ...

    def entries(self) -> dict[str, Json]:
        """Key -> MemoryKV entry (key, value, ts, source, confidence)."""
        ...

    async def channel(self, name: str) -> Json: ...

    async def merge(self, name: str, path: str, value: Json) -> None:
        """Write one value into a channel."""
        ...

    async def save(self) -> Kept:
        """Memory, and the environment where its channels can be written (DESIGN 4.5). Raises Failed."""
        ...

    async def changed(self, kept: Kept) -> bool:
        """Whether a document of the environment is another one than was saved. Raises Failed."""
        ...

    async def restore(self, kept: Kept) -> tuple[str, ...]:
        """Back to what was saved; then compared. Returns what differs, a line each. Raises Failed."""
        ...

    async def snapshot(self) -> dict[str, Json]:
        """Every channel's document; a channel that cannot be read is `{"error": ...}`."""
        ...

    async def begin(self) -> None:
        """Make the world ready: initial memory, the world's clock."""
        ...
