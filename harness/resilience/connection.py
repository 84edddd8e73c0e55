"""Server, extension, circuit and polling: their states as tables, and which of them exclude each other.

In the words of the harness the server is a site, the extension the browser that works on it, the circuit the site's
breaker, and the polling the looks at its health.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from harness.resilience.breaker import TRANSITIONS, CircuitState
from harness.resilience.events import CircuitChanged, Emit, InvariantBroken, ResilienceEvent, ServiceChanged, nobody

Told = Callable[[str, str, str, str], ResilienceEvent]
"""Name, state before, state after, reason -> what is said of it."""


@dataclass(frozen=True, slots=True)
class TransitionTable:
    """All that one dimension can be, and where each state leads."""

    dimension: str
    start: str
    moves: Mapping[str, frozenset[str]]
    told: Told = ServiceChanged


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
"""down -> booting -> up. One that is found running goes from `down` to `up`: it was never booted from here.
Only an order leads out of `permanently_failed`."""
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
    """A state was asked for to which the present one does not lead."""


class Machine:
    """One thing that is always in one state of a table."""

    def __init__(self, name: str, table: TransitionTable, emit: Emit = nobody) -> None:
        self.name = name
        self.table = table
        self.state = table.start
        self._emit = emit

    def go(self, state: str, reason: str) -> None:
        """To another state; staying is none, and says nothing. Raises ForbiddenTransitionError, and stays."""
        if state == self.state:
            return
        if state not in self.table.moves[self.state]:
            raise ForbiddenTransitionError(self._refusal(state))
        before, self.state = self.state, state
        self._emit(self.table.told(self.name, before, state, reason))

    def _refusal(self, state: str) -> str:
        dimension, ways = self.table.dimension, ", ".join(f"`{way}`" for way in sorted(self.table.moves[self.state]))
        known = "" if state in self.table.moves else f", which is no state of a {dimension}"
        return f"`{self.name}`: the {dimension} is `{self.state}` and cannot become `{state}`{known}; it can: {ways}"


def snapshot(machines: Iterable[Machine]) -> dict[str, str]:
    """Dimension -> state."""
    return {machine.table.dimension: machine.state for machine in machines}


@dataclass(frozen=True, slots=True)
class Exclusion:
    """States that cannot be at the same time. What the states do not tell of is not judged."""

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
"""Which states exclude each other; `active` is `connected` and more. The last one follows from the table."""


class Invariants:
    """Looks at states when they have settled, and says once what is wrong, until it is mended."""

    def __init__(self, emit: Emit, exclusions: Iterable[Exclusion] = EXCLUSIONS) -> None:
        self._emit = emit
        self._exclusions = tuple(exclusions)
        self._stood: dict[tuple[str, str], int] = {}
        """Of whom, and which rule -> at how many looks in a row it was broken."""

    def check(
        self, states: Mapping[str, str], of: str = "", *, looks: int = 1, more: Mapping[str, str] = _NOTHING
    ) -> tuple[str, ...]:
        """The rules that these states break, by their text; `of` names what they are states of: a service.

        To be asked after all machines have moved that move together. Where nobody knows when that is, at regular times:
        a violation is emitted when it was there at so many `looks` in a row. Its snapshot has `more`, too.
        """
        found = tuple(each.text for each in self._exclusions if each.broken(states))
        stood = {(of, text): self._stood.get((of, text), 0) + 1 for text in found}
        self._stood = {key: count for key, count in self._stood.items() if key[0] != of} | stood
        for text in found:
            if stood[of, text] == looks:
                self._emit(InvariantBroken(text, {**({"of": of} if of else {}), **states, **more}))
        return found
