"""What the client has asked and not heard an answer to, and when it tries to connect again. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from harness.bridge.client.losses import LinkLost, QueueFullError
from harness.resilience.breaker import Breaker

_LONGEST_QUEUE: Final = 1000
"""Messages that wait for the connection at most."""
_LARGEST_QUEUE: Final = 1024 * 1024
"""Bytes of the messages that wait for the connection at most."""
QUICK: Final = 2.0
"""Seconds: a first failure that shows itself sooner is followed by another attempt at once."""

_TICK: Final = 0.001
"""Seconds by which a wait for the circuit is longer, so that it never ends just too early."""


class KeptMessage(Struct):
    """A message without an answer yet. It keeps its id for ever: the server knows by it what it has done already."""

    id: str
    text: str
    size: int
    sent: bool = False


class Outbox:
    """The messages without an answer, in the order in which they were given."""

    def __init__(self) -> None:
        self._kept: dict[str, KeptMessage] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, id: str, text: str) -> None:  # noqa: A002 - the envelope's word
        """Keep a message until it is answered. Raises QueueFullError, and keeps what it has."""
        size = len(text.encode())
        if len(self._kept) >= _LONGEST_QUEUE or self._size + size > _LARGEST_QUEUE:
            limits = f"{_LONGEST_QUEUE:,} messages or {_LARGEST_QUEUE:,} bytes"
            raise QueueFullError("CONN_QUEUE_FULL", f"more than {limits} wait for an answer of the server")
        self._kept[id] = KeptMessage(id, text, size)
        self._size += size

    def answered(self, id: str) -> None:  # noqa: A002 - the envelope's word
        """Forget a message: its answer has come, or nobody waits for it."""
        if (found := self._kept.pop(id, None)) is not None:
            self._size -= found.size

    def unsent(self) -> Iterator[KeptMessage]:
        """What has to be sent on this connection, in order; what is added meanwhile comes too."""
        while (found := next((each for each in self._kept.values() if not each.sent), None)) is not None:
            found.sent = True
            yield found

    def again(self, id: str) -> None:  # noqa: A002 - the envelope's word
        """Send a message once more: its answer is missing, and the server keeps it under the same id."""
        if (found := self._kept.get(id)) is not None:
            found.sent = False

    def lost(self) -> None:
        """The connection was lost: whether the server has what was sent is unknown, so all of it is sent again."""
        for each in self._kept.values():
            each.sent = False

    def clear(self) -> None:
        """Forget everything: those who waited were told that it failed."""
        self._kept.clear()
        self._size = 0


class Attempts:
    """The waits before each attempt to connect, after a loss or a failed first attempt."""

    def __init__(self, delays: tuple[float, ...], circuit: Breaker) -> None:
        self._left = list(delays)
        self._circuit = circuit
        self._first = True

    def wait(self, loss: LinkLost) -> float | None:
        """Seconds until the next attempt; None: there is none.

        An open circuit makes a wait longer: its next attempt is the probe.
        """
        first, self._first = self._first, False
        if first and loss.at_once:
            return 0.0
        if not self._left:
            return None
        rests = self._circuit.rests_for()
        return max(self._left.pop(0), rests + _TICK if rests else 0.0)
