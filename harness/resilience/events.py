"""What happened around a call: one frozen value for each kind, and its line for people (`line`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from msgspec import Struct, field
from msgspec.structs import asdict

NETWORK = frozenset({"network", "timeout", "unavailable"})
"""Categories of network failures, by which thresholds count."""
SESSION, VALIDATION = "session", "validation"
"""Categories: a session was lost; a proposal of a hook or an agent was refused."""
AGENT = "agent"
"""The name in the event of an agent that goes on in place of another one."""
INCONSISTENT = {
    "Cannot be `connected` if server is `down`": "`{of}` was given up, but something still answers at its host",
    "Circuit breaker cannot be `closed` during `booting`": "requests go to `{of}` while it is being started",
    "Polling must be `running` if extension is `connected`": "`{of}` answers, but nobody is monitoring it any more",
    "Cannot be `active` while server is `booting`": "`{of}` is used while it is being started",
}
"""Violated invariant -> its meaning."""


def one_line(text: str, width: int = 200) -> str:
    """The text without line breaks, cut to `width` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


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

    def line(self) -> str:
        wait = f" in {self.delay:.1f} s" if self.delay else ""
        return f"Retrying {self.attempt}/{self.retries}{wait}: {one_line(self.error)}"


class Waiting(Struct, frozen=True):
    """An open circuit holds a call back for at most `seconds`; nothing is sent: neither attempt nor retry."""

    type: ClassVar[str] = "waiting"
    name: str
    seconds: float
    reason: str

    def line(self) -> str:
        return f"waiting {self.seconds:.1f} s: {one_line(self.reason)}"


class SlotAwaited(Struct, frozen=True):
    """A task has waited for `seconds` and still waits: tasks of this or another run use the only shared state."""

    type: ClassVar[str] = "waiting-for-slot"
    task: str
    folder: str
    """The folder of the lock files: a task that holds one of them holds a slot."""
    seconds: float

    def line(self) -> str:
        return (
            f"{self.task} has waited {self.seconds:.0f} s for the one state of the site (isolation), which another "
            f"task holds, perhaps of another run: locks in {self.folder}"
        )


class CircuitChanged(Struct, frozen=True):
    """A breaker went from one state to another."""

    type: ClassVar[str] = "circuit-state-change"
    circuit: str
    before: str
    after: str
    reason: str

    def line(self) -> str:
        return f"circuit {self.circuit}: {self.before} -> {self.after} ({self.reason})"


class LoginMade(Struct, frozen=True):
    """A login that tasks share was made, in `seconds`. `reason`: why it was needed."""

    type: ClassVar[str] = "login-made"
    name: str
    seconds: float
    reason: str

    def line(self) -> str:
        return f"login {self.name}: made in {self.seconds:.1f} s, because {self.reason}"


class PagesEnded(Struct, frozen=True):
    """The context of a task did not close in `seconds`, so its pages were ended otherwise: they could still send."""

    type: ClassVar[str] = "pages-ended"
    world: str
    seconds: float
    how: str
    """`context`: the browser has ended all pages of the context. `browser`: it did not, and was killed."""

    def line(self) -> str:
        how = "the browser has ended its pages" if self.how == "context" else "the browser was killed"
        return f"the browser context of {self.world} did not close in {self.seconds:g} s: {how}"


class FellBack(Struct, frozen=True):
    """The next call of a fallback chain is tried."""

    type: ClassVar[str] = "fallback"
    name: str
    before: str
    """The name of the call that failed: the primary one, or the one before in the chain."""
    after: str
    """The name of the call that is tried instead."""
    error: str

    def line(self) -> str:
        if self.name == AGENT:
            return f"agent {self.after} goes on in place of {self.before}: {one_line(self.error)}"
        return f"{self.name}: falling back from {self.before} to {self.after}: {one_line(self.error)}"


class Degraded(Struct, frozen=True):
    """Every call of a fallback chain failed: the degraded answer is given."""

    type: ClassVar[str] = "degraded"
    name: str
    reason: str

    def line(self) -> str:
        return f"{self.name}: degraded: {one_line(self.reason)}"


class Recovered(Struct, frozen=True):
    """A call succeeded after it had failed, `seconds` since its first failure."""

    type: ClassVar[str] = "recovered"
    name: str
    seconds: float
    attempts: int
    category: str = ""

    def line(self) -> str:
        return f"{self.name}: recovered after {self.seconds:.1f} s, at attempt {self.attempts}"


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

    def line(self) -> str:
        return f"{self.name}: gave up{' after all retries' if self.exhausted else ''}: {one_line(self.error)}"


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

    def line(self) -> str:
        over = "the caller stops waiting; the work may still finish"
        then = over if self.limit is None else f"is waited for {self.limit:g} s in all"
        return f"{self.name}: no answer in {self.waited:g} s; it {then}"


class ServiceChanged(Struct, frozen=True):
    """A service went from one state to another."""

    type: ClassVar[str] = "service-status"
    service: str
    before: str
    after: str
    reason: str

    @property
    def crashed(self) -> bool:
        """Whether a service that had been up ended or hung, and not on purpose."""
        return self.reason.startswith("crash_") and self.before != "down"

    def line(self) -> str:
        crashed = " crashed" if self.crashed else ""
        return f"service {self.service}{crashed}: {self.before} -> {self.after} ({one_line(self.reason)})"


class ToolServerChanged(Struct, frozen=True):
    """A tool server went from one state to another (`model.tools.ToolState`)."""

    type: ClassVar[str] = "tool-server-status"
    server: str
    before: str
    after: str
    reason: str
    own: bool = False
    """Whether it is a server, or a connection, of one task alone, which that task's faults strike."""

    def line(self) -> str:
        return f"tool server {self.server}: {self.before} -> {self.after} ({one_line(self.reason)})"


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

    def line(self) -> str:
        why = f" ({one_line(self.reason or self.code)})" if self.reason or self.code else ""
        return f"client {self.client or 'of an agent'}: {self.before} -> {self.after}{why}"


class HookRefused(Struct, frozen=True):
    """A hook of an agent has sent an event that is not as it should be."""

    type: ClassVar[str] = "hook-refused"
    code: str
    error: str
    source: str = "hook"

    def line(self) -> str:
        return f"hook of an agent refused: {self.code}: {one_line(self.error)}"


class InvariantBroken(Struct, frozen=True):
    """States that exclude each other occurred together; `states` is the snapshot."""

    type: ClassVar[str] = "invariant-violated"
    rule: str
    states: Mapping[str, str] = field(default_factory=dict)

    def line(self) -> str:
        states = ", ".join(f"{dimension}={state}" for dimension, state in self.states.items())
        meaning = INCONSISTENT.get(self.rule, self.rule).format(of=self.states.get("of", "a service"))
        return f"inconsistent: {meaning} ({states})"


ResilienceEvent = (
    Retrying | Waiting | SlotAwaited | LoginMade | PagesEnded | CircuitChanged | FellBack | Degraded | Recovered
    | GaveUp | Escalated | ServiceChanged | ToolServerChanged | ClientChanged | HookRefused | InvariantBroken
)  # fmt: skip
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
