"""What follows a failure: a wait before the next attempt, or the end. Decides only; `retry` waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.resilience.deadline import Deadline
from harness.resilience.verdict import Category, Verdict


@dataclass(frozen=True, slots=True)
class Stop:
    """No further attempt."""

    reason: str = ""
    """Why, where it is neither the error itself nor the number of attempts."""


@dataclass(slots=True)
class Budget:
    """The retries of one call: so many in all, and for errors of one kind at most what their verdict says.

    A kind is a category and a `max_retries`: name resolution (2) and refused connections are both `network`, and do not
    use up each other's.
    """

    total: int
    delays: Iterator[float]
    """The schedule's, in seconds; each retry takes one, also where a suggestion takes its place."""
    max_suggested: float
    cap: float | None = None
    until: Deadline | None = None
    used: int = 0
    allowed: int = 0
    """How many retries there may be in all, as far as the last verdict tells."""
    _of_kind: Counter[tuple[Category, int | None]] = field(default_factory=Counter)

    def after(self, verdict: Verdict, now: float) -> float | Stop:
        """Seconds to wait before the next attempt, which is hereby spent, or the end; `now` is monotonic."""
        left = self._left(verdict)
        if not verdict.retryable or left <= 0:
            return Stop()
        delay = self._delay(verdict)
        if isinstance(delay, Stop):
            return delay
        if self.until and not self.until.allows(delay, now):
            return Stop(f"a wait of {delay:g} s would not end before the deadline")
        self.allowed = self.used + left
        self.used += 1
        self._of_kind[verdict.category, verdict.max_retries] += 1
        return delay

    def _left(self, verdict: Verdict) -> int:
        left = self.total - self.used
        if verdict.max_retries is None:
            return left
        return min(left, verdict.max_retries - self._of_kind[verdict.category, verdict.max_retries])

    def _delay(self, verdict: Verdict) -> float | Stop:
        planned, asked = next(self.delays, None), verdict.suggested_delay
        if planned is None:
            return Stop()
        if asked is None:
            return float(planned if self.cap is None else min(planned, self.cap))
        if asked > self.max_suggested:
            return Stop(f"the other side asks to wait {asked:g} s, more than the {self.max_suggested:g} s allowed")
        return max(0.0, float(asked))
