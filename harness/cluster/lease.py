"""The lease of a slot: when the driver gives its work away, and when its child must have stopped to write.

The child counts from the moment at which it *sent* the last beat that the driver has seen; the driver counts from the
moment at which it *heard* the last one. So the child always stops first, whatever the line between them loses or
delays (docs/design/cluster.md). A child that has been given nothing may wait for its driver, which still collects.
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

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sent: OrderedDict[int, float] = OrderedDict()
        self._began = clock.now()
        self._since: float | None = None
        """When the last beat that was seen was sent; None: the driver need not be there yet."""

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
        if self._since is not None and not self.closed:
            self._since = max(self._since, at)
        elif self._since is None and self._clock.now() - at < FENCE:  # older ones were sent to nobody
            self._since = at

    def given(self) -> None:
        """The child has been given work, so its driver is there, and has to see its beats."""
        if self._since is None:
            self._since = self._began

    @property
    def closed(self) -> bool:
        """Whether no write may begin any more, and the child has to end. It stays so."""
        return self._since is not None and self._clock.now() - self._since >= FENCE
