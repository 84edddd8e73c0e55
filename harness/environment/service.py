"""One service: it is found or started, becomes ready, and is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct

from harness.environment.health import ADDRESS, PROBE_TIMEOUT, WAITS, Health, HealthAnswer, HealthEndpoint, probe
from harness.environment.ownership import (
    TRANSITIONS,
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
    reset_mark,
)
from harness.environment.reset import run_reset_command
from harness.model.service_settings import AUTO, ServiceSettings, expand
from harness.recovery.failure import Circumstances, Failed, Failure
from harness.resilience import Clock, Deadline, poll_until
from harness.resilience.events import Emit, discard
from harness.resilience.owner import Owner
from harness.resilience.process import INTENDED, POLL, Child, Program, describe_listener, owns_port
from harness.resilience.replaced import try_lock
from harness.values import replace

if TYPE_CHECKING:
    import httpx2

# The failure of a service: who has its port, how it ended, the end of its log.


class Occupied(Failed):
    """Another process has the service's port."""


class Diagnosis(Struct, frozen=True):
    """Makes the failures of one service."""

    name: str
    hosts: Mapping[str, int]
    port: int
    log: Path

    def down(self, what: str, *, intended: bool = False) -> Failure:
        details, how = {"service": self.name, "hosts": dict(self.hosts)}, Circumstances(intended=intended)
        return Failure("SERVICE_DOWN", f"service `{self.name}` {what}", details=details, circumstances=how)

    def occupied(self, answer: HealthAnswer) -> Occupied:
        """The failure for a port that is used by a process which this run may not use; `answer` is the answer there."""
        says = answer.problem or "it answers as this service, but this project did not start it"
        name = self.name.partition("[")[0]
        failure = self.down(f"cannot use port {self.port}, which is taken by {describe_listener(self.port)}: {says}")
        advice = (
            f'End that process, or use another port: `port = "auto"` in [tool.harness.services.{name}], or '
            f"`--task-port {name}=PORT`. To share a service between runs, use `harness services start --persist`."
        )
        return Occupied(replace(failure, advice=advice))

    def not_ready(self, child: Child, what: str, code: int | None, answer: HealthAnswer) -> Failure:
        """The failure if its process ended, or was ended, before it answered with its identity."""
        problem = f" ({answer.problem})" if answer.health in (Health.OTHER, *WAITS) else ""
        # Its other ports that someone listens on now, after its own processes have ended.
        owners = {port: describe_listener(port) for port in self.hosts.values() if port != self.port}
        taken = [f"port {port} is taken by {owner}" for port, owner in owners.items() if owner.startswith("pid")]
        more = f"{problem}; {', '.join(taken)}" if taken else problem
        failure = self.process_ended(child, what, code, more)
        failure = replace(failure, details={**failure.details, "at_start": True})
        if what.startswith("ended"):
            return failure
        table = f"[tool.harness.services.{self.name.partition('[')[0]}]"
        if answer.health is Health.OTHER:
            advice = (
                f"A program answers there. Check that `health` in {table} is a URL that answers 200 when the service "
                "is ready, with the values of `identity`."
            )
        else:
            advice = (
                f"If it only starts slowly, raise `ready_timeout` in {table}; else see the end of its log, and try it "
                "alone: `harness services start`."
            )
        return replace(failure, advice=advice)

    def process_ended(self, child: Child, what: str, code: int | None, more: str = "") -> Failure:
        """The failure for a process that has ended: its exit code, and the end of its log."""
        intended = code == INTENDED
        how = " on purpose" if intended else f" with exit code {code}" if code is not None else ""
        ending = how if what.startswith("ended") else ""
        log = "\n".join(child.tail()) or "(it wrote nothing)"
        return self.down(f"{what}{ending}{more}. The end of {self.log}:\n{log}", intended=intended)


# Starts a service once, if several processes find at the same moment that it does not run.

LOCKED = 60.0
"""Seconds for another process to start the service: some milliseconds, and the time to copy its template."""


