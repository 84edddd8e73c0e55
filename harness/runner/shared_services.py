"""The services of runs that go on at the same time in one process: they use the same ones, as the tasks of one run do.

Otherwise the run that began first would end the services of the others with its own end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from harness.environment.services import Services
from harness.model.service_settings import ServiceSettings
from harness.model.settings import Settings
from harness.recovery.failure import Failure
from harness.resilience import Clock
from harness.resilience.events import Emit, ResilienceEvent

OpenServices = Callable[[Settings, Clock, Emit], Services]
"""Makes the services of a run, or finds those that it shares; `Emit` gets every change of their states."""


def own_services(settings: Settings, clock: Clock, emit: Emit) -> Services:
    """The services of one run alone. Raises ValueError, as `Services` does."""
    logs = settings.root / ".harness/logs"
    return Services(settings.services, root=settings.root, logs=logs, clock=clock, emit=emit)


class SharedServices(Services):
    """Services that several runs use: the first one starts them, and no run ends them."""

    def __init__(self, settings: Mapping[str, ServiceSettings], root: Path, clock: Clock) -> None:
        """Raises ValueError, as `Services` does."""
        super().__init__(settings, root=root, logs=root / ".harness/logs", clock=clock, emit=self.tell)
        self.declared = settings
        self.hearers: list[Emit] = []
        """One for each run that uses them."""
        self._turn = asyncio.Lock()
        self._up = False

    def tell(self, event: ResilienceEvent) -> None:
        """Pass an event on to every run that uses them."""
        for hear in tuple(self.hearers):
            hear(event)

    async def begin(self, slots: int = 1) -> Sequence[Failure]:
        """Start them, unless another run has done so."""
        async with self._turn:
            failures = [] if self._up else await super().begin(slots)
            self._up = True
            return failures

    async def stop(self) -> None:
        """A run is over; the others still use them."""

    async def close(self) -> None:
        """No run is left: stop what was started, within five seconds."""
        await super().stop()


class ServicePool:
    """All services of a process whose runs come and go. Runs with the same settings of services share them."""

    def __init__(self) -> None:
        self._sets: list[SharedServices] = []
        self._closing = asyncio.Lock()

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[LentServices]:
        """A place for the services of one run, which gives them back at its end."""
        async with self._closing:
            pass  # those that are being stopped still have their ports
        lent = LentServices(self._sets)
        try:
            yield lent
        finally:
            await self._give_back(lent)

    async def _give_back(self, lent: LentServices) -> None:
        shared = lent.shared
        if shared is None:
            return
        shared.hearers.remove(lent.hear)
        if not shared.hearers:
            self._sets.remove(shared)
            async with self._closing:
                await shared.close()


class LentServices:
    """The services of one run, as its harness opens them."""

    def __init__(self, sets: list[SharedServices]) -> None:
        self._sets = sets
        self.shared: SharedServices | None = None
        """None until they are opened."""
        self._heard: Emit | None = None

    def open(self, settings: Settings, clock: Clock, emit: Emit) -> Services:
        """Return the services of other runs with the same settings, or new ones. Raises ValueError."""
        found = next((each for each in self._sets if each.declared == settings.services), None)
        if found is None:
            found = SharedServices(settings.services, settings.root, clock)
            self._sets.append(found)
        self.shared, self._heard = found, emit
        found.hearers.append(self.hear)
        return found

    def hear(self, event: ResilienceEvent) -> None:
        """Pass an event of the services on to the run."""
        if self._heard is not None:
            self._heard(event)
