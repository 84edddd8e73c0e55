"""All services of a project: started, supervised, stopped (docs/design/isolation-and-state.md)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from harness.environment.health import ADDRESS
from harness.environment.ownership import RunFolder, ServiceState, label
from harness.environment.reset import reset_failure
from harness.environment.service import Home, Service
from harness.environment.supervision import LOOK, STANDARD, Polling, Supervision
from harness.model.service_settings import AUTO, ServiceSettings
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock, poll_until, watchdog
from harness.resilience.events import Emit, discard
from harness.resilience.process import (
    GRACE,
    KILLED_WITHIN,
    await_ends,
    describe_listener,
    listening_pid,
    signal_all,
)
from harness.resilience.threads import on_own_thread
from harness.spec.problems import nearest
from harness.values import replace

# Ends a service on purpose (a fault plan): its owner sees that this was no crash, and restarts it.

_Needed = Collection[str] | None
"""The names of the services that a task needs; None: all of them."""


def _is_needed(name: str, needed: _Needed) -> bool:
    """Return whether a service, or an instance such as `shop[2]`, is one of those."""
    return needed is None or name.partition("[")[0] in needed


def _watchdog_behind(port: int) -> int | None:
    """The watchdog of the listener at the port, if this process or its parent owns it; else None.

    Under xdist the parent is the controller, which owns the services.
    """
    listener = listening_pid(port)
    try:
        for each in () if listener is None else psutil.Process(listener).parents():
            if watchdog.__file__ in each.cmdline() and each.ppid() in (os.getpid(), os.getppid()):
                return each.pid
    except psutil.Error:  # it ended meanwhile
        return None
    return None


async def end(pid: int, clock: Clock, *, orderly: bool) -> None:
    """End all processes below the watchdog `pid`, and wait; `orderly`: by SIGTERM first, then by SIGKILL."""
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
        watched = psutil.Process(pid)
        processes = watched.children(recursive=True)
        os.kill(pid, signal.SIGUSR1)
        # The watchdog ends when all of its command is reaped, with threads: until then the ports may be in use.
        all_of_it = (watched, *processes)
        if orderly:
            signal_all(processes, signal.SIGTERM)
            await await_ends(all_of_it, clock, GRACE)
        signal_all(processes, signal.SIGKILL)
        await await_ends(all_of_it, clock, KILLED_WITHIN)


class Services:
    """Finds or starts the services, restarts those that die, and stops those that it started.

    A service with `instances = N` exists N times: `shop`, `shop[2]`, ... Tasks run in slots, counted from 0: those in
    slot 0 see `shop`, those in slot 1 `shop[2]`; a service without instances is shared by all slots.

    Raises ValueError for a host or a port that is given twice, and for numbers of instances that do not agree. What it
    starts ends with this process, however that ends: by `stop`, by `kill`, or because the watchdog sees it die.
    """

    def __init__(
        self,
        settings: Mapping[str, ServiceSettings],
        *,
        root: Path,
        logs: Path,
        clock: Clock,
        emit: Emit = discard,
        polling: Polling = STANDARD,
        kept: bool = False,
        persisted: bool = False,
    ) -> None:
        """`emit` receives every change of a state. `kept`: other processes of the project use the services too;
        `persisted`: until `harness services stop`.
        """
        self._run = RunFolder(logs)
        home = Home(root, logs, self._run, kept=kept or persisted, persisted=persisted)
        self.instances = _instances(settings)
        """The number of complete sets of services: one for each slot in which a task can run."""
        self._sets = self._make_services(settings, partial(Service, home=home, clock=clock, emit=emit))
        self._services = [service for each in self._sets.values() for service in each]
        first = [each[0] for each in self._sets.values()]
        _refuse_doubles("host", (host for service in first for host in service.hosts))
        _refuse_doubles("port", (port for service in self._services for port in set(service.hosts.values())))
        self._clock = clock
        self._kept: dict[str, Supervision] = {}
        for each in self._services:
            own = replace(polling, interval=each.settings.health_interval, patience=each.settings.health_patience)
            self._kept[each.name] = Supervision(each, clock, own)

    @staticmethod
    def _make_services(
        settings: Mapping[str, ServiceSettings], make: Callable[..., Service]
    ) -> dict[str, list[Service]]:
        sets: dict[str, list[Service]] = {}
        taken = {int(port) for each in settings.values() for port in each.declared.values() if port != AUTO}
        for name, each in settings.items():
            for number in range(each.instances):
                service = make(label(name, number), each, taken=taken)
                taken.update(service.hosts.values())
                sets.setdefault(name, []).append(service)
        return sets

    @property
    def hosts(self) -> Mapping[str, int]:
        """Host name, in lower case -> port on 127.0.0.1, as tasks in slot 0 see it; always up to date."""
        return Hosts(self._sets.values(), 0)

    def hosts_of(self, slot: int) -> Mapping[str, int]:
        """Host name, in lower case -> port, as the tasks in that slot see it; always up to date. Raises IndexError.

        Chosen ports are final when `await_ready` of the slot has returned.
        """
        self._check(slot)
        return Hosts(self._sets.values(), slot)

    async def reset(self, slot: int = 0, needed: _Needed = None) -> None:
        """Reset the services of that slot that declare a reset. Raises Failed, or IndexError.

        One that is not `needed` is reset too, but only the tasks that need it learn that it cannot be.
        """
        await self.await_ready(slot, needed)
        await self._each(self._reset, slot, needed)

    async def _each(self, act: Callable[[Service], Awaitable[None]], slot: int, needed: _Needed) -> None:
        """Call it for each service of the slot. One that is not needed is left out if it is down, or fails."""

        async def call(service: Service) -> None:
            must = _is_needed(service.name, needed)
            if must or not self._kept[service.name].down:
                try:
                    await act(service)
                except Failed:
                    if must:
                        raise

        await asyncio.gather(*map(call, self._of(slot)))

    def down(self, slot: int = 0) -> frozenset[str]:
        """The names, as in the settings, of the services of that slot that cannot be used any more."""
        return frozenset(each.name.partition("[")[0] for each in self._of(slot) if self._kept[each.name].down)

    async def _reset(self, service: Service) -> None:
        try:
            if service.settings.reset == "restart":
                service.forget_state()
                await self._end(service, orderly=True, whoever=True)
                await self._kept[service.name].recover()
            elif service.settings.reset is not None:
                await service.run_reset(service.settings.reset)
        except OSError as error:
            raise Failed(reset_failure(f"the folder of service `{service.name}` cannot be used: {error}")) from error

    def _check(self, slot: int) -> None:
        if not 0 <= slot < self.instances:
            raise IndexError(f"there is no slot {slot} of services: there are {self.instances}, counted from 0")

    def _of(self, slot: int) -> list[Service]:
        self._check(slot)
        return [each[slot % len(each)] for each in self._sets.values()]

    def status(self) -> tuple[str, ...]:
        """One line for each service: started, reused, ended or not started."""
        return tuple(service.line for service in self._services)

    def kept_lines(self) -> tuple[str, ...]:
        """A line for each service that was not started here but is kept for the project."""
        return tuple(
            f"{each.name} reused, kept by `harness services start` since "
            f"{datetime.fromisoformat(since).astimezone():%Y-%m-%d %H:%M}"
            for each in self._services
            if (since := each.kept_since)
        )

    @property
    def states(self) -> dict[str, ServiceState]:
        """Name -> its state, as this process sees it."""
        return {service.name: service.status.state for service in self._services}

    @property
    def started(self) -> tuple[str, ...]:
        """The names of the services that were started here; the others were reused."""
        return tuple(service.name for service in self._services if service.ours)

    async def start(self, slots: int = 1) -> None:
        """Like `begin`, but all of them or none: raises Failed(SERVICE_DOWN), after stopping what was started."""
        failures = await self.begin(slots)
        if failures:
            await self.stop()
            raise Failed(failures[0])

    async def begin(self, slots: int = 1) -> Sequence[Failure]:
        """Bring the services of the first slots up in parallel, and restart those that die from now on.

        Instances for further slots are started by `await_ready`, and so are those whose failures are returned, when
        a task needs them. A second call starts those that have ended.
        """
        begun = [service for service in self._services if self._kept[service.name].begun]
        await self._look_away()
        first = [service for slot in range(min(slots, self.instances)) for service in self._of(slot)]
        chosen = {service.name: service for service in (*begun, *first)}
        for kept in self._kept.values():
            kept.renew()
        starting = (self._kept[name].start() for name in chosen)
        try:
            results = await asyncio.gather(*starting, return_exceptions=True)
        except asyncio.CancelledError:
            self.kill()
            raise
        if unexpected := [each for each in results if each is not None and not isinstance(each, Failed)]:
            await self.stop()
            raise unexpected[0]
        return [each.failure for each in results if isinstance(each, Failed)]

    async def await_ready(self, slot: int = 0, needed: _Needed = None) -> None:
        """Wait until every service of the slot listens and none is being started; one that does not is recovered, once.

        Raises Failed(SERVICE_DOWN) for one that is `needed`, at once if it is not restarted any more.
        """
        await self._each(self._ensure_running, slot, needed)

    async def recover(self, name: str) -> None:
        """Restart it if it is dead; callers during a restart wait for the same one.

        A service that listens and is silent may be busy: the health checks decide (`Polling`). Raises
        Failed(SERVICE_DOWN) if it does not come back, at once if it has failed permanently.
        """
        service = self._service_named(name)
        self._refuse_failed(service)
        await self._kept[service.name].recover()

    def name_of(self, host: str, slot: int = 0) -> str | None:
        """The service of a host for the tasks in that slot; None for a foreign host."""
        return next((service.name for service in self._of(slot) if host.lower() in service.hosts), None)

    def hosts_by(self, name: str) -> tuple[str, ...]:
        """The hosts of one service, or of one instance. Raises Failed(INVALID_INPUT) for an unknown name."""
        return tuple(self._service_named(name).hosts)

    def folder_of(self, name: str, slot: int = 0) -> Path:
        """The `{folder}` of a service. Raises Failed(INVALID_INPUT) for an unknown name, or OSError."""
        return self._service_named(name, slot).folder

    async def await_permanent_failure(self) -> Failure:
        """Wait until a service has failed permanently; returns its failure. Call it after `start`."""
        watches = [kept.watch for kept in self._kept.values() if kept.watch is not None]
        await asyncio.wait(watches, return_when=asyncio.FIRST_COMPLETED)
        return next(kept.failure for kept in self._kept.values() if kept.failure)

    def explain(self, failure: Failure, slot: int = 0, needed: _Needed = None) -> Failure:
        """The failure of a permanently down service that is `needed`, in place of the network error that it causes.

        For a host that cannot be resolved, the failure names the host that was probably meant.
        """
        if failure.code not in ("NET_DNS", "NET_CONNECTION_REFUSED", "CHANNEL_UNREADABLE", "CIRCUIT_OPEN"):
            return failure
        host = urlsplit(failure.requested or "").hostname
        if failure.code == "NET_DNS":
            meant = nearest(host or "", self.hosts)
            return replace(failure, advice=f"Did you mean `{meant}`? Check the host's spelling.") if meant else failure
        for service in self._of(slot):
            down = self._kept[service.name].failure or service.given_up_failure()
            if down and (_is_needed(service.name, needed) if host is None else host in service.hosts):
                circuit = {key: failure.details[key] for key in ("circuit",) if key in failure.details}
                return replace(down, effect=failure.effect, details={**down.details, **circuit})
        return failure

    def crashed(self, since: float, slot: int = 0, needed: _Needed = None) -> list[tuple[str, float]]:
        """The `needed` services that crashed after a moment, each with the time; one that came back counts too."""
        looked_at = (service.name for service in self._of(slot) if _is_needed(service.name, needed))
        return [(name, at) for name in looked_at for at in self._kept[name].crashes if at >= since]

    async def end(self, name: str, *, orderly: bool, slot: int = 0) -> None:
        """End a service on purpose; its owner restarts it. `orderly`: by SIGTERM, else by SIGKILL.

        Raises Failed: SERVICE_DOWN if it does not run, INVALID_INPUT if this run has not started it.
        """
        await self._end(self._service_named(name, slot), orderly=orderly)

    async def _end(self, service: Service, *, orderly: bool, whoever: bool = False) -> None:
        """End a service; `whoever`: also one that is kept for the project between runs."""
        pid = await self._watchdog(service) or (service.kept_watchdog if whoever else None)
        if pid is None:
            owner = await asyncio.to_thread(describe_listener, service.port)
            message = (
                f"service `{service.name}` was not ended, because this run did not start it: it is {owner}. "
                "End that process, and the next run starts the service itself"
            )
            raise Failed(Failure("INVALID_INPUT", message, details={"service": service.name}))
        await end(pid, self._clock, orderly=orderly)

    def ports(self, name: str, slot: int = 0) -> tuple[int, ...]:
        """The ports of one service. Raises Failed(INVALID_INPUT) for an unknown name."""
        return tuple(dict.fromkeys(self._service_named(name, slot).hosts.values()))

    async def stop(self) -> None:
        """Stop what was started here within five seconds. Reused services go on."""
        await self._look_away()
        await asyncio.gather(*(service.stop() for service in self._services))
        # `execute_task` stops them as the process ends, when `asyncio.to_thread` takes no more work.
        await on_own_thread(self._run.remove)

    def kill(self) -> None:
        """Kill what was started here at once, without a loop: for `atexit` and signal handlers."""
        for kept in self._kept.values():
            kept.let_go()
        for service in self._services:
            service.kill()
        self._run.remove()

    async def _look_away(self) -> None:
        tasks = [task for kept in self._kept.values() for task in kept.cancel()]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ensure_running(self, service: Service) -> None:
        self._refuse_failed(service)
        kept = self._kept[service.name]
        if not kept.begun:
            await kept.start()
        elif kept.recovering or not await _listens(service.port):
            await kept.recover()

    def _refuse_failed(self, service: Service) -> None:
        if failure := self._kept[service.name].failure or service.given_up_failure():
            raise Failed(failure)

    async def _watchdog(self, service: Service) -> int | None:
        """The watchdog of the present listener; None if that is foreign. It may just be dying of another kill."""
        pid: int | None = None

        async def stands() -> bool:
            nonlocal pid
            await self._listening(service)
            pid = service.watchdog or await asyncio.to_thread(_watchdog_behind, service.port)
            return pid is not None or await _listens(service.port)

        await poll_until(self._clock, stands, LOOK, service.settings.ready_timeout)
        return pid or await asyncio.to_thread(_watchdog_behind, service.port)

    async def _listening(self, service: Service) -> None:
        async def listens() -> bool:
            if await _listens(service.port):
                return True
            self._refuse_failed(service)
            return False

        await poll_until(self._clock, listens, LOOK, service.settings.ready_timeout)

    def _service_named(self, name: str, slot: int = 0) -> Service:
        """A service by its name, for the tasks in that slot, or by the name of the instance."""
        if name in self._sets:
            return self._sets[name][slot % len(self._sets[name])]
        for service in self._services:
            if service.name == name:
                return service
        known = ", ".join(self._sets) or "none"
        message = f"there is no service `{name}` in [tool.harness.services]; known services: {known}"
        raise Failed(Failure("INVALID_INPUT", message))


class Hosts(Mapping[str, int]):
    """Host name -> port for the tasks of one slot, read each time: a port may be chosen again before a first start."""

    def __init__(self, sets: Collection[Sequence[Service]], slot: int) -> None:
        self._sets, self._slot = sets, slot

    def _now(self) -> dict[str, int]:
        each = (instances[self._slot % len(instances)] for instances in self._sets)
        return {host: port for service in each for host, port in service.hosts.items()}

    def __getitem__(self, host: str) -> int:
        return self._now()[host]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    def __repr__(self) -> str:
        return repr(self._now())


def _instances(settings: Mapping[str, ServiceSettings]) -> int:
    several = {name: each.instances for name, each in settings.items() if each.instances > 1}
    if len(set(several.values())) > 1:
        told = ", ".join(f"`{name}` has {count}" for name, count in several.items())
        raise ValueError(
            f"[tool.harness.services]: all `instances` must be equal, because a slot uses one instance of each: {told}"
        )
    shared = [name for name, each in settings.items() if each.instances == 1 and each.reset is not None]
    if several and shared:
        name, (other, count) = shared[0], next(iter(several.items()))
        raise ValueError(
            f"[tool.harness.services]: `{shared[0]}` has `reset` and is shared by the {count} instances of `{other}`, "
            f"whose tasks would lose their state: give `{name}` `instances = {count}`, too"
        )
    return next(iter(several.values()), 1)


def _refuse_doubles(what: str, values: Iterable[str | int]) -> None:
    doubles = [str(value) for value, count in Counter(values).items() if count > 1]
    if doubles:
        raise ValueError(f"[tool.harness.services]: {what} {', '.join(doubles)} is given twice")


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(ADDRESS, port)
    except OSError:
        return False
    writer.close()
    return True
