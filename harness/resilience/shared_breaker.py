"""A breaker whose state several processes share through a store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from harness.resilience.breaker import Breaker, BreakerSettings, Snapshot, State, Ticket
from harness.resilience.circuit_store import CircuitStore
from harness.resilience.clock import Clock
from harness.resilience.events import Emit, ResilienceEvent

R = TypeVar("R")
LOOK = 0.5
"""Seconds between two looks at what others did."""
COUNTED_FOR = 300.0
"""Seconds after which failures that another process counted, without opening the circuit, say nothing of today."""
HELD_UP = 2.0
"""Seconds for which a store that cannot be used keeps a probe back: most likely another process is taking it."""


class SharedBreaker(Breaker):
    """What counts is done under the store's lock, on what the store says; a success in good times asks nobody.

    So a call that works while nothing has failed costs no query, but for a look at the store every half second.
    Whoever makes a transition emits its event; the others take it over in silence. While the store cannot be used, it
    goes on alone; what it did then is kept unless another process has written meanwhile.
    """

    def __init__(self, name: str, settings: BreakerSettings, clock: Clock, emit: Emit, store: CircuitStore) -> None:
        self._unsaid: list[ResilienceEvent] = []
        super().__init__(name, settings, now=clock.now, emit=self._unsaid.append)
        self._clock = clock
        self._tell = emit
        self._store = store
        self._seen: Snapshot | None = None
        self._look_at = float("-inf")

    @property
    def state(self) -> State:
        self._look()
        return super().state

    def rests_for(self) -> float:
        self._look()
        return super().rests_for()

    def admit(self) -> Ticket:
        self._look()
        if self._state is State.CLOSED or super().rests_for() > 0:
            return super().admit()
        return self._together(self._probe)

    def succeeded(self, generation: int) -> None:
        if self._state is State.CLOSED and not self.failures:
            super().succeeded(generation)
        else:
            self._together(lambda _: Breaker.succeeded(self, generation))

    def failed(self, generation: int, error: str) -> None:
        self._together(lambda _: Breaker.failed(self, generation, error))

    def released(self, generation: int) -> None:
        if self._state is not State.CLOSED:
            self._together(lambda _: Breaker.released(self, generation))

    def reset(self) -> None:
        self._together(lambda _: Breaker.reset(self))

    def _probe(self, shared: bool) -> Ticket:
        if not shared and self._store.away_for() < HELD_UP:
            raise self._refusal(LOOK)
        return super().admit()

    def _together(self, act: Callable[[bool], R]) -> R:
        """Do it under the store's lock, on what the store says; `act` is told whether that was possible."""
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
        """Outside the lock: whoever listens may ask about circuits."""
        unsaid, self._unsaid[:] = tuple(self._unsaid), ()
        for event in unsaid:
            self._tell(event)

    def _look(self) -> None:
        if self._now() >= self._look_at:
            self._adopt()

    def _adopt(self) -> None:
        """Be what the store says, where another process has written since."""
        self._look_at = self._now() + LOOK
        kept = self._store.load(self.name)
        if kept is None or kept == self._seen:
            return
        self._seen = kept
        wall = self._clock.wall()
        if kept.state is State.CLOSED and wall.timestamp() - kept.saved_at > COUNTED_FOR:
            kept = replace(kept, failures=0, calls=0, error="")
        self.restore(kept, wall)
