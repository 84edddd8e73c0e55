"""The circuits of a run, one for each thing they protect."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from msgspec import Struct

from harness.resilience.breaker import Breaker, BreakerSettings, CircuitSnapshot, CircuitState, Ticket
from harness.resilience.circuit_store import CircuitStore
from harness.resilience.clock import Clock
from harness.resilience.events import Emit, ResilienceEvent, discard
from harness.values import replace

# A breaker whose state several processes share through a store.

R = TypeVar("R")
_LOOK = 0.5
"""Seconds between two reads of what other processes saved."""
_COUNTED_FOR = 300.0
"""Seconds after which failures that another process counted, without opening the circuit, are forgotten."""
_HELD_UP = 2.0
"""Seconds for which an unusable store keeps a probe back: most likely another process holds the lock for its probe."""


class SharedBreaker(Breaker):
    """A breaker whose state the processes of a run share through a store.

    Every outcome that counts is recorded under the store's lock, on the store's state. A call that succeeds while
    nothing has failed makes no query, except a read of the store every half second. The process that makes a transition
    emits its event; the others take the new state over silently. While the store cannot be used, the breaker goes on
    alone; its changes are kept unless another process has written meanwhile.
    """

    def __init__(self, name: str, settings: BreakerSettings, clock: Clock, emit: Emit, store: CircuitStore) -> None:
        self._unsaid: list[ResilienceEvent] = []
        super().__init__(name, settings, now=clock.now, emit=self._unsaid.append)
        self._clock = clock
        self._tell = emit
        self._store = store
        self._seen: CircuitSnapshot | None = None
        self._look_at = float("-inf")

    @property
    def state(self) -> CircuitState:
        self._look()
        return super().state

    def rests_for(self) -> float:
        self._look()
        return super().rests_for()

    def admit(self) -> Ticket:
        self._look()
        if self._state is CircuitState.CLOSED or super().rests_for() > 0:
            return super().admit()
        return self._run_locked(self._probe)

    def succeeded(self, generation: int) -> None:
        if self._state is CircuitState.CLOSED and not self.failures:
            super().succeeded(generation)
        else:
            self._run_locked(lambda _: Breaker.succeeded(self, generation))

    def failed(self, generation: int, error: str) -> None:
        self._run_locked(lambda _: Breaker.failed(self, generation, error))

    def released(self, generation: int) -> None:
        if self._state is not CircuitState.CLOSED:
            self._run_locked(lambda _: Breaker.released(self, generation))

    def reset(self) -> None:
        self._run_locked(lambda _: Breaker.reset(self))

    def _probe(self, shared: bool) -> Ticket:
        if not shared and self._store.away_for() < _HELD_UP:
            raise self._refusal(_LOOK)
        return super().admit()

    def _run_locked(self, act: Callable[[bool], R]) -> R:
        """Run `act` under the store's lock, on the store's state; its argument says whether the store could be used."""
        try:
            with self._store.exclusive() as shared:
                if shared:
                    self._adopt()
                answer = act(shared)
                after = self.snapshot(self._clock.wall())
                if shared:
                    self._store.save(self.name, after)
            if shared and self._store.usable:
                self._seen = after
            return answer
        finally:
            self._say()

    def _say(self) -> None:
        """Emit the events that were collected under the lock, outside it: a listener may ask about circuits."""
        unsaid, self._unsaid[:] = tuple(self._unsaid), ()
        for event in unsaid:
            self._tell(event)

    def _look(self) -> None:
        if self._now() >= self._look_at:
            self._adopt()

    def _adopt(self) -> None:
        """Take over the store's state if another process has written since."""
        self._look_at = self._now() + _LOOK
        kept = self._store.load(self.name)
        if kept is None or kept == self._seen:
            return
        self._seen = kept
        wall = self._clock.wall()
        if kept.state is CircuitState.CLOSED and wall.timestamp() - kept.saved_at > _COUNTED_FOR:
            kept = replace(kept, failures=0, calls=0, error="")
        self.restore(kept, wall)


_DEFAULTS = BreakerSettings()


class CircuitScope(StrEnum):
    """What a circuit protects: a failure in one scope says nothing about the others."""

    ORIGIN = "origin"
    """A site: `origin:http://shop.local`."""
    SERVICE = "service"
    """A service that the harness runs: `service:demo`."""
    PROVIDER = "provider"
    """A model's provider: `provider:claude`."""
    AGENT = "agent"
    """An agent: `agent:builder`."""
    ENDPOINT = "endpoint"
    """A server that provides browsers: `endpoint:ws://browsers:3000`."""
    TOOL = "tool"
    """A server of tools: `tool:mail`."""


_NONE: Mapping[CircuitScope, BreakerSettings] = MappingProxyType({})


