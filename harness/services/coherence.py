"""Services, circuits, polling and tasks of a run, looked at together: what cannot be at the same time is told.

Each of them moves by itself, one a moment after the other: a service restarts before its circuit has heard of it. So
nothing is judged in the moment, but at looks a second apart, and told when it was there at so many in a row that each
had its time to hear. That counts looks rather than seconds: while the process itself stood still, nobody could hear.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from harness.events import Event
from harness.resilience import Clock
from harness.resilience.breaker import Breaker
from harness.resilience.connection import Invariants
from harness.resilience.events import Emit
from harness.services.contacts import Contacts
from harness.services.standing import Standing, states

LOOK = 1.0
"""Seconds between two looks."""
GRACE = 3.0
"""Seconds that such a thing may last, beside two questions after its health: one of them mends what is only stale."""


class Coherence:
    """Of one run. Emits an InvariantBroken for each violation, once until it is over."""

    def __init__(
        self,
        standings: Callable[[], Sequence[Standing]],
        circuits: Callable[[Iterable[str]], Sequence[Breaker]],
        clock: Clock,
        emit: Emit,
    ) -> None:
        """`circuits` answers those of some hosts that there are."""
        self._standings, self._circuits, self._clock = standings, circuits, clock
        self._contacts = Contacts(clock.now)
        self._invariants = Invariants(emit)
        self._watch: asyncio.Task[None] | None = None

    def hearing(self, emit: Callable[[Event], None]) -> Callable[[Event], None]:
        """What the engine says is heard here before it goes to `emit`: by it is known which hosts answer."""

        def heard(event: Event) -> None:
            self._contacts.on(event)
            emit(event)

        return heard

    def begin(self) -> None:
        """Look from now on, until `end`. On the loop of the run."""
        self._watch = asyncio.create_task(self._look_on())

    def end(self) -> None:
        """Look no more."""
        if self._watch is not None:
            self._watch.cancel()

    async def _look_on(self) -> None:
        while True:
            await self._clock.sleep(LOOK)
            self.look()

    def look(self) -> None:
        """Judge what is now."""
        for standing in self._standings():
            circuits, contacts = self._circuits(standing.hosts), self._contacts.of(standing.hosts)
            found = states(standing, circuits, contacts)
            looks = math.ceil((GRACE + 2 * standing.interval) / LOOK) + 1
            self._invariants.check(found, standing.service, looks=looks, more=_more(standing, circuits, contacts))


def _more(standing: Standing, circuits: Iterable[Breaker], contacts: Mapping[str, float]) -> dict[str, str]:
    """The rest of the snapshot: out of what the states were made."""
    told = {
        "service": f"{standing.state} ({standing.reason})" if standing.reason else str(standing.state),
        "circuits": ", ".join(f"{each.name} {each.state}" for each in circuits),
        "tasks": ", ".join(contacts),
    }
    return {name: text for name, text in told.items() if text}
