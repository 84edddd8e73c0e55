"""Backoff: a finite series of delays."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct


class Backoff(Struct, frozen=True):
    """Delays in seconds: initial, initial*multiplier, ..., never above cap.

    `retries` counts extra attempts after the first. `jitter` is the share by which a delay may
    differ either way; the result is clamped to the cap again.
    """

    retries: int = 3
    initial: float = 1.0
    multiplier: float = 2.0
    cap: float = 30.0
    jitter: float = 0.0

    def delays(self, random: Callable[[], float] = lambda: 0.5) -> Iterator[float]:
        """`random` yields values in [0, 1); the default, 0.5, means no jitter at all."""
        delay = self.initial
        for _ in range(self.retries):
            capped = min(delay, self.cap)
            yield min(max(0.0, capped * (1 + self.jitter * (2 * random() - 1))), self.cap)
            delay = min(delay * self.multiplier, self.cap)
