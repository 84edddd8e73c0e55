"""The values around a circuit breaker: its state, its settings, what is saved of it, and how it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Of a circuit, spelled as specs/000 does."""

    CLOSED = "closed"
    """Calls go through."""
    OPEN = "open"
    """Calls are refused."""
    HALF_OPEN = "half_open"
    """One call at a time goes through, to see."""


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """When a circuit opens and closes (DESIGN 8). Raises ValueError for a number that makes no sense."""

    failure_threshold: int = 5
    """So many failures in a row open it."""
    success_threshold: int = 2
    """So many good probes close it (specs/000: 1)."""
    reset_seconds: float = 30.0
    """How long it rests, open, before a probe is admitted."""
    volume_threshold: int = 0
    """It opens only after so many calls since it last closed (specs/004: 10)."""
    probe_seconds: float = 60.0
    """A probe that has not ended by then has lost its place: the next caller is admitted, here or elsewhere."""

    def __post_init__(self) -> None:
        least = {"failure_threshold": 1, "success_threshold": 1, "reset_seconds": 0, "volume_threshold": 0}
        for name, bound in least.items():
            if not getattr(self, name) >= bound:
                raise ValueError(f"breaker setting {name}: expected at least {bound}, found {getattr(self, name)!r}")
        if not self.probe_seconds > 0:
            raise ValueError(f"breaker setting probe_seconds: expected more than 0, found {self.probe_seconds!r}")


@dataclass(frozen=True, slots=True)
class Transition:
    """A circuit went from one state to another, at `at` (monotonic seconds)."""

    at: float
    before: State
    after: State
    reason: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is saved of a circuit. Times are seconds of the time of day (Unix time)."""

    state: State
    failures: int
    successes: int
    """Good probes since it is half-open."""
    calls: int
    """Calls that ended since it last closed."""
    error: str
    """The last failure, in words."""
    opened_at: float | None
    """None when closed."""
    probe_until: float | None
    """Until when the probe that is out keeps its place; None: none is out."""
    generation: int
    reason: str
    """Of the last transition."""
    saved_at: float


class CircuitOpen(Exception):  # noqa: N818 - it names the state that refuses, as the code CIRCUIT_OPEN does
    """A call was refused, and nothing was sent."""

    def __init__(self, name: str, reopens_in: float, error: str, failures: int, probing: bool = False) -> None:
        super().__init__(name, reopens_in, error, failures, probing)
        self.name = name
        self.reopens_in = reopens_in
        """Seconds until a call is admitted; while another is the probe, the longest that this may take."""
        self.error = error
        """The last failure that the circuit counted."""
        self.failures = failures
        self.probing = probing
        """Another call is under way to see whether it works again."""

    def __str__(self) -> str:
        last = f", the last: {self.error}" if self.error else ""
        then = "another call is trying it now" if self.probing else f"it is tried again in {self.reopens_in:.1f} s"
        count = "1 failure" if self.failures == 1 else f"{self.failures} failures in a row"
        return f"circuit {self.name} is open after {count}{last}; {then}"
