"""A point in time that everything below it must keep."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """`at` is a monotonic time in seconds, of the clock that the caller reads."""

    at: float

    @classmethod
    def after(cls, seconds: float, now: float) -> Deadline:
        return cls(now + seconds)

    def left(self, now: float) -> float:
        """Seconds until the deadline, never below zero."""
        return max(0.0, self.at - now)

    def clip(self, seconds: float, now: float) -> float:
        """`seconds`, or what is left when that is less."""
        return min(seconds, self.left(now))

    def allows(self, seconds: float, now: float) -> bool:
        """Whether a wait of `seconds` would end before the deadline (DESIGN 4.3: one that would not is not started)."""
        return seconds < self.left(now)
