"""What happened around a call: one frozen value for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Retrying:
    """A call failed, and is made again after `delay` seconds."""

    type: ClassVar[str] = "retry"
    name: str
    attempt: int
    """1 for the first retry."""
    retries: int
    """How many there may be; extra attempts after the first."""
    delay: float
    error: str
    category: str = ""
    code: str = ""
    """Of the failure; so are the next two. Empty where a policy does not know."""
    severity: str = ""
    source: str = ""
    """Who failed: `client` (browser, agent, harness), `server` (site, service, channel) or `hook`."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing was sent, and nothing is for at most `seconds`: a circuit is open. That is neither attempt nor retry."""

    type: ClassVar[str] = "waiting"
    name: str
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class SlotAwaited:
    """A task has waited for `seconds`, and goes on waiting, as tasks of this or another run hold the one state."""

    type: ClassVar[str] = "waiting-for-slot"
    task: str
    folder: str
    """Of the locks: who holds one, holds a slot."""
    seconds: float


@dataclass(frozen=True, slots=True)
class CircuitChanged:
    """A breaker went from one state to another."""

    type: ClassVar[str] = "circuit-state-change"
    circuit: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True)
class FellBack:
    """The next of a fallback chain is tried."""

    type: ClassVar[str] = "fallback"
    name: str
    before: str
    """What failed: the primary, or the one before in the chain."""
    after: str
    """What is tried instead."""
    error: str


@dataclass(frozen=True, slots=True)
class Degraded:
    """Nothing of a fallback chain worked: the degraded answer is given."""

    type: ClassVar[str] = "degraded"
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """A call succeeded after it had failed, `after` seconds since its first failure."""

    type: ClassVar[str] = "recovered"
    name: str
    after: float
    attempts: int
    category: str = ""


@dataclass(frozen=True, slots=True)
class GaveUp:
    """A call failed for good. `exhausted`: it was retried, as often as it may be; else a retry cannot help."""

    type: ClassVar[str] = "failed"
    name: str
    error: str
    exhausted: bool
    category: str = ""
    code: str = ""
    severity: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Escalated:
    """A call has not answered in `waited` seconds; `limit` is how long is waited in all now, None: no longer.

    The work itself goes on.
    """

    type: ClassVar[str] = "escalated"
    name: str
    waited: float
    limit: float | None


@dataclass(frozen=True, slots=True)
class ServiceChanged:
    """A service went from one state to another."""

    type: ClassVar[str] = "service-status"
    service: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True)
class InvariantBroken:
    """States that exclude each other were seen together; `states` is the snapshot."""

    type: ClassVar[str] = "invariant-violated"
    rule: str
    states: Mapping[str, str] = field(default_factory=dict)


ResilienceEvent = (
    Retrying
    | Waiting
    | SlotAwaited
    | CircuitChanged
    | FellBack
    | Degraded
    | Recovered
    | GaveUp
    | Escalated
    | ServiceChanged
    | InvariantBroken
)
Emit = Callable[[ResilienceEvent], None]
"""Called in the moment, in the loop of the call: it must not block."""


def nobody(event: ResilienceEvent) -> None:
    """Emit to nobody."""


def document(event: ResilienceEvent) -> dict[str, Any]:
    """The event as plain JSON, its `type` first."""
    return {"type": event.type, **asdict(event)}
