"""Server, extension, circuit and polling: their states as tables, and which of them exclude each other.

In terms of the harness the server is a site, the extension is the browser that works on it, the circuit is the site's
breaker, and the polling is the health check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct

from harness.resilience.breaker import TRANSITIONS, CircuitState
from harness.resilience.events import CircuitChanged, Emit, InvariantBroken, ResilienceEvent, ServiceChanged, discard

_EventType = Callable[[str, str, str, str], ResilienceEvent]
"""Makes the event of a transition out of: name, state before, state after, reason."""


class TransitionTable(Struct, frozen=True):
    """The states of one dimension, and the states that each may go to."""

    dimension: str
    start: str
    moves: Mapping[str, frozenset[str]]
    event_type: _EventType = ServiceChanged


def _moves(**states: str) -> dict[str, frozenset[str]]:
    return {state: frozenset(after.split()) for state, after in states.items()}


SERVER = TransitionTable(
    "server",
    "down",
    _moves(
        down="booting up permanently_failed",
        booting="up down permanently_failed",
        up="down permanently_failed",
        permanently_failed="down booting",
    ),
)
"""down -> booting -> up. A server that is found running goes from `down` to `up`: it was not booted from here.

Only an order leads out of `permanently_failed`.
"""
EXTENSION = TransitionTable(
    "extension",
    "disconnected",
    _moves(disconnected="connected", connected="active disconnected", active="connected disconnected"),
)
CIRCUIT = TransitionTable(
    "circuit",
    CircuitState.CLOSED,
    {state: frozenset(moves.values()) for state, moves in TRANSITIONS.items()},
    CircuitChanged,
)
"""The breaker's own table."""
POLLING = TransitionTable("polling", "stopped", _moves(stopped="running", running="stopped"))
TABLES = (SERVER, EXTENSION, CIRCUIT, POLLING)


class ForbiddenTransitionError(ValueError):
    """A transition was requested that the present state does not allow."""


class Machine:
    """A thing that is always in one state of a table."""

    def __init__(self, name: str, table: TransitionTable, emit: Emit = discard) -> None:
        self.name = name
        self.table = table
        self.state = table.start
        self._emit = emit

    def enter(self, state: str, reason: str) -> None:
        """Enter another state and emit the event; staying is no transition. ForbiddenTransitionError: it stays."""
        if state == self.state:
            return
        if state not in self.table.moves[self.state]:
            dimension, moves = self.table.dimension, self.table.moves
            ways = ", ".join(f"`{way}`" for way in sorted(moves[self.state]))
            known = "" if state in moves else f", which is not a state of a {dimension}"
            raise ForbiddenTransitionError(
                f"`{self.name}`: the {dimension} is `{self.state}` and cannot become `{state}`{known}; it can: {ways}"
            )
        before, self.state = self.state, state
        self._emit(self.table.event_type(self.name, before, state, reason))


def snapshot(machines: Iterable[Machine]) -> dict[str, str]:
    """Dimension -> state."""
    return {machine.table.dimension: machine.state for machine in machines}


class Exclusion(Struct, frozen=True):
    """States that cannot occur together. It judges nothing if the snapshot lacks one of the dimensions."""

    text: str
    broken: Callable[[Mapping[str, str]], bool]


_NOTHING: Mapping[str, str] = MappingProxyType({})
_LINKED = ("connected", "active")
_GONE = ("down", "permanently_failed")

EXCLUSIONS = (
    Exclusion(
        "Cannot be `connected` if server is `down`",
        lambda states: states.get("extension") in _LINKED and states.get("server") in _GONE,
    ),
    Exclusion(
        "Circuit breaker cannot be `closed` during `booting`",
        lambda states: states.get("circuit") == CircuitState.CLOSED and states.get("server") == "booting",
    ),
    Exclusion(
        "Polling must be `running` if extension is `connected`",
        lambda states: states.get("extension") in _LINKED and states.get("polling", "running") != "running",
    ),
    Exclusion(
        "Cannot be `active` while server is `booting`",
        lambda states: states.get("extension") == "active" and states.get("server") == "booting",
    ),
)
"""The states that exclude each other; `active` includes `connected`."""


class Invariants:
    """Checks states once they have settled, and emits each violation once, until it is over."""

    def __init__(self, emit: Emit, exclusions: Iterable[Exclusion] = EXCLUSIONS) -> None:
        self._emit = emit
        self._exclusions = tuple(exclusions)
        self._stood: dict[tuple[str, str], int] = {}
        """(name, rule) -> the number of checks in a row at which the rule was broken."""

    def check(
        self, states: Mapping[str, str], of: str = "", *, looks: int = 1, more: Mapping[str, str] = _NOTHING
    ) -> tuple[str, ...]:
        """Return the texts of the rules that these states break; `of` names the service whose states they are.

        Call it after all machines that move together have moved. Where that moment is unknown, call it at regular
        intervals: a violation is emitted after it was found `looks` times in a row. Its snapshot contains `more`, too.
        """
        found = tuple(each.text for each in self._exclusions if each.broken(states))
        stood = {(of, text): self._stood.get((of, text), 0) + 1 for text in found}
        self._stood = {key: count for key, count in self._stood.items() if key[0] != of} | stood
        for text in found:
            if stood[of, text] == looks:
                self._emit(InvariantBroken(text, {**({"of": of} if of else {}), **states, **more}))
        return found
