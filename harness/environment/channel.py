"""The port of every kind of environment channel, and its failures."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Protocol
from weakref import WeakValueDictionary

from harness.criteria import assign
from harness.criteria.paths import PathError
from harness.recovery.failure import Failed, Failure

MAX_DOCUMENT = 10_000_000
"""The largest document in bytes; a larger one is refused."""


class Refused(Failed):
    """The channel was reached and refused the request; any other Failed means that it was not reached."""


class Channel(Protocol):
    """A JSON document of the system under test, one for each world. All methods raise Failed."""

    async def read(self, world: str) -> Any: ...

    async def writable(self) -> bool:
        """Return whether the document can be replaced. Whether the other side accepts it is not known."""
        ...

    async def write(self, world: str, path: str, value: Any) -> None:
        """Write one value into the document."""
        ...

    async def restore(self, world: str, document: Any) -> None:
        """Replace the whole document."""
        ...

    async def merge(self, world: str, patch: Any) -> bool:
        """Apply a merge patch (RFC 7386). Returns False, with nothing written, if the channel cannot do that."""
        ...

    async def resettable(self) -> bool:
        """Return whether it can be reset."""
        ...

    async def reset(self, world: str) -> None:
        """Reset the document to the initial state of the system under test."""
        ...

    async def close(self) -> None: ...


class WorldLocks:
    """A lock for each world; it exists while it is held or waited for."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, world: str) -> asyncio.Lock:
        return self._locks.setdefault(world, asyncio.Lock())


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


def assigned(name: str, document: Any, path: str, value: Any) -> Any:
    """The document with the value at the path. Raises Failed if the path does not fit."""
    try:
        return assign(document, path, value)
    except PathError as error:
        raise refusal(name, f"cannot write to {path!r}: {error}") from error
