"""What driver, slot and child tell each other: a line of JSON for each message (docs/design/cluster.md)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec
from msgspec import Struct

from harness.model.ledger import Word


class Collected(Struct, frozen=True, tag="collected"):
    """The child has collected the project's items, and waits for batches."""

    items: int


class Beat(Struct, frozen=True, tag="beat"):
    """A sign of life of the child, counted from 1."""

    number: int


class Noted(Struct, frozen=True, tag="noted"):
    """A line of the child's journal; it is sent before what it says is done."""

    node: str
    word: Word


class WriteAsked(Struct, frozen=True, tag="asks"):
    """The child waits for the acknowledgement before the first write of a task."""

    node: str
    number: int


class Told(Struct, frozen=True, tag="told"):
    """A line of the event log."""

    line: str


class Warned(Struct, frozen=True, tag="warned"):
    """A warning that a test has caused."""

    category: str
    message: str
    node: str
    place: tuple[str, int, str] | None = None


class Done(Struct, frozen=True, tag="done"):
    """An item has been done: all reports of its setup, call and teardown, and the file with what it has left."""

    node: str
    attempt: int
    location: tuple[str, int | None, str]
    reports: tuple[dict[str, Any], ...]
    files: str = ""
    """The archive of its files on the node; empty: it has left none."""
    lost: str = ""
    """Which of its files do not travel, or do not reach the store of the run, and why."""
    stored: str = ""
    """Where its directory is in the store of the run; empty: the child has not put it there."""


class NotCollected(Struct, frozen=True, tag="absent"):
    """The child has not collected an item of its batch."""

    node: str
    why: str = ""
    """The error that its file or folder has had; empty: there was none."""


class Idle(Struct, frozen=True, tag="idle"):
    """The child has done its batch, and waits for the next one."""

    batch: int


class Ended(Struct, frozen=True, tag="ended"):
    """The child has ended its session regularly."""

    output: dict[str, Any]
    interrupted: tuple[dict[str, Any], ...] = ()
    """The records of the tasks that an interruption ended."""
    files: str = ""


class Died(Struct, frozen=True, tag="died"):
    """The child's process has ended; the slot says so."""

    code: int | None
    tail: tuple[str, ...] = ()
    """The end of its log."""


class Leaving(Struct, frozen=True, tag="leaving"):
    """The slot's machine is being taken away (SIGTERM, a spot notice): it takes no further batch."""


FromSlot = Collected | Beat | Noted | WriteAsked | Told | Warned | Done | NotCollected | Idle | Ended | Died | Leaving


class Batch(Struct, frozen=True, tag="batch"):
    """Items to run, in the order in which the child has collected them."""

    number: int
    items: tuple[tuple[str, int], ...]
    """Node id and attempt, 1 for the first."""
    afresh: str = ""
    """The suffix of the worlds of tasks that run again."""
    done: dict[str, bool] = {}
    """Tasks of other batches that these depend on -> whether they passed."""


class WriteAnswer(Struct, frozen=True, tag="answer"):
    """The answer to `WriteAsked`."""

    node: str
    number: int
    granted: bool


class BeatSeen(Struct, frozen=True, tag="seen"):
    """The driver has heard this beat."""

    number: int


class End(Struct, frozen=True, tag="end"):
    """End the session: after the item that runs (`stop`), or at once (`interrupt`)."""

    how: Literal["stop", "interrupt"]


ToChild = Batch | WriteAnswer | BeatSeen | End

_encoder = msgspec.json.Encoder(enc_hook=str)
from_slot: Final[Callable[[bytes], FromSlot]] = msgspec.json.Decoder(FromSlot).decode
"""Read a message of a child or slot. Raises ValueError."""
to_child: Final[Callable[[bytes], ToChild]] = msgspec.json.Decoder(ToChild).decode
"""Read a message of the driver. Raises ValueError."""


def encode(message: FromSlot | ToChild) -> bytes:
    """A message as a line. Values that JSON does not have become their text; halves of characters become `\\udcff`."""
    try:
        return _encoder.encode(message) + b"\n"
    except UnicodeEncodeError:
        escaped = _mapped(
            msgspec.to_builtins(message, enc_hook=str), lambda text: text.encode("utf-8", "backslashreplace").decode()
        )
        return _encoder.encode(escaped) + b"\n"


PLACE = "{taskspec-artifacts}"
"""Stands in reports for the folder of artifacts, which is another one on the driver's machine."""
ALLURE = ".allure"
"""The folder of an archive with Allure's files; no task has a key that begins with a dot."""


def replaced(value: Any, old: str, new: str) -> Any:
    """A JSON value with this text replaced in all its strings."""
    return _mapped(value, lambda text: text.replace(old, new))


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {_mapped(key, change): _mapped(each, change) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_mapped(each, change) for each in value)
    return value


# Messages over a connection that may break: numbered, kept until they are acknowledged, and taken once, in order.

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
