"""A call that takes too long is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Final, TypeVar

from harness.resilience.breaker import Call, Policy

T = TypeVar("T")

TOOL_TIMEOUTS: Final[Mapping[str, float]] = {"bash": 300.0, "read_file": 10.0, "edit_file": 30.0, "search": 60.0}
"""Seconds for tools of these names (001), unless the project sets others."""
OPERATIONS: Final[Mapping[str, float]] = {
    "llm-call": 60.0,
    "tool-execution": 120.0,
    "file-read": 5.0,
    "web-fetch": 30.0,
}
"""Seconds for operations of these names."""
DEFAULT: Final = 30.0
"""Seconds for any other operation."""


class LimitExceeded(TimeoutError):  # noqa: N818 - it names what happened
    """The call was cancelled because its time was up."""

    def __init__(self, operation: str, seconds: float) -> None:
        super().__init__(operation, seconds)
        self.operation = operation
        self.seconds = seconds

    def __str__(self) -> str:
        return f"{self.operation} took longer than {self.seconds:g} s"


def limit(seconds: float | None = None, name: str = "call") -> Policy[T]:
    """Cancel the call when it has not ended after `seconds`, and raise LimitExceeded.

    Without seconds, the name of the operation gives them (`OPERATIONS`), else `DEFAULT`.

    Only its own limit is reported so: a TimeoutError of the call, a cancellation from outside and an outer
    `asyncio.timeout` pass unchanged. A call that ignores cancellation is waited for: put `escalate` around such a call.
    Raises ValueError for seconds below zero.
    """
    if seconds is None:
        seconds = OPERATIONS.get(name, DEFAULT)
    if not seconds >= 0:
        raise ValueError(f"limit of {name}: expected seconds from 0 on; found {seconds}")

    def around(call: Call[T]) -> Call[T]:
        async def limited() -> T:
            ring = asyncio.timeout(seconds)
            try:
                async with ring:
                    return await call()
            except TimeoutError as error:
                if ring.expired():
                    raise LimitExceeded(name, seconds) from error
                raise

        return limited

    return around


async def paced(items: AsyncIterator[T], first: float, idle: float, name: str = "call") -> AsyncGenerator[T]:
    """The items of a stream; LimitExceeded if the first takes longer than `first` seconds, or a later one than `idle`.

    The wait for an item that is too late is cancelled; the stream is the caller's to close.
    """
    seconds, what = first, f"the first part of the answer of {name}"
    while True:
        ring = asyncio.timeout(seconds)
        try:
            async with ring:
                item = await anext(items)
        except StopAsyncIteration:
            return
        except TimeoutError as error:
            if ring.expired():
                raise LimitExceeded(what, seconds) from error
            raise
        yield item
        seconds, what = idle, f"the next part of the answer of {name}"
