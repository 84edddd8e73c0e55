"""One service: found or started, ready, stopped."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path
from typing import NoReturn

import httpx2

from harness.failure import Failed, Failure
from harness.resilience import Clock, Deadline
from harness.services.child import POLL, Child
from harness.services.health import Answer, Endpoint, Health, probe
from harness.services.listener import describe_listener, owns_port
from harness.services.ownership import Ownership
from harness.settings import ServiceSettings

SETTLE = 2.0
"""Seconds that a child may take to notice that another process was faster than it at the port."""
INTENDED = -signal.SIGUSR1
"""How a leash ends whose command was ended on purpose."""


class Occupied(Failed):
    """A stranger has its port."""


class Service:
    """A program that serves some hosts. Raises ValueError when its settings contradict themselves."""

    def __init__(self, name: str, settings: ServiceSettings, *, root: Path, logs: Path, clock: Clock) -> None:
        if not settings.command:
            raise ValueError(f"service `{name}`: its command is empty")
        self.name = name
        self.hosts = {host.lower(): port for host, port in settings.hosts.items()}
        self._settings = settings
        self._endpoint = Endpoint.of(name, settings)
        self._root = root
        self._log = logs / f"{name}.log"
        self._clock = clock
        self._ownership = Ownership(logs / f"{name}.owner.json")
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
    def leash(self) -> int | None:
        """The pid over what was started here; None when nothing runs."""
        return None if self._child is None or self._child.ended() else self._child.pid

    @property
    def ended(self) -> bool:
        """Whether what was started here is over."""
        return self._child is not None and self._child.ended()

    @property
    def status(self) -> str:
        """One line for people."""
        ports = ", ".join(f"{host}:{port}" for host, port in self.hosts.items())
        if self._child is not None and self._child.ended():
            return f"{self.name}: ended, see {self._log} ({ports})"
        if self._child is not None:
            return f"{self.name}: started, pid {self._child.pid} ({ports})"
        return f"{self.name}: {'reused' if self._reused else 'not started'} ({ports})"

    async def start(self, http: httpx2.AsyncClient) -> None:
        """Reuse what answers, else start; called again, it starts what has ended. Raises Failed(SERVICE_DOWN).

        What the parent of this process keeps running is not started here: when it has just died, it comes back.
        """
        if self.ended:
            await self._sweep()
        answer = await probe(http, self._endpoint)
        if answer.health is Health.SILENT:
            answer = await self._outwait(http)
        self._reused = answer.health is Health.HEALTHY and self._child is None
        if answer.health is Health.OTHER:
            self._stranger(answer)
        if answer.health is Health.ABSENT and not await self._returned(http):
            await self._sweep()
            self._spawn()
            await self._ready(http)
        if self._child is not None:
            self._ownership.tell()

    async def _returned(self, http: httpx2.AsyncClient) -> bool:
        """Whether the parent's process came back; False when it is not the parent's. Raises what the parent says."""
        deadline = Deadline.after(2 * self._settings.ready_timeout, self._clock.now())
        while self._child is None and (held := self._ownership.above()):
            if held.failure:
                raise Failed(held.failure)
            answer = await probe(http, self._endpoint)
            if answer.health is Health.HEALTHY:
                self._reused = True
                return True
            if not deadline.allows(POLL, self._clock.now()):
                self._down("is kept running by the process that has started this one, and did not come back")
            await self._clock.sleep(POLL)
        return False

    async def stop(self) -> None:
        """End what was started here; what was reused stays."""
        await self._sweep()
        self._ownership.withdraw()

    async def _sweep(self) -> None:
        if self._child is not None:
            await self._child.stop()
            self._child = None

    def kill(self) -> None:
        """The same at once, without a loop."""
        if self._child is not None:
            self._child.kill()
            self._child = None
        self._ownership.withdraw()

    async def bury(self) -> Failure:
        """Sweep what has ended; how it ended."""
        assert self._child is not None
        child, self._child = self._child, None
        return self._end(child, "ended", await child.stop())

    def note(self, text: str, failure: Failure | None) -> None:
        """What its owner makes of its death: into its log, and `failure` to the processes that rely on it."""
        with contextlib.suppress(OSError), self._log.open("a", encoding="utf-8") as log:
            log.write(f"[harness] {text}\n")
        self._ownership.tell(failure)

    def told(self) -> Failure | None:
        """Why the process that has started this one does not start the service any more, if so."""
        held = self._ownership.above() if self._reused else None
        return held.failure if held else None

    def _spawn(self) -> None:
        try:
            self._child = Child(self._settings, self._root, self._log, self._clock)
        except OSError as error:
            self._down(f"cannot be started: {error}")

    async def _ready(self, http: httpx2.AsyncClient) -> None:
        """Wait until it answers as itself."""
        child, answer = self._child, Answer(Health.ABSENT)
        deadline = self._deadline()
        while child is not None and not child.ended():
            answer = await probe(http, self._endpoint)
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
            self._stranger(answer)
        await self._let_go(child)

    async def _let_go(self, child: Child) -> None:
        await child.stop()
        self._child, self._reused = None, True

    async def _outwait(self, http: httpx2.AsyncClient) -> Answer:
        """Something may be starting on the port: ask until it says who it is."""
        deadline = self._deadline()
        answer = await probe(http, self._endpoint)
        while answer.health is Health.SILENT and deadline.allows(POLL, self._clock.now()):
            await self._clock.sleep(POLL)
            answer = await probe(http, self._endpoint)
        if answer.health is Health.SILENT:
            self._stranger(answer)
        return answer

    def _deadline(self) -> Deadline:
        return Deadline.after(self._settings.ready_timeout, self._clock.now())

    async def _give_up(self, child: Child, what: str, answer: Answer) -> NoReturn:
        code = await child.stop()
        self._child = None
        problem = f" ({answer.problem})" if answer.health in (Health.OTHER, Health.SILENT) else ""
        raise Failed(self._end(child, what, code, f"{problem}{self._taken_ports()}"))

    def _end(self, child: Child, what: str, code: int | None, more: str = "") -> Failure:
        """What is said of a process that is over: how it ended, and the end of its log."""
        intended = code == INTENDED
        how = " on purpose" if intended else f" with exit code {code}" if code is not None else ""
        ending = how if what.startswith("ended") else ""
        log = "\n".join(child.tail()) or "(it wrote nothing)"
        return self._failure(f"{what}{ending}{more}. The end of {self._log}:\n{log}", intended)

    def _taken_ports(self) -> str:
        """Its other ports that someone listens on now, when all that it started is gone."""
        owners = {port: describe_listener(port) for port in self.hosts.values() if port != self._endpoint.port}
        taken = [f"port {port} is taken by {owner}" for port, owner in owners.items() if owner.startswith("pid")]
        return f"; {', '.join(taken)}" if taken else ""

    def _stranger(self, answer: Answer) -> NoReturn:
        taken = f"cannot use port {self.port}, which is taken by {describe_listener(self.port)}: {answer.problem}"
        raise Occupied(self._failure(taken))

    def _down(self, what: str) -> NoReturn:
        raise Failed(self._failure(what))

    def _failure(self, what: str, intended: bool = False) -> Failure:
        details = {"service": self.name, "hosts": dict(self.hosts), **({"intended": True} if intended else {})}
        return Failure("SERVICE_DOWN", f"service `{self.name}` {what}", details=details)