class StartAttempt:
    """The data of one start of one service."""

    def __init__(self, owner: Callable[[], Held | None], lock: Path, diagnosis: Diagnosis, clock: Clock) -> None:
        """`owner` returns the other process that runs it, on ports that can be used."""
        self._other, self._lock = owner, lock
        self._diagnosis, self._clock = diagnosis, clock
        self._forsaken: Owner | None = None

    async def came_back(self, ask: Callable[[], Awaitable[HealthAnswer]], within: float) -> bool:
        """Wait for another owner to restart it; return False if there is none. Raises Failed if the parent gave up."""
        deadline = Deadline.after(within, self._clock.now())
        while held := self._owner():
            if held.failure:
                raise Failed(held.failure)
            if (await ask()).health is Health.HEALTHY:
                return True
            if deadline.allows(POLL, self._clock.now()):
                await self._clock.sleep(POLL)
            elif held.is_own_or_parents:
                what = "did not come back; the process that started this one keeps it running"
                raise Failed(self._diagnosis.down(what))
            else:
                self._forsaken = held.owner  # the living owner does not restart it
        return False

    async def take(self, start: Callable[[], Awaitable[None]]) -> bool:
        """Start it and record that, unless another process has meanwhile; return whether it started. Raises Failed."""
        try:
            async with start_lock(self._lock, self._clock):
                if self._owner():
                    return False
                await start()
        except OSError as error:
            raise Failed(self._diagnosis.down(f"cannot be started: {error}")) from None
        return True

    def _owner(self) -> Held | None:
        """The owner that is to restart it. One that has given up does not count, unless it is the parent."""
        held = self._other()
        given_up = held and (held.owner == self._forsaken or (held.failure and not held.is_own_or_parents))
        return None if given_up else held


@asynccontextmanager
async def start_lock(file: Path, clock: Clock) -> AsyncIterator[None]:
    """Hold the lock that all processes share. The kernel releases it when its owner dies. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lock:
        if not await poll_until(clock, lambda: try_lock(lock), POLL, LOCKED):
            raise TimeoutError(f"another process has held {file} for {LOCKED:g} s")
        yield


_ENDING = 1.0
"""Seconds for which an ending process may still accept connections."""
_CHOICES = 5
"""The number of times that ports are chosen for one start."""
_SETTLE = 2.0
"""Seconds that a child may take to notice that another process took its port first."""


class Home(Struct, frozen=True):
    """The places of the files of one process's services, and the processes that may find them."""

    root: Path
    """The project's folder."""
    logs: Path
    run: RunFolder
    kept: bool = False
    """Whether they are kept for other processes of the project, until `harness services start` or `stop` ends it."""
    persisted: bool = False
    """Whether they are kept until `stop`: this process is a daemon."""

    def ownership(self, name: str) -> Ownership:
        """The owner files of one service, of this process and of others."""
        kept = owner_file(self.logs, name)
        mine = kept if self.kept else lambda: owner_file(self.run.path, name)
        return Ownership(mine, kept=kept, runs=lambda: owner_files_of_runs(self.logs, name), persisted=self.persisted)

    def folder(self, name: str) -> Path:
        """Its `{folder}`. Raises OSError."""
        return kept_folder(self.logs, name).absolute() if self.kept else self.run.path / name

    def lock(self, name: str) -> Path:
        """The lock file for all processes of the project, since a start is short."""
        return lock_file(self.logs, name)


