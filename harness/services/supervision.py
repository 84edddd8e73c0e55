"""Keeps one service running: what dies is started again at once, until it is permanent (DESIGN 4.10, 8)."""

from __future__ import annotations

import httpx2

from harness.failure import Failed, Failure
from harness.resilience import Clock, Condition, Supervisor
from harness.services.health import client
from harness.services.service import Occupied, Service

LOOK = 0.1
"""Seconds between two looks at a process."""
AGAIN = 0.25
"""Seconds until a port that a stranger has taken is tried again."""


class Supervision:
    """Of one service that this process has started; what is reused is its owner's care."""

    def __init__(self, service: Service, clock: Clock) -> None:
        self._service = service
        self._clock = clock
        self._supervisor = Supervisor(clock.now)
        self.failure: Failure | None = None
        """Why it is not started any more."""

    def begin(self) -> None:
        """It was started by order: its earlier deaths are forgotten."""
        self._supervisor.reset()
        self.failure = None

    async def watch(self) -> None:
        """Look after it until it has failed for good, or this is cancelled."""
        while self.failure is None:
            await self._clock.sleep(LOOK)
            if self._service.ended:
                async with client() as http:
                    await self._revive(http)

    async def _revive(self, http: httpx2.AsyncClient) -> None:
        death = await self._service.bury()
        self._died(death)
        while self._supervisor.condition is Condition.RESTARTING:
            try:
                await self._service.start(http)
            except Occupied:  # its port is a stranger's: it has not crashed, and comes back when the stranger is gone
                await self._clock.sleep(AGAIN)
            except Failed as failed:
                self._died(failed.failure)
            else:
                self._supervisor.ready()

    def _died(self, death: Failure) -> None:
        supervisor = self._supervisor
        intended = bool(death.details.get("intended"))
        if supervisor.died(intended=intended) is Condition.PERMANENTLY_FAILED:
            self.failure = self._permanent(death)
        count = "ended on purpose" if intended else f"crash {supervisor.crashes} of {supervisor.limit}"
        self._service.note(f"{count}: {'permanently_failed' if self.failure else 'started again'}", self.failure)

    def _permanent(self, last: Failure) -> Failure:
        minutes = self._supervisor.within / 60
        message = (
            f"service `{self._service.name}` is permanently_failed: it crashed {self._supervisor.limit} times within "
            f"{minutes:g} minutes and is not started again. Last: {last.message}"
        )
        return Failure("SERVICE_DOWN", message, details=last.details)
