"""Messages over a connection that may break: numbered, kept until they are acknowledged, and taken once, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class SendBuffer(Generic[T]):
    """What one side sends. It is sent again until the other side says that it has come."""

    def __init__(self) -> None:
        self.number = 0
        """The number of the last message."""
        self._kept: deque[tuple[int, T]] = deque()

    def put(self, message: T) -> tuple[int, T]:
        """Number a message, and keep it."""
        self.number += 1
        numbered = (self.number, message)
        self._kept.append(numbered)
        return numbered

    def acknowledged(self, number: int) -> None:
        """The other side has this message, and all before it."""
        while self._kept and self._kept[0][0] <= number:
            self._kept.popleft()

    @property
    def kept(self) -> list[tuple[int, T]]:
        """What is not acknowledged yet, in order."""
        return list(self._kept)


class ReceiveBuffer(Generic[T]):
    """What the other side receives, whatever comes twice, or before what was sent earlier."""

    def __init__(self) -> None:
        self.number = 0
        """The number of the last message that was taken: it is acknowledged with it."""
        self._early: dict[int, T] = {}

    def take(self, messages: Iterable[tuple[int, T]]) -> list[T]:
        """The messages whose turn has come. Later ones wait for those that are still missing."""
        self._early |= {number: message for number, message in messages if number > self.number}
        found: list[T] = []
        while self.number + 1 in self._early:
            self.number += 1
            found.append(self._early.pop(self.number))
        return found