class Service:
    """A program that serves some hosts. Raises ValueError if its settings contradict themselves."""

    def __init__(
        self,
        name: str,
        settings: ServiceSettings,
        *,
        home: Home,
        clock: Clock,
        emit: Emit = discard,
        taken: Collection[int] = (),
    ) -> None:
        """`taken` are ports that must not be chosen for it."""
        if settings.command is not None and not settings.command:
            raise ValueError(f"service `{name}`: its command is empty")
        self.name = name
        self.status = ServicePhase(name, clock, emit)
        self.settings, self._home, self._clock, self._taken = settings, home, clock, taken
        self._log = log_file(home.logs, name)
        self._ownership = home.ownership(name)
        self._child: Child | None = None
        self._reused = False
        self._published = False
        """Whether it has been up, so that its ports are in use."""
        self._has_state = False
        """Whether a program that was up here has left its state in `{folder}`: a start after a crash keeps it."""
        self._use_ports(chosen_ports(settings, taken))

    def _use_ports(self, ports: Mapping[str, int]) -> None:
        self.hosts: Mapping[str, int] = dict(ports)
        """Host name, in lower case -> port."""
        self._endpoint = HealthEndpoint.of(self.name, self.settings, ports)
        self.diagnosis = Diagnosis(self.name, self.hosts, self.port, self._log)

    @property
    def port(self) -> int:
        """The port of its health URL."""
        return self._endpoint.port

    @property
    def ours(self) -> bool:
        """Whether this process started it, so that no other process looks after it."""
        return self._child is not None

    @property
    def kept_since(self) -> str | None:
        """The time since which another process of this project keeps it for this run (ISO 8601); else None."""
        held = self._ownership.persistent_record() if self._reused else None
        return held.since if held else None

    @property
    def watchdog(self) -> int | None:
        """The pid of the watchdog of what was started here; None if nothing runs."""
        return None if self._child is None or self._child.has_ended() else self._child.pid

    @property
    def kept_watchdog(self) -> int | None:
        """The pid of the watchdog of what the project keeps between runs; None if nothing runs."""
        held = self._ownership.other_owner()
        return held.program.pid if held and held.program and held.program.alive else None

    @property
    def folder(self) -> Path:
        """Its `{folder}`; that of its owner, if another process has started it. Raises OSError."""
        held = self._ownership.other_owner()
        return held.folder if held and held.folder else self._home.folder(self.name)

    @property
    def ended(self) -> bool:
        """Whether the process that was started here has ended."""
        return self._child is not None and self._child.has_ended()

    @property
    def line(self) -> str:
        """Its state in one line, for people."""
        ports = ", ".join(f"{host}:{port}" for host, port in self.hosts.items())
        if self._child is not None and self._child.has_ended():
            return f"{self.name}: ended, see {self._log} ({ports})"
        if self._child is not None:
            return f"{self.name}: started, pid {self._child.pid} ({ports})"
        return f"{self.name}: {'reused' if self._reused else 'not started'} ({ports})"

    def change_state(self, state: ServiceState, reason: str, failure: Failure | None = None) -> None:
        """Change and record its state, with the `failure` after which it has given up."""
        self.status.change_state(state, reason)
        if self._child is not None or self._ownership.mine:
            facts = {
                "state": state,
                "since": self.status.since.isoformat(),
                "restarts": self.status.restarts,
                "folder": str(self._home.folder(self.name)),
            }
            self._ownership.record(facts, self.watchdog, self.hosts, failure)

    async def ask(self, http: httpx2.AsyncClient, within: float = PROBE_TIMEOUT) -> HealthAnswer:
        """Ask for its health now."""
        return await probe(http, self._endpoint, within)

    async def start(self, http: httpx2.AsyncClient) -> None:
        """Use the service that the project keeps, else start it; a second call restarts an ended one. Raises Failed.

        A service of another living process is not started here: if it has just died, that process restarts it. A chosen
        port is chosen again if another process took it first.
        """
        for left in reversed(range(_CHOICES)):
            try:
                await self._find_or_start(http)
            except Failed:
                if self.status.state is ServiceState.BOOTING:
                    self.status.change_state(ServiceState.DOWN, "start_failed")
                    self._ownership.withdraw()
                if not left or not await self._choose_again():
                    raise
            else:
                self._published, self._has_state = True, self._child is not None
                return

    async def _choose_again(self) -> bool:
        """Choose other ports if another process took one and they are not in use yet; return whether it did."""
        auto = [host for host, port in self.settings.declared.items() if port == AUTO]
        if self._published or all(map(is_free, (self.hosts[host] for host in auto))):
            return False
        await self._sweep()
        self._use_ports(chosen_ports(self.settings, self._taken))
        return True

    async def _find_or_start(self, http: httpx2.AsyncClient) -> None:
        if self.ended:
            await self._sweep()
        owner = self._adopt()
        if self.settings.command is None:
            await self._answers_elsewhere(http)
        else:
            await self._started_or_kept(http, owner)
        self.change_state(ServiceState.UP, "already_running" if self._reused else "health_ok")

    async def _started_or_kept(self, http: httpx2.AsyncClient, owner: Held | None) -> None:
        answer = await self._await_answer(http)
        if answer.health is Health.HEALTHY and self._child is None and owner is None:
            owner = self._adopt()  # it came up while this one waited
        well = answer.health is Health.HEALTHY and (self._child is not None or owner is not None)
        self._reused = well and self._child is None
        if well:
            return
        if answer.health is not Health.ABSENT:
            raise self.diagnosis.occupied(answer)
        self._note_gone()
        self._reused = await self._returns(http)
        if not self._reused:
            await self._await_ready(http)

    async def _answers_elsewhere(self, http: httpx2.AsyncClient) -> None:
        """Wait until it is up; another process starts it."""
        deadline = self._deadline()
        while (answer := await self.ask(http)).health is not Health.HEALTHY:
            if answer.health in (Health.ABSENT, *WAITS):
                self._note_gone()
            if answer.health is Health.OTHER or not deadline.allows(POLL, self._clock.now()):
                what = f"is started by others (it has no `command`), but on port {self.port}: {answer.problem}"
                raise Failed(self.diagnosis.down(what))
            await self._clock.sleep(POLL)
        self._reused = True

    def _adopt(self) -> Held | None:
        """The other owner, if its ports fit; they are used from now on."""
        held = self._ownership.other_owner() if self._child is None else None
        if held is None or not are_ports_allowed(self.settings, held.ports):
            return None
        if dict(held.ports) != dict(self.hosts):
            self._use_ports(held.ports)
        return held

    def _note_gone(self) -> None:
        if self.status.state in (ServiceState.UP, ServiceState.UNHEALTHY):
            self.change_state(ServiceState.DOWN, "gone")

    async def _returns(self, http: httpx2.AsyncClient) -> bool:
        """Return whether another process has restarted it; else it is started here. Raises Failed if it cannot be."""
        turn = StartAttempt(self._adopt, self._home.lock(self.name), self.diagnosis, self._clock)
        while not await turn.came_back(lambda: self.ask(http), 2 * self.settings.ready_timeout):
            await self._sweep()
            if await turn.take(self._spawn):
                return False
        return True

    async def stop(self) -> None:
        """End what was started here; a reused service goes on."""
        runs = self._child is not None or self.status.state is ServiceState.RESTARTING
        await self._sweep()
        self._has_state = False
        if runs and ServiceState.STOPPED in TRANSITIONS[self.status.state]:
            self.status.change_state(ServiceState.STOPPED, "stop_ordered")
        if not (self._ownership.persisted and self.status.state is ServiceState.PERMANENTLY_FAILED):
            self._ownership.withdraw()  # otherwise the record says why it does not run
        if runs and self._home.kept:
            await asyncio.to_thread(shutil.rmtree, self._home.folder(self.name), ignore_errors=True)

    async def _sweep(self) -> None:
        if self._child is not None:
            await self._child.stop()
            self._child = None

    def kill(self) -> None:
        """End it at once, without a loop and without a record."""
        if self._child is not None:
            self._child.kill()
            self._child = None
        self._ownership.withdraw()

    async def reap(self, what: str = "ended") -> Failure:
        """End and reap the process, and return its failure. If this is cancelled, `stop` does the rest."""
        child = self._child
        assert child is not None
        code = await child.stop()
        self._child = None
        return self.diagnosis.process_ended(child, what, code)

    def note(self, text: str) -> None:
        """Write a note of the owner into the service's log."""
        with contextlib.suppress(OSError), self._log.open("a", encoding="utf-8") as log:
            log.write(f"[harness] {text}\n")

    def given_up_failure(self) -> Failure | None:
        """The failure after which the parent process no longer restarts the service, if any."""
        held = self._ownership.own_or_parent_record() if self._reused else None
        return held.failure if held else None

    async def _spawn(self) -> None:
        """Start the process. Raises OSError."""
        told = self._ownership.file.absolute()
        program = await asyncio.to_thread(self._prepare)
        self._child = Child(program, self._log, told, self._clock)
        if self.status.state is not ServiceState.RESTARTING:
            self.change_state(ServiceState.BOOTING, "spawned")

    def _prepare(self) -> Program:
        """The program to start; its folder is made and, but not after a crash, filled from the template. OSError."""
        folder, template = self._home.folder(self.name), self.settings.template
        if template is not None and (not self._has_state or reset_mark(folder).exists()):
            fill(folder, self._home.root / template)
            reset_mark(folder).unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        return self._program(self.settings.command or (), folder, self.settings.cwd or "")

    def _program(self, command: Sequence[str], folder: Path, cwd: str = "") -> Program:
        values = placeholder_values(self.hosts, self.port, folder)
        environment = {name: expand(text, values) for name, text in self.settings.environment.items()}
        return Program([expand(each, values) for each in command], environment, self._home.root / expand(cwd, values))

    def forget_state(self) -> None:
        """Let the next start, of whichever process, copy the template again. Raises OSError."""
        if self.settings.template is not None:
            reset_mark(self.folder).touch()

    async def run_reset(self, command: Sequence[str]) -> None:
        """Run its reset command to the end, in the project's folder. Raises Failed(RESET_FAILED), or OSError."""
        program = self._program(command, self.folder)
        await run_reset_command(program, self.settings.reset_timeout, f"the `reset` of service `{self.name}`")

    async def _await_ready(self, http: httpx2.AsyncClient) -> None:
        child, answer = self._child, HealthAnswer(Health.ABSENT)
        deadline = self._deadline()
        while child is not None and not child.has_ended():
            answer = await self.ask(http)
            if answer.health is Health.HEALTHY:
                # Another harness may have started the same service at the same moment: then ours is about to fail.
                if not owns_port(child.pid, self._endpoint.port) and await child.wait(_SETTLE):
                    await self._handle_early_end(child, http)
                return
            if not deadline.allows(POLL, self._clock.now()):
                await self._give_up(child, f"was not ready within {self.settings.ready_timeout:g} s", answer)
            await self._clock.sleep(POLL)
        if child is not None:
            await self._handle_early_end(child, http)

    async def _handle_early_end(self, child: Child, http: httpx2.AsyncClient) -> None:
        """Handle a process that ended at start: another harness was first, the port is in use, or it failed."""
        answer = await self._await_answer(http)
        if answer.health is Health.ABSENT:
            await self._give_up(child, "ended at start", answer)
        await self._sweep()
        self._ownership.withdraw()  # another owner's record must not be changed
        if answer.health is Health.OTHER or not self._adopt():
            raise self.diagnosis.occupied(answer)
        self._reused = True

    async def _await_answer(self, http: httpx2.AsyncClient) -> HealthAnswer:
        """Ask until something at the port identifies itself. Raises Occupied if it never does.

        If it did not even answer in HTTP it may be ending, and is asked again: its port is free in a moment.
        """
        deadline, ending = self._deadline(), Deadline.after(_ENDING, self._clock.now())
        while (answer := await self.ask(http)).health in WAITS or answer.ending:
            if answer.ending and not ending.allows(POLL, self._clock.now()):
                break
            if not deadline.allows(POLL, self._clock.now()):
                raise self.diagnosis.occupied(answer)
            await self._clock.sleep(POLL)
        return answer

    def _deadline(self) -> Deadline:
        return Deadline.after(self.settings.ready_timeout, self._clock.now())

    async def _give_up(self, child: Child, what: str, answer: HealthAnswer) -> NoReturn:
        code = await child.stop()
        self._child = None
        raise Failed(self.diagnosis.not_ready(child, what, code, answer))


