"""One service: found or started, ready, stopped."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import shlex
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NoReturn, TextIO

import httpx2

from harness.environment.health import PROBE_TIMEOUT, WAITS, Health, HealthAnswer, HealthEndpoint, probe
from harness.environment.ownership import (
    WAYS,
    Held,
    Ownership,
    RunFolder,
    ServicePhase,
    ServiceState,
    kept_folder,
    lock_file,
    log_file,
    owner_file,
    owner_files_of_runs,
)
from harness.environment.preparation import chosen_ports, fill, fits, is_free, placeholder_values, run_to_end
from harness.environment.process import POLL, Child, Identity, Program, describe_listener, owns_port
from harness.model.service_settings import AUTO, ServiceSettings, expand
from harness.recovery.failure import Circumstances, Failed, Failure
from harness.resilience import Clock, Deadline, poll_until
from harness.resilience.events import Emit, nobody

# What is wrong with a service, in words: a Failure that names who has its port, how it ended, the end of its log.

INTENDED = -signal.SIGUSR1
"""How a watchdog ends whose command was ended on purpose."""


class Occupied(Failed):
    """A stranger has its port."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Of one service."""

    name: str
    hosts: Mapping[str, int]
    port: int
    log: Path

    def down(self, what: str, *, intended: bool = False) -> Failure:
        details, how = {"service": self.name, "hosts": dict(self.hosts)}, Circumstances(intended=intended)
        return Failure("SERVICE_DOWN", f"service `{self.name}` {what}", details=details, circumstances=how)

    def occupied(self, answer: HealthAnswer) -> Occupied:
        """Of a port that somebody has whom this run may not use; `answer` is what that says on it."""
        says = answer.problem or "it answers as this service, and this project does not keep it"
        name = self.name.partition("[")[0]
        failure = self.down(f"cannot use port {self.port}, which is taken by {describe_listener(self.port)}: {says}")
        advice = (
            f'End that process, or take another port: `port = "auto"` in [tool.harness.services.{name}], or '
            f"`--task-port {name}=PORT`. To share one between runs: `harness services start --persist`."
        )
        return Occupied(replace(failure, advice=advice))

    def unready(self, child: Child, what: str, code: int | None, answer: HealthAnswer) -> Failure:
        """Its process is over, or was ended, before it answered as itself."""
        problem = f" ({answer.problem})" if answer.health in (Health.OTHER, *WAITS) else ""
        failure = self.ended(child, what, code, f"{problem}{self._taken_ports()}")
        if answer.health is not Health.OTHER or what.startswith("ended"):
            return failure
        name = self.name.partition("[")[0]
        advice = (
            f"Something answers there: see that `health` in [tool.harness.services.{name}] is an address that says 200"
        )
        return replace(failure, advice=f"{advice} when it is ready, and what `identity` demands.")

    def ended(self, child: Child, what: str, code: int | None, more: str = "") -> Failure:
        """What is said of a process that is over: how it ended, and the end of its log."""
        intended = code == INTENDED
        how = " on purpose" if intended else f" with exit code {code}" if code is not None else ""
        ending = how if what.startswith("ended") else ""
        log = "\n".join(child.tail()) or "(it wrote nothing)"
        return self.down(f"{what}{ending}{more}. The end of {self.log}:\n{log}", intended=intended)

    def _taken_ports(self) -> str:
        """Its other ports that someone listens on now, when all that it started is gone."""
        owners = {port: describe_listener(port) for port in self.hosts.values() if port != self.port}
        taken = [f"port {port} is taken by {owner}" for port, owner in owners.items() if owner.startswith("pid")]
        return f"; {', '.join(taken)}" if taken else ""


# Whose turn it is to start what does not run: of those who find that at the same moment, only one starts it.

LOCKED = 60.0
"""Seconds that another process may take to start it: some milliseconds, and as long as its template takes to copy."""


