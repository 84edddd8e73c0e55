"""What every kind of environment channel can do, and how it says that it cannot."""

from __future__ import annotations

from typing import Any, Protocol

from harness.criteria import assign
from harness.criteria.paths import PathError
from harness.failure import Failed, Failure

MAX_DOCUMENT = 10_000_000
"""Bytes of a document; more is refused."""


class Channel(Protocol):
    """A JSON document of the system under test, one for each world. All raise Failed."""

    async def read(self, world: str) -> Any: ...

    async def write(self, world: str, path: str, value: Any) -> None:
        """Put one value into the document."""
        ...

    async def restore(self, world: str, document: Any) -> None:
        """Replace the whole document."""
        ...

    async def reset(self, world: str) -> None:
        """Back to the state that the system under test starts from."""
        ...

    async def close(self) -> None: ...


def unreadable(name: str, what: str, cause: BaseException | None = None) -> Failed:
    """The failure of a channel, with its cause in words."""
    return Failed(Failure("CHANNEL_UNREADABLE", f"channel `{name}`: {what}", details={"channel": name}, cause=cause))


def refused(name: str, what: str) -> Failed:
    """The failure of a demand that this channel can never fulfil."""
    return Failed(Failure("INVALID_INPUT", f"channel `{name}`: {what}", details={"channel": name}))


def assigned(name: str, document: Any, path: str, value: Any) -> Any:
    """The document with the value at the path. Raises Failed when the path does not fit."""
    try:
        return assign(document, path, value)
    except PathError as error:
        raise refused(name, f"cannot write to {path!r}: {error}") from error
