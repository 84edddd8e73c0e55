"""What is known of a service at one moment, in the words of specs/000: server, circuit, extension and polling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.resilience.breaker import Breaker
from harness.resilience.breaker_state import State as Circuit
from harness.services.states import State

SERVERS: Mapping[State, str] = {
    State.DOWN: "down",
    State.STOPPED: "down",
    State.BOOTING: "booting",
    State.RESTARTING: "booting",
    State.UP: "up",
    State.UNHEALTHY: "up",
    State.PERMANENTLY_FAILED: "permanently_failed",
}


@dataclass(frozen=True, slots=True)
class Standing:
    """Of one service; `since` is monotonic, in seconds."""

    service: str
    hosts: tuple[str, ...]
    state: State
    reason: str
    since: float
    """When it came into this state."""
    polled: bool | None
    """Whether its health is asked from time to time; None where that is not wanted."""
    interval: float
    """Seconds between two questions after its health."""


def states(standing: Standing, circuits: Iterable[Breaker], contacts: Mapping[str, float]) -> dict[str, str]:
    """Dimension -> state, of those that are known (`resilience.connection`).

    `circuits` are those of its hosts, `contacts` has the tasks that one of its hosts has answered, and when. Both tell
    something of the service as it is now only since it is that. Before, a circuit that has not moved was closed, and
    is: nobody has called since. A page that was loaded is still shown, and is connected to nothing.
    """
    found = {"server": SERVERS[standing.state]}
    if circuit := _circuit(standing.since, circuits):
        found["circuit"] = circuit.value
    if any(at > standing.since for at in contacts.values()):
        found["extension"] = "connected"
    if standing.polled is not None:
        found["polling"] = "running" if standing.polled else "stopped"
    return found


def _circuit(since: float, circuits: Iterable[Breaker]) -> Circuit | None:
    """The one that lets most through, of those that have moved since then."""
    moved = {each.state for each in circuits if each.history and each.history[-1].at > since}
    return next((state for state in (Circuit.CLOSED, Circuit.HALF_OPEN, Circuit.OPEN) if state in moved), None)