class StartAttempt:
    """What one start of one service has to know."""

    def __init__(self, owner: Callable[[], Held | None], lock: Path, diagnosis: Diagnosis, clock: Clock) -> None:
        """`owner` answers which other process keeps it, on ports that can be used."""
        self._other, self._lock = owner, lock
        self._diagnosis, self._clock = diagnosis, clock
        self._forsaken: Identity | None = None

    async def came_back(self, ask: Callable[[], Awaitable[HealthAnswer]], within: float) -> bool:
        """Whether what another process keeps came back; False when there is none. Raises what the parent says."""
        deadline = Deadline.after(within, self._clock.now())
        while held := self._owner():
            if held.failure:
                raise Failed(held.failure)
            if (await ask()).health is Health.HEALTHY:
                return True
            if not deadline.allows(POLL, self._clock.now()):
                self._forsake(held)
            else:
                await self._clock.sleep(POLL)
        return False

    async def take(self, start: Callable[[], Awaitable[None]]) -> bool:
        """Start it, and tell, unless another process does that since; whether it was done. Raises Failed."""
        try:
            async with alone(self._lock, self._clock):
                if self._owner():
                    return False
                await start()
        except OSError as error:
            raise Failed(self._diagnosis.down(f"cannot be started: {error}")) from None
        return True

    def _owner(self) -> Held | None:
        """Who is to bring it back. One that has given up has no say in what is done here, unless it is the parent."""
        held = self._other()
        given_up = held and (held.owner == self._forsaken or (held.failure and not held.above))
        return None if given_up else held

    def _forsake(self, held: Held) -> None:
        """It lives, and does not bring it back."""
        if held.above:
            what = "is kept running by the process that has started this one, and did not come back"
            raise Failed(self._diagnosis.down(what))
        self._forsaken = held.owner


@asynccontextmanager
async def alone(file: Path, clock: Clock) -> AsyncIterator[None]:
    """The lock that all processes share. The kernel releases it when its owner dies. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lock:
        if not await poll_until(clock, lambda: _locked(lock), POLL, LOCKED):
            raise TimeoutError(f"another process has held {file} for {LOCKED:g} s")
        yield


def _locked(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


ENDING = 1.0
"""Seconds that a process which ends may go on taking connections."""
CHOICES = 5
"""So many times ports are chosen for one start."""
SETTLE = 2.0
"""Seconds that a child may take to notice that another process was faster than it at the port."""


@dataclass(frozen=True, slots=True)
class Home:
    """Where the services of one process have their files, and who is to find them."""

    root: Path
    """The project's folder."""
    logs: Path
    run: RunFolder
    kept: bool = False
    """They are kept for other processes of the project, until `harness services start` ends or `stop` is called."""
    persisted: bool = False
    """Until `stop`: this process is a keeper."""

    def ownership(self, name: str) -> Ownership:
        """What is said of one service, here and by others."""
        kept = owner_file(self.logs, name)
        mine = kept if self.kept else lambda: owner_file(self.run.path, name)
        return Ownership(mine, kept=kept, runs=lambda: owner_files_of_runs(self.logs, name), persisted=self.persisted)

    def folder(self, name: str) -> Path:
        """Its `{folder}`. Raises OSError."""
        return kept_folder(self.logs, name).absolute() if self.kept else self.run.path / name

    def lock(self, name: str) -> Path:
        """One for all processes of the project: a start is short."""
        return lock_file(self.logs, name)


