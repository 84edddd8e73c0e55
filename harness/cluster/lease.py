"""The lease of a slot: when the driver gives its work away, and when its child must have stopped to write.

The child counts from the moment at which it *sent* the last beat that the driver has seen; the driver counts from the
moment at which it *heard* the last one. So the child always stops first, whatever the line between them loses or
delays (docs/design/cluster.md).
"""

from __future__ import annotations

from collections import OrderedDict

from harness.resilience import Clock

BEAT = 5.0
"""Seconds between two beats of a child."""
LEASE = 30.0
"""Seconds after the last beat that the driver heard, after which it gives the slot's work away."""
FENCE = 25.0
"""Seconds after the last beat that was seen, after which a child begins no write and ends."""
ACKNOWLEDGED = 10.0
"""Seconds that a task waits for the acknowledgement before its first write."""


class Lease:
    """The driver's side."""

    def __init__(self, clock: Clock, seconds: float = LEASE) -> None:
        self._clock = clock
        self._seconds = seconds
        self._until = clock.now() + seconds

    def heard(self) -> None:
        """The slot has given a sign of life. One that comes after the end changes nothing."""
        if not self.over:
            self._until = self._clock.now() + self._seconds

    @property
    def over(self) -> bool:
        """Whether the slot's work may be given away."""
        return self._clock.now() >= self._until


class Fence:
    """The child's side."""

    def __init__(self, clock: Clock, seconds: float = FENCE) -> None:
        self._clock = clock
        self._seconds = seconds
        self._sent: OrderedDict[int, float] = OrderedDict()
        self._since = clock.now()

    def sends(self, number: int) -> None:
        """A beat is about to leave."""
        self._sent[number] = self._clock.now()

    def seen(self, number: int) -> None:
        """The driver has heard a beat. Beats come in order, so it has had the chance to hear all before it."""
        at = self._sent.get(number)
        if at is None:
            return
        for earlier in [each for each in self._sent if each <= number]:
            del self._sent[earlier]
        if not self.closed:
            self._since = max(self._since, at)

    @property
    def closed(self) -> bool:
        """Whether no write may begin any more, and the child has to end. It stays so."""
        return self._clock.now() - self._since >= self._seconds
