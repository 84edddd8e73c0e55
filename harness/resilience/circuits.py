"""The circuits of a run, by what they protect."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from types import MappingProxyType

from harness.resilience.breaker import Breaker, BreakerSettings, State
from harness.resilience.circuit_store import CircuitStore
from harness.resilience.clock import Clock
from harness.resilience.events import Emit, nobody
from harness.resilience.shared_breaker import SharedBreaker

_DEFAULTS = BreakerSettings()


class Scope(StrEnum):
    """What a circuit protects: a failure of one says nothing of the others."""

    ORIGIN = "origin"
    """A site: `origin:http://shop.local`."""
    SERVICE = "service"
    """A service of ours: `service:demo`."""
    PROVIDER = "provider"
    """A model's provider: `provider:claude`."""
    AGENT = "agent"
    """An agent: `agent:builder`."""
    ENDPOINT = "endpoint"
    """Where browsers are to be had: `endpoint:ws://browsers:3000`."""


_NONE: Mapping[Scope, BreakerSettings] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CircuitName:
    """A scope and a name in it; written `scope:name`."""

    scope: Scope
    name: str

    def __str__(self) -> str:
        return f"{self.scope}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> CircuitName:
        """Out of `scope:name`; raises ValueError saying what is wrong with it."""
        scope, colon, name = text.partition(":")
        if scope not in set(Scope):
            near = get_close_matches(scope, list(Scope), 1)
            meant = f"; did you mean '{near[0]}'?" if near else ""
            found = f"scope {scope!r}" if colon else "no scope"
            raise ValueError(f"circuit {text!r}: expected SCOPE:NAME with {_any_of(list(Scope))}, found {found}{meant}")
        if not name or name != name.strip():
            raise ValueError(f"circuit {text!r}: expected a name after '{scope}:', found {name!r}")
        return cls(Scope(scope), name)


class Circuits:
    """One breaker for each name, made when it is first asked for, and shared by all who ask.

    At most `limit` are remembered: the closed one that was asked for longest ago is forgotten first (with the
    failures it had counted), one that is not closed never. So ask for a breaker when a call is made, rather than keep
    it.
    """

    def __init__(
        self,
        settings: BreakerSettings = _DEFAULTS,
        *,
        clock: Clock,
        emit: Emit = nobody,
        store: CircuitStore | None = None,
        enabled: bool = True,
        scopes: Mapping[Scope, BreakerSettings] = _NONE,
        limit: int = 1000,
    ) -> None:
        """`scopes` has the settings of those that differ. Not `enabled`, no circuit ever opens and none is kept."""
        self._settings = settings
        self._scopes = scopes
        self._clock = clock
        self._emit = emit
        self._store = store if enabled else None
        self._enabled = enabled
        self._limit = limit
        self._breakers: OrderedDict[str, Breaker] = OrderedDict()

    def breaker(self, name: str | CircuitName) -> Breaker:
        """The one of this name; raises ValueError for a name without a known scope."""
        key = str(name)
        if key in self._breakers:
            self._breakers.move_to_end(key)
            return self._breakers[key]
        made = self._breakers[key] = self._made(CircuitName.parse(key))
        self._bound(key)
        return made

    def states(self) -> dict[str, State]:
        """Name -> state as a caller would find it now, by name; with a store, those that only others use too."""
        return {name: self.breaker(name).state for name in self._names()}

    def reset(self, name: str | CircuitName) -> None:
        """Close a circuit by hand; raises LookupError for one that nobody has used."""
        key, known = str(CircuitName.parse(str(name))), self._names()
        if key not in known:
            used = ", ".join(known) or "none"
            raise LookupError(f"circuit {key!r}: expected one that was used, found none of this name; used: {used}")
        self.breaker(key).reset()

    def _names(self) -> list[str]:
        return sorted({*self._breakers, *(self._store.names() if self._store else ())})

    def _made(self, name: CircuitName) -> Breaker:
        settings = self._scopes.get(name.scope, self._settings)
        if not self._enabled:
            settings = replace(settings, failure_threshold=sys.maxsize)
        if self._store:
            return SharedBreaker(str(name), settings, self._clock, self._emit, self._store)
        return Breaker(str(name), settings, now=self._clock.now, emit=self._emit)

    def _bound(self, new: str) -> None:
        if len(self._breakers) <= self._limit:
            return
        closed = (name for name, it in self._breakers.items() if name != new and it.state is State.CLOSED)
        oldest = next(closed, None)
        if oldest is not None:
            del self._breakers[oldest]


def _any_of(words: list[Scope]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