class Service:
    """A program that serves some hosts. Raises ValueError when its settings contradict themselves."""

    def __init__(
        self,
        name: str,
        settings: ServiceSettings,
        *,
        home: Home,
        clock: Clock,
        emit: Emit = nobody,
        taken: Container[int] = (),
    ) -> None:
        """`taken` are ports that are not to be chosen for it."""
        if settings.command is not None and not settings.command:
            raise ValueError(f"service `{name}`: its command is empty")
        self.name = name
        self.status = ServicePhase(name, clock, emit)
        self._settings, self._home, self._clock, self._taken = settings, home, clock, taken
        self._log = log_file(home.logs, name)
        self._ownership = home.ownership(name)
        self._child: Child | None = None
        self._reused = False
        self._published = False
        """Somebody relies on its ports: it has been up."""
        self._use(chosen_ports(settings, taken))

    def _use(self, ports: Mapping[str, int]) -> None:
        self.hosts: Mapping[str, int] = dict(ports)
        """Host name, in lower case -> port."""
        self._endpoint = HealthEndpoint.of(self.name, self._settings, ports)
        self.diagnosis = Diagnosis(self.name, self.hosts, self.port, self._log)

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
    def started_elsewhere(self) -> bool:
        """Whether it has no command: others start it."""
        return self._settings.command is None

    @property
    def reset_by(self) -> tuple[str, ...] | Literal["restart"] | None:
        """How its first state is put back."""
        return self._settings.reset

    @property
    def kept_since(self) -> str | None:
        """Since when another process of this project keeps it, which this run uses (ISO 8601); else None."""
        held = self._ownership.kept() if self._reused else None
        return held.since if held else None

    @property
    def watchdog(self) -> int | None:
        """The pid over what was started here; None when nothing runs."""
        return None if self._child is None or self._child.ended() else self._child.pid

    @property
    def kept_watchdog(self) -> int | None:
        """The pid over what the project keeps between runs; None when nothing runs."""
        held = self._ownership.elsewhere()
        return held.program.pid if held and held.program and held.program.alive else None

    @property
    def folder(self) -> Path:
        """Its `{folder}`. Raises OSError."""
        return self._home.folder(self.name)

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

    def become(self, state: ServiceState, reason: str, failure: Failure | None = None) -> None:
        """Change its state; who relies on this process is told, of `failure` too, for which it has given up."""
        self.status.become(state, reason)
        if self._child is not None or self._ownership.mine:
            facts = {"state": state, "since": self.status.since.isoformat(), "restarts": self.status.restarts}
            self._ownership.tell(facts, self.watchdog, self.hosts, failure)

    async def ask(self, http: httpx2.AsyncClient, within: float = PROBE_TIMEOUT) -> HealthAnswer:
        """Its health, now."""
        return await probe(http, self._endpoint, within)

    async def start(self, http: httpx2.AsyncClient) -> None:
        """Use what this project keeps, else start it; called again, it starts what has ended. Raises Failed.

        What another living process keeps running is not started here: when it has just died, it comes back. A port that
        was chosen is chosen again when somebody else was faster.
        """
        for left in reversed(range(CHOICES)):
            try:
                await self._find_or_start(http)
            except Failed:
                if self.status.state is ServiceState.BOOTING:
                    self.status.become(ServiceState.DOWN, "start_failed")
                    self._ownership.withdraw()
                if not left or not await self._choose_again():
                    raise
            else:
                self._published = True
                return

    async def _choose_again(self) -> bool:
        """Other ports, where somebody was faster at a chosen one, and nobody relies on it yet; whether it was so."""
        auto = [host for host, port in self._settings.declared.items() if port == AUTO]
        if self._published or all(map(is_free, (self.hosts[host] for host in auto))):
            return False
        await self._sweep()
        self._use(chosen_ports(self._settings, self._taken))
        return True

    async def _find_or_start(self, http: httpx2.AsyncClient) -> None:
        if self.ended:
            await self._sweep()
        owner = self._adopt()
        if self._settings.command is None:
            await self._answers_elsewhere(http)
        else:
            await self._started_or_kept(http, owner)
        self.become(ServiceState.UP, "already_running" if self._reused else "health_ok")

    async def _started_or_kept(self, http: httpx2.AsyncClient, owner: Held | None) -> None:
        answer = await self._outwait(http)
        if answer.health is Health.HEALTHY and self._child is None and owner is None:
            owner = self._adopt()  # one that has just come up, while this waited
        well = answer.health is Health.HEALTHY and (self._child is not None or owner is not None)
        self._reused = well and self._child is None
        if well:
            return
        if answer.health is not Health.ABSENT:
            raise self.diagnosis.occupied(answer)
        self._gone()
        self._reused = await self._returns(http)
        if not self._reused:
            await self._ready(http)

    async def _answers_elsewhere(self, http: httpx2.AsyncClient) -> None:
        """Wait until others have it up."""
        deadline = self._deadline()
        while (answer := await self.ask(http)).health is not Health.HEALTHY:
            if answer.health in (Health.ABSENT, *WAITS):
                self._gone()
            if answer.health is Health.OTHER or not deadline.allows(POLL, self._clock.now()):
                what = f"is started by others (it has no `command`), and on port {self.port}: {answer.problem}"
                raise Failed(self.diagnosis.down(what))
            await self._clock.sleep(POLL)
        self._reused = True

    def _adopt(self) -> Held | None:
        """Who else keeps it, on ports that fit; they are used from now on."""
        held = self._ownership.elsewhere() if self._child is None else None
        if held is None or not fits(self._settings, held.ports):
            return None
        if dict(held.ports) != dict(self.hosts):
            self._use(held.ports)
        return held

    def _gone(self) -> None:
        if self.status.state in (ServiceState.UP, ServiceState.UNHEALTHY):
            self.become(ServiceState.DOWN, "gone")

    async def _returns(self, http: httpx2.AsyncClient) -> bool:
        """Whether another process has it back; else it is started here. Raises Failed when that cannot be."""
        turn = StartAttempt(self._adopt, self._home.lock(self.name), self.diagnosis, self._clock)
        while not await turn.came_back(lambda: self.ask(http), 2 * self._settings.ready_timeout):
            await self._sweep()
            if await turn.take(self._spawn):
                return False
        return True

    async def stop(self) -> None:
        """End what was started here; what was reused stays."""
        runs = self._child is not None or self.status.state is ServiceState.RESTARTING
        await self._sweep()
        if runs and ServiceState.STOPPED in WAYS[self.status.state]:
            self.status.become(ServiceState.STOPPED, "stop_ordered")
        if not (self._ownership.persisted and self.status.state is ServiceState.PERMANENTLY_FAILED):
            self._ownership.withdraw()  # else it stays written why it does not run
        if runs and self._home.kept:
            await asyncio.to_thread(shutil.rmtree, self._home.folder(self.name), ignore_errors=True)

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

    async def reap(self, what: str = "ended") -> Failure:
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

    async def _spawn(self) -> None:
        """Raises OSError."""
        told = self._ownership.file.absolute()
        program = await asyncio.to_thread(self._prepare)
        self._child = Child(program, self._log, told, self._clock)
        if self.status.state is not ServiceState.RESTARTING:
            self.become(ServiceState.BOOTING, "spawned")

    def _prepare(self) -> Program:
        """What is started; its folder is made, and filled by the template. Raises OSError."""
        folder, template = self._home.folder(self.name), self._settings.template
        if template is not None:
            fill(folder, self._home.root / template)
        folder.mkdir(parents=True, exist_ok=True)
        return self.program(self._settings.command or ())

    def program(self, command: Sequence[str]) -> Program:
        """A command of this service's, as it is run. Raises OSError."""
        values = placeholder_values(self.hosts, self.port, self._home.folder(self.name))
        settings = self._settings
        environment = {name: expand(text, values) for name, text in settings.environment.items()}
        cwd = self._home.root / expand(settings.cwd or "", values)
        return Program([expand(each, values) for each in command], environment, cwd)

    async def run_reset(self, command: Sequence[str]) -> None:
        """Run its reset command to the end. Raises Failed with its exit code and what it has written."""
        try:
            failure = await run_to_end(self.program(command), self._settings.reset_timeout)
        except OSError as error:
            failure = f"cannot be started: {error}"
        if failure:
            raise Failed(self.diagnosis.down(f"was not reset: its command {shlex.join(command)} {failure}"))

    async def _ready(self, http: httpx2.AsyncClient) -> None:
        """Wait until it answers as itself."""
        child, answer = self._child, HealthAnswer(Health.ABSENT)
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
        await self._sweep()
        self._ownership.withdraw()  # it is not ours to tell of
        if answer.health is Health.OTHER or not self._adopt():
            raise self.diagnosis.occupied(answer)
        self._reused = True

    async def _outwait(self, http: httpx2.AsyncClient) -> HealthAnswer:
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

    async def _give_up(self, child: Child, what: str, answer: HealthAnswer) -> NoReturn:
        code = await child.stop()
        self._child = None
        raise Failed(self.diagnosis.unready(child, what, code, answer))
