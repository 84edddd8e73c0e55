"""What happened around a call: one frozen value for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from msgspec import Struct, field
from msgspec.structs import asdict


class Retrying(Struct, frozen=True):
    """A call failed, and is made again after `delay` seconds."""

    type: ClassVar[str] = "retry"
    name: str
    attempt: int
    """1 for the first retry."""
    retries: int
    """The largest number of retries, that is of attempts after the first."""
    delay: float
    error: str
    category: str = ""
    code: str = ""
    """The code of the failure. It is empty where a policy does not know it, as are the next two."""
    severity: str = ""
    source: str = ""
    """The side that failed: `client` (browser, agent, harness), `server` (site, service, channel) or `hook`."""


class Waiting(Struct, frozen=True):
    """An open circuit holds a call back for at most `seconds`; nothing is sent: neither attempt nor retry."""

    type: ClassVar[str] = "waiting"
    name: str
    seconds: float
    reason: str


class SlotAwaited(Struct, frozen=True):
    """A task has waited for `seconds` and still waits: tasks of this or another run use the only shared state."""

    type: ClassVar[str] = "waiting-for-slot"
    task: str
    folder: str
    """The folder of the lock files: a task that holds one of them holds a slot."""
    seconds: float


class CircuitChanged(Struct, frozen=True):
    """A breaker went from one state to another."""

    type: ClassVar[str] = "circuit-state-change"
    circuit: str
    before: str
    after: str
    reason: str


class LoginMade(Struct, frozen=True):
    """A login that tasks share was made, in `seconds`. `reason`: why it was needed."""

    type: ClassVar[str] = "login-made"
    name: str
    seconds: float
    reason: str


class PagesEnded(Struct, frozen=True):
    """The context of a task did not close in `seconds`, so its pages were ended otherwise: they could still send."""

    type: ClassVar[str] = "pages-ended"
    world: str
    seconds: float
    how: str
    """`context`: the browser has ended all pages of the context. `browser`: it did not, and was killed."""


class FellBack(Struct, frozen=True):
    """The next call of a fallback chain is tried."""

    type: ClassVar[str] = "fallback"
    name: str
    before: str
    """The name of the call that failed: the primary one, or the one before in the chain."""
    after: str
    """The name of the call that is tried instead."""
    error: str


class Degraded(Struct, frozen=True):
    """Every call of a fallback chain failed: the degraded answer is given."""

    type: ClassVar[str] = "degraded"
    name: str
    reason: str


class Recovered(Struct, frozen=True):
    """A call succeeded after it had failed, `seconds` since its first failure."""

    type: ClassVar[str] = "recovered"
    name: str
    seconds: float
    attempts: int
    category: str = ""


class GaveUp(Struct, frozen=True):
    """A call failed for good. `exhausted`: all its retries were used up; otherwise a retry cannot help."""

    type: ClassVar[str] = "failed"
    name: str
    error: str
    exhausted: bool
    category: str = ""
    code: str = ""
    severity: str = ""
    source: str = ""


class Escalated(Struct, frozen=True):
    """A call has not answered in `waited` seconds; `limit` is the total wait now, None: the caller stops waiting.

    The work itself goes on.
    """

    type: ClassVar[str] = "escalated"
    name: str
    waited: float
    limit: float | None
    correlation_id: str = ""
    """The id under which the caller can ask for the answer, if it has one already."""


class ServiceChanged(Struct, frozen=True):
    """A service went from one state to another."""

    type: ClassVar[str] = "service-status"
    service: str
    before: str
    after: str
    reason: str


class ToolServerChanged(Struct, frozen=True):
    """A tool server went from one state to another (`model.tools.ToolState`)."""

    type: ClassVar[str] = "tool-server-status"
    server: str
    before: str
    after: str
    reason: str
    own: bool = False
    """Whether it is a server, or a connection, of one task alone, which that task's faults strike."""


class ClientChanged(Struct, frozen=True):
    """The client of a session, a program elsewhere that drives a task, came or went."""

    type: ClassVar[str] = "client-status"
    session: str
    client: str
    """Name and version of the program, as it says; empty if it does not."""
    before: str
    after: str
    """`attached`, `detached`, `lost` (it did not come back in time), `refused` (it cannot go on) or `closed`."""
    reason: str = ""
    code: str = ""
    """The code of a refusal."""
    source: str = "client"


class HookRefused(Struct, frozen=True):
    """A hook of an agent has sent an event that is not as it should be."""

    type: ClassVar[str] = "hook-refused"
    code: str
    error: str
    source: str = "hook"


class InvariantBroken(Struct, frozen=True):
    """States that exclude each other occurred together; `states` is the snapshot."""

    type: ClassVar[str] = "invariant-violated"
    rule: str
    states: Mapping[str, str] = field(default_factory=dict)


ResilienceEvent = (
    Retrying
    | Waiting
    | SlotAwaited
    | LoginMade
    | PagesEnded
    | CircuitChanged
    | FellBack
    | Degraded
    | Recovered
    | GaveUp
    | Escalated
    | ServiceChanged
    | ToolServerChanged
    | ClientChanged
    | HookRefused
    | InvariantBroken
)
Emit = Callable[[ResilienceEvent], None]
"""Receives each event at once, in the loop of the call: it must not block."""


_WRITTEN: Mapping[str, str] = {"before": "from", "after": "to"}  # `from` is a Python keyword


def discard(event: ResilienceEvent) -> None:
    """Discard the event."""


def document(event: ResilienceEvent) -> dict[str, Any]:
    """The event as plain JSON, its `type` first."""
    return {"type": event.type, **written(event)}


def written(event: Struct) -> dict[str, Any]:
    """The fields of an event by the names that written events have."""
    return {written_name(type(event), name): value for name, value in asdict(event).items()}


def written_name(kind: type[Struct], name: str) -> str:
    """The name of a field in written events: `from` and `to` for what changes, `after` for seconds alone."""
    return "after" if (kind, name) == (Recovered, "seconds") else _WRITTEN.get(name, name)
