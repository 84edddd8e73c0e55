"""Keeps one service running: if it dies or hangs it is restarted at once, until it has failed permanently."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from harness.environment.health import Health, HealthAnswer, client
from harness.environment.ownership import ServiceState
from harness.environment.service import Occupied, Service
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock, Condition, Deadline, Supervisor, poll_until
from harness.resilience.process import GRACE, KILLED_WITHIN, POLL

if TYPE_CHECKING:
    import httpx2

# Decides, and only decides, when a running service counts as unhealthy.


class Polling(Struct, frozen=True):
    """The health checks during the run. All durations are seconds.

    One request takes at most 500 ms; after `misses` bad answers in a row the service is suspect. It is then asked once
    more, with `patience` to answer: a machine under load makes a service slow, and a slow one is not ended. Only one
    that is silent all that time counts as hanging. Only these checks decide that: a task that finds the service silent
    leaves it alone.
    """

    interval: float = 10.0
    """Seconds between two requests, the setting `health_interval`; 0: no requests."""
    misses: int = 3
    patience: float = 10.0
    """Seconds for the last answer, the setting `health_patience`."""


STANDARD = Polling()
"""Three requests, ten seconds apart, and ten seconds: a hanging service is restarted after 30 to 45 seconds."""


class Pulse(Struct):
    """The health checks of one service and their answers."""

    polling: Polling
    due: float
    """The time of the next request, in monotonic seconds."""
    missed: int = 0

    @classmethod
    def begin(cls, polling: Polling, now: float) -> Pulse:
        return cls(polling, now + polling.interval)

    def is_due(self, now: float) -> bool:
        return self.polling.interval > 0 and now >= self.due

    def record_answer(self, *, well: bool, now: float) -> bool:
        """Record an answer; return whether the service is suspect now."""
        self.missed = 0 if well else self.missed + 1
        self.due = now + self.polling.interval
        return self.missed >= self.polling.misses


LOOK = 0.1
"""Seconds between two checks of a process."""
_AGAIN = 0.25
"""Seconds until a port that another program has taken is tried again."""
_STOPPING = "is being stopped"
_RUNS_ON = "did not answer and was ended"
_UNANSWERED = (Health.SILENT, Health.ABSENT)
"""The answers of a process that hangs. One that answers with an error does not hang: it is reported and left alone."""


class Supervision:
    """Supervises one service. A service of another process is restarted by its owner, one without owner here."""

    def __init__(self, service: Service, clock: Clock, polling: Polling) -> None:
        self._service, self._clock, self._polling = service, clock, polling
        self._supervisor = Supervisor(clock.now)
        self.watch: asyncio.Task[None] | None = None
        """What looks after it; it ends when it has failed permanently."""
        self._recovery: asyncio.Task[Failure | None] | None = None
        self._over = False
        """Whether supervision has ended: what is started from now on would not be stopped."""
        self.failure: Failure | None = None
        """The failure after which it is not restarted any more."""
        self.crashes: list[float] = []
        """The times at which it ended or hung, and not on purpose."""

    @property
    def begun(self) -> bool:
        """Whether it was up, and is supervised or has failed permanently since."""
        return self.watch is not None

    @property
    def down(self) -> bool:
        """Whether it could not be started, or has failed permanently."""
        tried = self._recovery is not None and self._recovery.done()
        return self.failure is not None or (self.watch is None and tried)

    def renew(self) -> None:
        """Forget its deaths before a start that is ordered."""
        self._supervisor.reset()
        self.failure, self._over = None, False

    async def start(self) -> None:
        """Start it, and supervise it from then on. Callers during a start wait for the same one.

        Raises Failed; the next call tries again, but the third failure within some minutes is permanent.
        """
        await self._recover_once(self._start, limit=None)

    async def _start(self) -> Failure | None:
        async with client() as http:
            failure = await self._fast_start(http)
        if failure is None:
            self.renew()
            self.watch = asyncio.create_task(self._look_after())
        return failure

    async def recover(self) -> None:
        """Restart it if it is dead. A silent one may be busy: the health checks find out whether it hangs.

        Callers during a restart wait for the same one. Raises Failed(SERVICE_DOWN) if it does not come back.
        """
        await self._recover_once(self._recover, limit=self._limit)

    async def _recover_once(
        self, work: Callable[[], Coroutine[Any, Any, Failure | None]], *, limit: float | None
    ) -> None:
        """Do the work, or wait for what is being done; `limit`: seconds that this caller waits. Raises Failed."""
        if self._over:
            raise Failed(self._service.diagnosis.down(_STOPPING))
        if self.failure is None and not self.recovering:
            self._recovery = asyncio.create_task(work())
        if self.failure is None and self._recovery is not None:
            await asyncio.wait((self._recovery,), timeout=limit)
        if failure := self.failure or self._outcome():
            raise Failed(failure)

    def cancel(self) -> tuple[asyncio.Task[object], ...]:
        """Stop supervising and restarting it; return the tasks that end now. Call it in their loop."""
        self._over = True
        tasks = [task for task in (self.watch, self._recovery) if task is not None and not task.done()]
        self.watch = None
        for task in tasks:
            task.cancel()
        return tuple(tasks)

    def let_go(self) -> None:
        """Like `cancel`, from any thread."""
        for task in filter(None, (self.watch, self._recovery)):
            with contextlib.suppress(RuntimeError):  # its loop is closed: the task has ended
                task.get_loop().call_soon_threadsafe(self.cancel)

    @property
    def recovering(self) -> bool:
        """Whether it was found not to answer and is being recovered now."""
        return self._recovery is not None and not self._recovery.done()

    @property
    def _limit(self) -> float:
        """Seconds that a caller waits: for a service that does not listen, its end, and a start by its owner."""
        return GRACE + KILLED_WITHIN + 3 * self._service.settings.ready_timeout

    def _outcome(self) -> Failure | None:
        recovery = self._recovery
        assert recovery is not None
        if not recovery.done():
            return self._service.diagnosis.down("is being started again, and is not ready yet")
        return self._service.diagnosis.down(_STOPPING) if recovery.cancelled() else recovery.result()

    async def _look_after(self) -> None:
        """Supervise it until it has failed permanently, or this is cancelled."""
        pulse = Pulse.begin(self._polling, self._clock.now())
        async with client() as http:
            while self.failure is None:
                await self._clock.sleep(LOOK)
                if self._service.ended:
                    await self._recovered_not(self._recover)
                elif pulse.is_due(self._clock.now()) and not self.recovering:
                    await self._poll(http, pulse)

    async def _poll(self, http: httpx2.AsyncClient, pulse: Pulse) -> None:
        answer = await self._service.ask(http)
        suspect = pulse.record_answer(well=answer.health is Health.HEALTHY, now=self._clock.now())
        if pulse.missed == 0 and self._service.status.state in (ServiceState.UNHEALTHY, ServiceState.DOWN):
            self._service.change_state(ServiceState.UP, "health_ok")
        if not suspect or self._service.ended:
            return
        missed, failed = pulse.missed, answer.health not in _UNANSWERED
        if not failed:
            failed, pulse.missed = await self._is_unhealthy(http, answer), 0
        if failed and self._service.status.state is ServiceState.UP:
            self._service.change_state(ServiceState.UNHEALTHY, f"health_missed_{missed}")

    async def _is_unhealthy(self, http: httpx2.AsyncClient, answer: HealthAnswer) -> bool:
        """Return whether it finally does not answer. A hanging service of this process is ended and restarted."""
        if answer.health is Health.ABSENT:
            return await self._recovered_not(self._recover)
        asked = self._service.watchdog
        if await self._answers(http):
            return False
        if asked is None or asked != self._service.watchdog:  # not ours to end, or another process
            return not self._service.ours
        return await self._recovered_not(self._replace)

    async def _recovered_not(self, work: Callable[[], Coroutine[Any, Any, Failure | None]]) -> bool:
        try:
            await self._recover_once(work, limit=self._limit)
        except Failed:  # its state says so, and so does every use of it
            return True
        return False

    async def _answers(self, http: httpx2.AsyncClient) -> bool:
        """Return whether anything answers within its patience; False at once when the process has ended."""
        deadline = Deadline.after(self._polling.patience, self._clock.now())
        while not self._service.ended:
            answer = await self._service.ask(http, max(POLL, deadline.left(self._clock.now())))
            if answer.health not in _UNANSWERED:
                return True
            if not deadline.allows(POLL, self._clock.now()):
                return False
            await self._clock.sleep(POLL)
        return False

    async def _listens(self, http: httpx2.AsyncClient) -> bool:
        """Return whether our process listens, silent or not; while it runs it gets time to start listening."""

        async def listens() -> bool:
            return self._service.ended or (await self._service.ask(http)).health is not Health.ABSENT

        limit = self._service.settings.ready_timeout
        return await poll_until(self._clock, listens, POLL, limit) and not self._service.ended

    async def _recover(self) -> Failure | None:
        """Restart a dead service; return the failure if it does not run in the end."""
        async with client() as http:
            if not self._service.ours:
                silent = (await self._service.ask(http)).health is Health.SILENT
                return None if silent else await self._fast_start(http)
            if await self._listens(http):
                return None
        return await self._replace()

    async def _replace(self) -> Failure | None:
        if not self._service.ended and self._service.status.state is ServiceState.UP:
            self._service.change_state(ServiceState.UNHEALTHY, "no_answer")
        async with client() as http:
            await self._revive(http)
        return self.failure

    async def _fast_start(self, http: httpx2.AsyncClient) -> Failure | None:
        """Replace a reused service that is gone: by its owner, else here. The third failure is permanent."""
        try:
            await self._service.start(http)
        except Occupied as occupied:
            return occupied.failure
        except Failed as failed:
            if self._service.settings.command is None:  # the other process may start it at any time
                return failed.failure
            if self._supervisor.record_death() is Condition.PERMANENTLY_FAILED:
                self.failure = self._permanent(failed.failure)
                self._service.change_state(
                    ServiceState.PERMANENTLY_FAILED, f"crash_{self._supervisor.crashes}", self.failure
                )
            return self.failure or failed.failure
        self._supervisor.record_ready()
        return None

    async def _revive(self, http: httpx2.AsyncClient) -> None:
        hangs = not self._service.ended
        death = await self._service.reap(_RUNS_ON if hangs else "ended")
        self._note_death(death, "hung, " if hangs else "")
        while self._supervisor.condition is Condition.RESTARTING:
            try:
                await self._service.start(http)
            except Occupied:  # another program has its port: it has not crashed, and restarts when the port is free
                await self._clock.sleep(_AGAIN)
            except Failed as failed:
                self._note_death(failed.failure)
            else:
                self._supervisor.record_ready()

    def _note_death(self, death: Failure, how: str = "") -> None:
        supervisor = self._supervisor
        intended = death.circumstances.intended
        permanent = supervisor.record_death(intended=intended) is Condition.PERMANENTLY_FAILED
        self.failure = self._permanent(death) if permanent else None
        state = ServiceState.PERMANENTLY_FAILED if permanent else ServiceState.RESTARTING
        self.crashes += [] if intended else [self._clock.now()]
        reason = "ended_on_purpose" if intended else f"crash_{supervisor.crashes}"
        count = "ended on purpose" if intended else f"{how}crash {supervisor.crashes} of {supervisor.limit}"
        self._service.note(f"{count}: {'permanently_failed' if permanent else 'started again'}")
        self._service.change_state(state, reason, self.failure)

    def _permanent(self, last: Failure) -> Failure:
        minutes = self._supervisor.within / 60
        message = (
            f"service `{self._service.name}` is permanently_failed: it crashed {self._supervisor.limit} times within "
            f"{minutes:g} minutes and is not started again. Last: {last.message}"
        )
        details = {**last.details, "crashes": self._supervisor.limit}
        return Failure("SERVICE_DOWN", message, details=details, circumstances=last.circumstances)
