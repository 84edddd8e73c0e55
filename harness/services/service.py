"""One service: found or started, ready, stopped."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NoReturn

import httpx2

from harness.failure import Failed, Failure
from harness.resilience import Clock, Deadline
from harness.resilience.events import Emit, nobody
from harness.services.child import POLL, Child
from harness.services.diagnosis import Diagnosis
from harness.services.health import PROBE_TIMEOUT, WAITS, Answer, Endpoint, Health, probe
from harness.services.listener import owns_port
from harness.services.ownership import Ownership
from harness.services.places import lock_file, log_file, owner_file
from harness.services.states import WAYS, State, Status
from harness.services.turn import Turn
from harness.settings import ServiceSettings

ENDING = 1.0
"""Seconds that a process which ends may go on taking connections."""
SETTLE = 2.0
"""Seconds that a child may take to notice that another process was faster than it at the port."""


class Service:
    """A program that serves some hosts. Raises ValueError when its settings contradict themselves."""

    def __init__(
        self,
        name: str,
        settings: ServiceSettings,
        *,
        root: Path,
        logs: Path,
        clock: Clock,
        emit: Emit = nobody,
        persisted: bool = False,
    ) -> None:
        if not settings.command:
            raise ValueError(f"service `{name}`: its command is empty")
        self.name = name
        self.hosts = {host.lower(): port for host, port in settings.hosts.items()}
        self.status = Status(name, clock, emit)
        self._settings, self._root, self._clock = settings, root, clock
        self._endpoint = Endpoint.of(name, settings)
        self._log = log_file(logs, name)
        self._lock = lock_file(logs, name)
        self._ownership = Ownership(owner_file(logs, name), persisted=persisted)
        self.diagnosis = Diagnosis(name, self.hosts, self.port, self._log)
        self._child: Child | None = None
        self._reused = False

    @property
    def port(self) -> int:
        """Where it is asked for its health."""
        return self._endpoint.port

    @property
    def patience(self) -> float:
        """Seconds that it may take to come back."""
        return self._settings.ready_timeout

    @property
    def ours(self) -> bool:
        """Whether it was started here: it is not another process's care."""
        return self._child is not None

    @property
    def leash(self) -> int | None:
        """The pid over what was started here; None when nothing runs."""
        return None if self._child is None or self._child.ended() else self._child.pid

    @property
    def ended(self) -> bool:
        """Whether what was started here is over."""
        return self._child is not None and self._child.ended()

    @property
    def line(self) -> str:
        """How it is, for people."""
        ports = ", ".join(f"{host}:{port}" for host, port in self.hosts.items())
        if self._child is not None and self._child.ended():
            return f"{self.name}: ended, see {self._log} ({ports})"
        if self._child is not None:
            return f"{self.name}: started, pid {self._child.pid} ({ports})"
        return f"{self.name}: {'reused' if self._reused else 'not started'} ({ports})"

    def become(self, state: State, reason: str, failure: Failure | None = None) -> None:
        """Change its state; who relies on this process is told, of `failure` too, for which it has given up."""
        self.status.become(state, reason)
        if self._child is not None or self._ownership.mine:
            facts = {"state": state, "since": self.status.since.isoformat(), "restarts": self.status.restarts}
            self._ownership.tell(facts, self.leash, failure)

    async def ask(self, http: httpx2.AsyncClient, within: float = PROBE_TIMEOUT) -> Answer:
        """Its health, now."""
        return await probe(http, self._endpoint, within)

    async def start(self, http: httpx2.AsyncClient) -> None:
        """Reuse what answers, else start; called again, it starts what has ended. Raises Failed(SERVICE_DOWN).

        What another living process keeps running is not started here: when it has just died, it comes back.
        """
        try:
            await self._find_or_start(http)
        except Failed:
            if self.status.state is State.BOOTING:
                self.status.become(State.DOWN, "start_failed")
                self._ownership.withdraw()
            raise

    async def _find_or_start(self, http: httpx2.AsyncClient) -> None:
        if self.ended:
            await self._sweep()
        answer = await self._outwait(http)
        self._reused = answer.health is Health.HEALTHY and self._child is None
        if answer.health is Health.OTHER:
            raise self.diagnosis.occupied(answer)
        if answer.health is Health.ABSENT:
            self._gone()
            self._reused = await self._returns(http)
            if not self._reused:
                await self._ready(http)
        self.become(State.UP, "already_running" if self._reused else "health_ok")

    def _gone(self) -> None:
        if self.status.state in (State.UP, State.UNHEALTHY):
            self.become(State.DOWN, "gone")

    async def _returns(self, http: httpx2.AsyncClient) -> bool:
        """Whether another process has it back; else it is started here. Raises Failed when that cannot be."""
        turn = Turn(self._ownership, self._lock, self.diagnosis, self._clock)
        while not await turn.came_back(lambda: self.ask(http), 2 * self._settings.ready_timeout):
            await self._sweep()
            if await turn.take(self._spawn):
                return False
        return True

    async def stop(self) -> None:
        """End what was started here; what was reused stays."""
        runs = self._child is not None or self.status.state is State.RESTARTING
        await self._sweep()
        if runs and State.STOPPED in WAYS[self.status.state]:
            self.status.become(State.STOPPED, "stop_ordered")
        if not (self._ownership.persisted and self.status.state is State.PERMANENTLY_FAILED):
            self._ownership.withdraw()  # else it stays written why it does not run

    async def _sweep(self) -> None:
        if self._child is not None:
            await self._child.stop()
            self._child = None

    def kill(self) -> None:
        """The same at once, without a loop; nobody is told."""
        if self._child is not None:
            self._child.kill()
            self._child = None
        self._ownership.withdraw()

    async def bury(self, what: str = "ended") -> Failure:
        """Sweep what has ended, or is to end now; how it ended. Who is cancelled meanwhile leaves it to `stop`."""
        child = self._child
        assert child is not None
        code = await child.stop()
        self._child = None
        return self.diagnosis.ended(child, what, code)

    def note(self, text: str) -> None:
        """What its owner makes of it, into its log."""
        with contextlib.suppress(OSError), self._log.open("a", encoding="utf-8") as log:
            log.write(f"[harness] {text}\n")

    def told(self) -> Failure | None:
        """Why the process that has started this one does not start the service any more, if so."""
        held = self._ownership.above() if self._reused else None
        return held.failure if held else None

    def _spawn(self) -> None:
        """Raises OSError."""
        told = self._ownership.file.absolute()
        self._child = Child(self._settings, self._root, self._log, told, self._clock)
        if self.status.state is not State.RESTARTING:
            self.become(State.BOOTING, "spawned")

    async def _ready(self, http: httpx2.AsyncClient) -> None:
        """Wait until it answers as itself."""
        child, answer = self._child, Answer(Health.ABSENT)
        deadline = self._deadline()
        while child is not None and not child.ended():
            answer = await self.ask(http)
            if answer.health is Health.HEALTHY:
                await self._settle(child, http)
                return
            if not deadline.allows(POLL, self._clock.now()):
                await self._give_up(child, f"was not ready within {self._settings.ready_timeout:g} s", answer)
            await self._clock.sleep(POLL)
        if child is not None:
            await self._outrun(child, http)

    async def _settle(self, child: Child, http: httpx2.AsyncClient) -> None:
        """What answers may be another harness's service, started in the same moment: then ours is about to fail."""
        if owns_port(child.pid, self._endpoint.port) or not await child.wait(SETTLE):
            return
        await self._outrun(child, http)

    async def _outrun(self, child: Child, http: httpx2.AsyncClient) -> None:
        """It ended at start: because another harness was faster, because of a stranger, or by itself."""
        answer = await self._outwait(http)
        if answer.health is Health.ABSENT:
            await self._give_up(child, "ended at start", answer)
        if answer.health is Health.OTHER:
            raise self.diagnosis.occupied(answer)
        await self._sweep()
        self._ownership.withdraw()  # it is not ours to tell of
        self._reused = True

    async def _outwait(self, http: httpx2.AsyncClient) -> Answer:
        """Something may be starting on the port: ask until it says who it is. Raises Occupied when it never does.

        What has not even answered in HTTP may be ending, and is asked again: its port is free in a moment.
        """
        deadline, ending = self._deadline(), Deadline.after(ENDING, self._clock.now())
        while (answer := await self.ask(http)).health in WAITS or answer.ending:
            if answer.ending and not ending.allows(POLL, self._clock.now()):
                break
            if not deadline.allows(POLL, self._clock.now()):
                raise self.diagnosis.occupied(answer)
            await self._clock.sleep(POLL)
        return answer

    def _deadline(self) -> Deadline:
        return Deadline.after(self._settings.ready_timeout, self._clock.now())

    async def _give_up(self, child: Child, what: str, answer: Answer) -> NoReturn:
        code = await child.stop()
        self._child = None
        raise Failed(self.diagnosis.unready(child, what, code, answer))