class CircuitName(Struct, frozen=True):
    """A scope and a name within it; written `scope:name`."""

    scope: CircuitScope
    name: str

    def __str__(self) -> str:
        return f"{self.scope}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> CircuitName:
        """Parse `scope:name`; raises ValueError with the reason."""
        scope, colon, name = text.partition(":")
        if scope not in set(CircuitScope):
            near = get_close_matches(scope, list(CircuitScope), 1)
            meant = f"; did you mean '{near[0]}'?" if near else ""
            found = f"scope {scope!r}" if colon else "no scope"
            *some, last = CircuitScope
            join_or = f"{', '.join(some)} or {last}"
            raise ValueError(f"circuit {text!r}: expected SCOPE:NAME with {join_or}, found {found}{meant}")
        if not name or name != name.strip():
            raise ValueError(f"circuit {text!r}: expected a name after '{scope}:', found {name!r}")
        return cls(CircuitScope(scope), name)


class CircuitFigures(Struct, frozen=True):
    """What one circuit has counted."""

    state: CircuitState
    """The state as a caller would find it now."""
    calls: int
    """The number of calls that ended since it last closed."""
    failures: int
    """The number of failures in a row; of an open circuit, all since it was closed."""
    successes: int
    """The number of successful probes since it became half-open."""
    last_error: str
    """The text of the last failure; empty once the circuit has closed."""
    last_failure: float | None
    """The time of the last failure, in Unix seconds; None: nothing has failed."""
    reopens_in: float | None
    """Seconds until a call is admitted; None: one is admitted now."""


class Circuits:
    """One breaker for each name, made when it is first asked for, and shared by all who ask.

    At most `limit` are remembered: the closed circuit that was asked for longest ago is forgotten first, with the
    failures it had counted. A circuit that is not closed is never forgotten. So ask for a breaker at each call rather
    than keep it.
    """

    def __init__(
        self,
        settings: BreakerSettings = _DEFAULTS,
        *,
        clock: Clock,
        emit: Emit = discard,
        store: CircuitStore | None = None,
        enabled: bool = True,
        scopes: Mapping[CircuitScope, BreakerSettings] = _NONE,
        named: Mapping[str, BreakerSettings] = MappingProxyType({}),
        limit: int = 1000,
    ) -> None:
        """`scopes` and `named` (`agent:builder`, `provider:claude`) have settings that differ from `settings`.

        Without `enabled`, circuits stay closed and unsaved.
        """
        self._settings = settings
        self._scopes = scopes
        self._named = named
        self._clock = clock
        self._emit = emit
        self._store = store if enabled else None
        self._enabled = enabled
        self._limit = limit
        self._breakers: OrderedDict[str, Breaker] = OrderedDict()

    def breaker(self, name: str | CircuitName) -> Breaker:
        """Return the breaker of this name; raises ValueError for a name without a known scope."""
        key = str(name)
        if key in self._breakers:
            self._breakers.move_to_end(key)
            return self._breakers[key]
        made = self._breakers[key] = self._make_breaker(CircuitName.parse(key))
        self._drop_oldest(key)
        return made

    def states(self) -> dict[str, CircuitState]:
        """Name -> state as a caller would find it now, sorted; with a store, the circuits of other processes too."""
        return {name: self.breaker(name).state for name in self._names()}

    def reset(self, name: str | CircuitName) -> None:
        """Close a circuit by hand; raises LookupError if it was never used."""
        key, known = str(CircuitName.parse(str(name))), self._names()
        if key not in known:
            used = ", ".join(known) or "none"
            raise LookupError(
                f"circuit {key!r}: expected a circuit that was used, found none of this name; used: {used}"
            )
        self.breaker(key).reset()

    def reset_all(self) -> None:
        """Close all circuits by hand, with a store those of other processes too."""
        for name in self._names():
            self.breaker(name).reset()

    def figures(self) -> dict[str, CircuitFigures]:
        """Name -> figures of each circuit, sorted; with a store, the circuits of other processes too."""
        found = {}
        for name, breaker in ((name, self.breaker(name)) for name in self._names()):
            state, kept = breaker.state, breaker.snapshot(self._clock.wall())
            counts, rest = (kept.calls, kept.failures, kept.successes), breaker.rests_for() or None
            found[name] = CircuitFigures(state, *counts, kept.error, kept.failed_at, rest)
        return found

    def _names(self) -> list[str]:
        return sorted({*self._breakers, *(self._store.names() if self._store else ())})

    def _make_breaker(self, name: CircuitName) -> Breaker:
        settings = self._named.get(str(name)) or self._scopes.get(name.scope, self._settings)
        if not self._enabled:
            settings = replace(settings, failure_threshold=sys.maxsize)
        if self._store:
            return SharedBreaker(str(name), settings, self._clock, self._emit, self._store)
        return Breaker(str(name), settings, now=self._clock.now, emit=self._emit)

    def _drop_oldest(self, new: str) -> None:
        if len(self._breakers) <= self._limit:
            return
        closed = (name for name, it in self._breakers.items() if name != new and it.state is CircuitState.CLOSED)
        oldest = next(closed, None)
        if oldest is not None:
            del self._breakers[oldest]
