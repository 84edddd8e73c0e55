"""What a service is to those who rely on it (specs/000 ServerState, specs/002 status), as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from harness.resilience import Clock
from harness.resilience.events import Emit, InvariantBroken, ServiceChanged


class State(StrEnum):
    """Of one service, as this process sees it."""

    DOWN = "down"
    """It does not run, and nobody is starting it."""
    BOOTING = "booting"
    """It was started, and is not ready."""
    UP = "up"
    """Its health answers 200, and as itself."""
    UNHEALTHY = "unhealthy"
    """It runs, and its health has not been well for some polls."""
    RESTARTING = "restarting"
    """It died or hung, and is being started again."""
    PERMANENTLY_FAILED = "permanently_failed"
    """It died too often: only an order starts it again."""
    STOPPED = "stopped"
    """It was ended by order."""


WAYS: Mapping[State, frozenset[State]] = {
    State.DOWN: frozenset({State.BOOTING, State.UP, State.PERMANENTLY_FAILED}),
    State.BOOTING: frozenset({State.UP, State.DOWN, State.STOPPED}),
    State.UP: frozenset({State.UNHEALTHY, State.RESTARTING, State.PERMANENTLY_FAILED, State.DOWN, State.STOPPED}),
    State.UNHEALTHY: frozenset({State.UP, State.RESTARTING, State.PERMANENTLY_FAILED, State.DOWN, State.STOPPED}),
    State.RESTARTING: frozenset({State.UP, State.PERMANENTLY_FAILED, State.STOPPED}),
    State.PERMANENTLY_FAILED: frozenset({State.BOOTING, State.UP}),
    State.STOPPED: frozenset({State.BOOTING, State.UP}),
}
"""State -> what it can become. What became something else all the same is told as an InvariantBroken."""


def is_back(event: ServiceChanged) -> bool:
    """Whether it was gone, and answers now."""
    return event.after == State.UP and event.before != State.UNHEALTHY


@dataclass(slots=True)
class Status:
    """Where a service is in the table; every change is emitted, with its reason in a word (`crash_1`, `health_ok`)."""

    service: str
    clock: Clock
    emit: Emit
    state: State = State.DOWN
    reason: str = ""
    restarts: int = 0
    """How often it was started again after it had been up."""
    since: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.since = self.clock.wall()

    def become(self, state: State, reason: str) -> None:
        """Change, unless it is that already. What the table does not know happens all the same, and is told."""
        before = self.state
        if state is before:
            return
        if state not in WAYS[before]:
            snapshot = {"service": self.service, "before": before, "after": state, "reason": reason}
            self.emit(InvariantBroken("service: no way from one state to the other", snapshot))
        self.restarts += before is State.RESTARTING and state is State.UP
        self.state, self.reason = state, reason
        self.since = self.clock.wall()
        self.emit(ServiceChanged(self.service, before, state, reason))
