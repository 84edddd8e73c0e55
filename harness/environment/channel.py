"""The port of every kind of environment channel, its failures, and the placeholders in the settings of channels."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from msgspec import Struct

from harness.criteria import assign
from harness.criteria.paths import PathError
from harness.model.service_settings import expand
from harness.recovery.failure import Failed, Failure

MAX_DOCUMENT = 10_000_000
"""The largest document in bytes; a larger one is refused."""


class Refused(Failed):
    """The channel was reached and refused the request; any other Failed means that it was not reached."""


class Channel(ABC):
    """A JSON document of the system under test, one for each world. All methods raise Failed."""

    one_for_all: ClassVar[bool] = False
    """Whether all worlds share one document."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """World -> its lock, while it is held or waited for."""

    def _writing(self, world: str) -> asyncio.Lock:
        return self._locks.setdefault("" if self.one_for_all else world, asyncio.Lock())

    @abstractmethod
    async def read(self, world: str) -> Any: ...

    @abstractmethod
    async def writable(self) -> bool:
        """Return whether the document can be replaced. Whether the other side accepts it is not known."""

    @abstractmethod
    async def _replace(self, world: str, document: Any) -> None:
        """Replace the whole document; the caller holds the lock."""

    async def write(self, world: str, path: str, value: Any) -> None:
        """Write one value into the document."""
        async with self._writing(world):
            document = await self.read(world)
            try:
                document = assign(document, path, value)
            except PathError as error:
                raise refusal(self._name, f"cannot write to {path!r}: {error}") from error
            await self._replace(world, document)

    async def restore(self, world: str, document: Any) -> None:
        """Replace the whole document."""
        async with self._writing(world):
            await self._replace(world, document)

    async def merge(self, world: str, patch: Any) -> bool:  # noqa: ARG002
        """Apply a merge patch (RFC 7386). Returns False, with nothing written, if the channel cannot do that."""
        return False

    async def resettable(self) -> bool:
        """Return whether it can be reset."""
        return False

    @abstractmethod
    async def reset(self, world: str) -> None:
        """Reset the document to the initial state of the system under test."""

    async def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Close its connections."""


def unreadable(name: str, what: str, cause: BaseException | None = None) -> Failed:
    """The failure of a channel that does not answer, with its cause in words."""
    return Failed(_failure("CHANNEL_UNREADABLE", name, what, cause))


def rejected(name: str, what: str, cause: BaseException | None = None) -> Refused:
    """The failure of a channel that answers with an error, or with something that is no document."""
    return Refused(_failure("CHANNEL_UNREADABLE", name, what, cause))


def corrupt(name: str, what: str, cause: BaseException | None = None) -> Refused:
    """The failure of a damaged document: it does not parse, or violates the project's schema for it."""
    return Refused(_failure("DATA_CORRUPTION", name, what, cause))


def refusal(name: str, what: str) -> Refused:
    """The failure of a request that this channel can never fulfil."""
    return Refused(_failure("INVALID_INPUT", name, what))


def _failure(code: str, name: str, what: str, cause: BaseException | None = None) -> Failure:
    return Failure(code, f"channel `{name}`: {what}", details={"channel": name}, cause=cause)


def encoded(document: Any, indent: int | None = None) -> bytes:
    """Encode as JSON, compact unless `indent`ed. Raises TypeError for other values, RecursionError if too deep."""
    separators = (",", ":") if indent is None else None
    try:
        return json.dumps(document, ensure_ascii=False, indent=indent, separators=separators).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can express only as an escape
        return json.dumps(document, indent=indent, separators=separators).encode()


class SlotPlaceholders(Struct, frozen=True):
    """`{slot}`, `{port:HOST}`, `{folder}` and `{folder:NAME}` of one slot, looked up each time: a service may move."""

    slot: int = 0
    hosts: Mapping[str, int] = {}
    folders: Mapping[str, Callable[[], Path]] = {}
    """Name of a service -> what returns its `{folder}`, for the services that a run starts. It raises OSError."""

    def fill(self, text: str) -> str:
        """The text with the values of this moment. Raises OSError, or KeyError for what the settings do not know."""
        return expand(text, self)

    def __getitem__(self, placeholder: str) -> str:
        kind, _, target = placeholder.partition(":")
        if kind == "slot":
            return str(self.slot)
        if kind == "port":
            return str(self.hosts[target])
        found = {name.lower(): folder for name, folder in self.folders.items()}
        return str((found[target] if target else next(iter(found.values())))())
