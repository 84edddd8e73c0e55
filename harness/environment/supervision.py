"""Keeps one service running: what dies or hangs is started again at once, until it is permanent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import httpx2

from harness.environment.health import Health, HealthAnswer, client
from harness.environment.ownership import ServiceState
from harness.environment.process import GRACE, KILLED_WITHIN, POLL
from harness.environment.service import Occupied, Service
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock, Condition, Deadline, Supervisor, poll_until

# When a service that still runs is taken to be unwell: the decision alone.


@dataclass(frozen=True, slots=True)
class Polling:
    """How its health is looked at while the run goes on. All durations are seconds.

    One question takes at most 500 ms; `misses` questions in a row that were not answered well make it suspect. It is
    then asked once more, and given `patience` to answer: a machine under load makes a service slow, and a slow one is
    not ended. Only one that is silent all that time hangs. Nobody else decides that: a task that finds it silent leaves
    it alone.
    """

    interval: float = 10.0
    """Between two questions, the setting `health_interval`; 0 asks none."""
    misses: int = 3
    patience: float = 10.0
    """For the last answer, the setting `health_patience`."""


STANDARD = Polling()
"""Three questions, ten seconds apart, and ten seconds: what hangs is started again 30 to 45 seconds later."""


@dataclass(slots=True)
class Pulse:
    """The questions of one service, as they were answered."""

    polling: Polling
    due: float
    """When the next question is asked; monotonic."""
    missed: int = 0

    @classmethod
    def begin(cls, polling: Polling, now: float) -> Pulse:
        return cls(polling, now + polling.interval)

    def is_due(self, now: float) -> bool:
        return self.polling.interval > 0 and now >= self.due

    def heard(self, *, well: bool, now: float) -> bool:
        """Take an answer. Whether it is suspect now."""
        self.missed = 0 if well else self.missed + 1
        self.due = now + self.polling.interval
        return self.missed >= self.polling.misses


LOOK = 0.1
"""Seconds between two looks at a process."""
AGAIN = 0.25
"""Seconds until a port that a stranger has taken is tried again."""
STOPPING = "is being stopped"
RUNS_ON = "did not answer, and was ended"
UNANSWERED = (Health.SILENT, Health.ABSENT)
"""What a process that hangs answers. One that answers with an error does not hang: it is told of, and left alone."""


class Supervision:
    """Of one service. What another process keeps running is its owner's care; when nobody's, it is started here."""

    def __init__(self, service: Service, clock: Clock, polling: Polling) -> None:
        self._service = service
        self._clock = clock
        self._polling = polling
        self._supervisor = Supervisor(clock.now)
        self._watch: asyncio.Task[None] | None = None
        self._recovery: asyncio.Task[Failure | None] | None = None
        self._over = False
        """Nobody looks after it any more: what is started from now on, nobody would end."""
        self.failure: Failure | None = None
        """Why it is not started any more."""

    @property
    def begun(self) -> bool:
        """Whether it is looked after, or has failed for good."""
        return self._watch is not None

    def begin(self) -> asyncio.Task[None]:
        """It was started by order: its earlier deaths are forgotten. It is looked after from now on."""
        self._supervisor.reset()
        self.failure, self._over = None, False
        self._watch = asyncio.create_task(self._look_after())
        return self._watch

    async def recover(self) -> None:
        """Start it, if it is dead. One that listens and is silent may be busy: the questions tell whether it hangs.

        Whoever asks while that goes on waits for the same. Raises Failed(SERVICE_DOWN) when it does not come back.
        """
        await self._once(self._recover)

    async def _once(self, work: Callable[[], Coroutine[Any, Any, Failure | None]]) -> None:
        if self._over:
            raise Failed(self._service.diagnosis.down(STOPPING))
        if self.failure is None and not self.recovering:
            self._recovery = asyncio.create_task(work())
        if self.failure is None and self._recovery is not None:
            await asyncio.wait((self._recovery,), timeout=self._limit)
        if failure := self.failure or self._outcome():
            raise Failed(failure)

    def cancel(self) -> tuple[asyncio.Task[object], ...]:
        """Look no more, and start it no more; the tasks that end now. To be called in their loop."""
        self._over = True
        tasks = [task for task in (self._watch, self._recovery) if task is not None and not task.done()]
        self._watch = None
        for task in tasks:
            task.cancel()
        return tuple(tasks)

    def let_go(self) -> None:
        """The same from any thread."""
        if self._watch is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed: it looks no more
                self._watch.get_loop().call_soon_threadsafe(self.cancel)

    @property
    def recovering(self) -> bool:
        """Whether somebody has noticed that it does not answer, and it is looked after now."""
        return self._recovery is not None and not self._recovery.done()

    @property
    def _limit(self) -> float:
        """Seconds after which a caller waits no more: one that does not listen, its end, and a start by its owner."""
        return GRACE + KILLED_WITHIN + 3 * self._service.patience

    def _outcome(self) -> Failure | None:
        recovery = self._recovery
        assert recovery is not None
        if not recovery.done():
            return self._service.diagnosis.down("is being started again, and is not ready yet")
        return self._service.diagnosis.down(STOPPING) if recovery.cancelled() else recovery.result()

    async def _look_after(self) -> None:
        """Until it has failed for good, or this is cancelled."""
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
        suspect = pulse.heard(well=answer.health is Health.HEALTHY, now=self._clock.now())
        if pulse.missed == 0 and self._service.status.state in (ServiceState.UNHEALTHY, ServiceState.DOWN):
            self._service.become(ServiceState.UP, "health_ok")
        if suspect and not self._service.ended:
            await self._suspect(http, answer, pulse)

    async def _suspect(self, http: httpx2.AsyncClient, answer: HealthAnswer, pulse: Pulse) -> None:
        missed, failed = pulse.missed, answer.health not in UNANSWERED
        if not failed:
            failed, pulse.missed = await self._unwell(http, answer), 0
        if failed and self._service.status.state is ServiceState.UP:
            self._service.become(ServiceState.UNHEALTHY, f"health_missed_{missed}")

    async def _unwell(self, http: httpx2.AsyncClient, answer: HealthAnswer) -> bool:
        """Whether it does not answer in the end. One of ours that hangs is ended, and started again."""
        if answer.health is Health.ABSENT:
            return await self._recovered_not(self._recover)
        asked = self._service.watchdog
        if await self._answers(http):
            return False
        if asked is None or asked != self._service.watchdog:  # not ours to end, or not what was asked
            return not self._service.ours
        return await self._recovered_not(self._replace)

    async def _recovered_not(self, work: Callable[[], Coroutine[Any, Any, Failure | None]]) -> bool:
        try:
            await self._once(work)
        except Failed:  # told in its state, and to whoever needs it
            return True
        return False

    async def _answers(self, http: httpx2.AsyncClient) -> bool:
        """Whether anything answers, given all its patience; False at once when the process is over."""
        deadline = Deadline.after(self._polling.patience, self._clock.now())
        while not self._service.ended:
            answer = await self._service.ask(http, max(POLL, deadline.left(self._clock.now())))
            if answer.health not in UNANSWERED:
                return True
            if not deadline.allows(POLL, self._clock.now()):
                return False
            await self._clock.sleep(POLL)
        return False

    async def _listens(self, http: httpx2.AsyncClient) -> bool:
        """Whether ours is there, silent or not; while its process runs it is given the time to listen."""

        async def listens() -> bool:
            return self._service.ended or (await self._service.ask(http)).health is not Health.ABSENT

        return await poll_until(self._clock, listens, POLL, self._service.patience) and not self._service.ended

    async def _recover(self) -> Failure | None:
        """Start what is dead. Why it does not run, if it does not in the end."""
        async with client() as http:
            if not self._service.ours:
                silent = (await self._service.ask(http)).health is Health.SILENT
                return None if silent else await self._fast_start(http)
            if await self._listens(http):
                return None
        return await self._replace()

    async def _replace(self) -> Failure | None:
        """End it, should it still run, and start it again."""
        if not self._service.ended and self._service.status.state is ServiceState.UP:
            self._service.become(ServiceState.UNHEALTHY, "no_answer")
        async with client() as http:
            await self._revive(http)
        return self.failure

    async def _fast_start(self, http: httpx2.AsyncClient) -> Failure | None:
        """What was reused is gone: its owner brings it back, else it is started here. Failing thrice is permanent."""
        try:
            await self._service.start(http)
        except Occupied as occupied:
            return occupied.failure
        except Failed as failed:
            if self._service.started_elsewhere:  # whoever starts it may do so at any time
                return failed.failure
            if self._supervisor.died() is Condition.PERMANENTLY_FAILED:
                self.failure = self._permanent(failed.failure)
                self._service.become(ServiceState.PERMANENTLY_FAILED, f"crash_{self._supervisor.crashes}", self.failure)
            return self.failure or failed.failure
        self._supervisor.ready()
        return None

    async def _revive(self, http: httpx2.AsyncClient) -> None:
        hangs = not self._service.ended
        death = await self._service.reap(RUNS_ON if hangs else "ended")
        self._died(death, "hung, " if hangs else "")
        while self._supervisor.condition is Condition.RESTARTING:
            try:
                await self._service.start(http)
            except Occupied:  # its port is a stranger's: it has not crashed, and comes back when the stranger is gone
                await self._clock.sleep(AGAIN)
            except Failed as failed:
                self._died(failed.failure)
            else:
                self._supervisor.ready()

    def _died(self, death: Failure, how: str = "") -> None:
        supervisor = self._supervisor
        intended = death.circumstances.intended
        permanent = supervisor.died(intended=intended) is Condition.PERMANENTLY_FAILED
        self.failure = self._permanent(death) if permanent else None
        state = ServiceState.PERMANENTLY_FAILED if permanent else ServiceState.RESTARTING
        reason = "ended_on_purpose" if intended else f"crash_{supervisor.crashes}"
        count = "ended on purpose" if intended else f"{how}crash {supervisor.crashes} of {supervisor.limit}"
        self._service.note(f"{count}: {'permanently_failed' if permanent else 'started again'}")
        self._service.become(state, reason, self.failure)

    def _permanent(self, last: Failure) -> Failure:
        minutes = self._supervisor.within / 60
        message = (
            f"service `{self._service.name}` is permanently_failed: it crashed {self._supervisor.limit} times within "
            f"{minutes:g} minutes and is not started again. Last: {last.message}"
        )
        return Failure("SERVICE_DOWN", message, details=last.details, circumstances=last.circumstances)
