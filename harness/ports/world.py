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


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Memory and environment at the end; None where the strategy does not want it."""

    memory: dict[str, Json] | None = None
    environment: dict[str, Json] | None = None


class World(Protocol):
    """Memory and environment of one task or episode (DESIGN 4.9). Channels raise Failed when unreadable."""

    def memory(self) -> Mapping[str, Json]: ...

    def remember(self, key: str, value: Json, source: str) -> None: ...

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

    async def restore(self, kept: Kept) -> tuple[str, ...]:
        """Back to what was saved; then compared. Returns what differs, a line each. Raises Failed."""
        ...

    async def snapshot(self) -> dict[str, Json]:
        """Every channel's document; a channel that cannot be read is `{"error": ...}`."""
        ...

    async def begin(self) -> None:
        """Make the world ready: initial memory, the world's clock."""
        ...
