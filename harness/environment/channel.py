"""What every kind of environment channel can do, and how it says that it cannot."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Protocol
from weakref import WeakValueDictionary

from harness.criteria import assign
from harness.criteria.paths import PathError
from harness.recovery.failure import Failed, Failure

MAX_DOCUMENT = 10_000_000
"""Bytes of a document; more is refused."""


class Refused(Failed):
    """The channel was reached, and did not do what it was asked; any other Failed: it was not reached."""


class Channel(Protocol):
    """A JSON document of the system under test, one for each world. All raise Failed."""

    async def read(self, world: str) -> Any: ...

    async def writable(self) -> bool:
        """Whether there is a way to replace the document; that the other side then agrees is not known."""
        ...

    async def write(self, world: str, path: str, value: Any) -> None:
        """Put one value into the document."""
        ...

    async def restore(self, world: str, document: Any) -> None:
        """Replace the whole document."""
        ...

    async def merge(self, world: str, patch: Any) -> bool:
        """Apply a merge patch (RFC 7386), where the channel can; False: it cannot, and nothing was written."""
        ...

    async def resettable(self) -> bool:
        """Whether there is a way to reset it."""
        ...

    async def reset(self, world: str) -> None:
        """Back to the state that the system under test starts from."""
        ...

    async def close(self) -> None: ...


class WorldLocks:
    """A lock for each world, as long as somebody holds it or waits for it."""

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
    """The failure of a document that is damaged: it does not parse, or breaks the project's schema for it."""
    return Refused(_failure("DATA_CORRUPTION", name, what, cause))


def refused(name: str, what: str) -> Refused:
    """The failure of a demand that this channel can never fulfil."""
    return Refused(_failure("INVALID_INPUT", name, what))


def _failure(code: str, name: str, what: str, cause: BaseException | None = None) -> Failure:
    return Failure(code, f"channel `{name}`: {what}", details={"channel": name}, cause=cause)


def encoded(document: Any, indent: int | None = None) -> bytes:
    """As JSON, compact unless `indent`ed. Raises TypeError for what is not JSON, RecursionError for a very deep one."""
    separators = (",", ":") if indent is None else None
    try:
        return json.dumps(document, ensure_ascii=False, indent=indent, separators=separators).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can only say as an escape
        return json.dumps(document, indent=indent, separators=separators).encode()


def assigned(name: str, document: Any, path: str, value: Any) -> Any:
    """The document with the value at the path. Raises Failed when the path does not fit."""
    try:
        return assign(document, path, value)
    except PathError as error:
        raise refused(name, f"cannot write to {path!r}: {error}") from error