# Prepares the start of a service: its ports, its folder, its placeholders.

_RANGE = range(20_000, 30_000)
"""Ports below those that Linux (from 32768) and macOS (from 49152) use for outgoing connections, so that none of these
takes the port of a service that is being restarted.
"""
_TRIES = 1000


def _free_port(taken: Container[int]) -> int:
    """A port that has no listener now and is not `taken`. Raises OSError if none is found."""
    for _ in range(_TRIES):
        port = random.choice(_RANGE)
        if port not in taken and is_free(port):
            return port
    raise OSError(f"no free port between {_RANGE.start} and {_RANGE.stop - 1}")


def is_free(port: int) -> bool:
    """Return whether a server could listen on the port now."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((ADDRESS, port))
        except OSError:
            return False
    return True


def chosen_ports(settings: ServiceSettings, taken: Collection[int]) -> dict[str, int]:
    """Host name, in lower case -> its declared port, or a free one. Raises ValueError if none is free."""
    try:
        if settings.port == AUTO:
            return dict.fromkeys(settings.declared, _free_port(taken))
        found: dict[str, int] = {}
        for host, port in settings.declared.items():
            found[host] = port if isinstance(port, int) else _free_port({*taken, *found.values()})
    except OSError as error:
        raise ValueError(str(error)) from error
    return found


def are_ports_allowed(settings: ServiceSettings, ports: Mapping[str, int]) -> bool:
    """Return whether the settings allow these ports."""
    declared = settings.declared
    return declared.keys() == ports.keys() and all(port in (AUTO, ports[host]) for host, port in declared.items())


def placeholder_values(hosts: Mapping[str, int], port: int, folder: Path) -> dict[str, str]:
    """Placeholder -> its value."""
    return {
        "python": sys.executable,
        "folder": str(folder),
        "port": str(port),
        "ports": ",".join(f"{host}={each}" for host, each in hosts.items()),
        **{f"port:{host}": str(each) for host, each in hosts.items()},
    }


def fill(folder: Path, template: Path) -> None:
    """Empty the folder, and copy the template into it: the contents of a folder, or a single file. Raises OSError."""
    if not template.exists():
        raise FileNotFoundError(f"its template {template} does not exist")
    shutil.rmtree(folder, ignore_errors=True)
    if template.is_dir():
        shutil.copytree(template, folder, symlinks=True)
    else:
        folder.mkdir(parents=True)
        shutil.copy2(template, folder)
