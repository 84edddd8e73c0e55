"""All services of a project: started, supervised, stopped (DESIGN 4.10)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from harness.failure import Failed, Failure
from harness.resilience import Clock, Deadline
from harness.resilience.events import Emit, nobody
from harness.services.demise import end, leash_behind
from harness.services.health import ADDRESS, client
from harness.services.listener import describe_listener
from harness.services.polling import STANDARD, Polling
from harness.services.service import Service
from harness.services.standing import Standing
from harness.services.states import State
from harness.services.supervision import LOOK, Supervision
from harness.settings import ServiceSettings
from harness.spec.problems import nearest


class Services:
    """Finds or starts them, starts again what dies, and stops what it started.

    Raises ValueError for a host or a port that is given twice. What it starts ends with this process, however that
    ends: by `stop`, by `kill`, or because the leash sees it die.
    """

    def __init__(
        self,
        settings: Mapping[str, ServiceSettings],
        *,
        root: Path,
        logs: Path,
        clock: Clock,
        emit: Emit = nobody,
        polling: Polling = STANDARD,
        persisted: bool = False,
    ) -> None:
        """`emit` is told of every change of a state; `persisted`: they are kept until `harness services stop`."""
        made = partial(Service, root=root, logs=logs, clock=clock, emit=emit, persisted=persisted)
        self._services = [made(name, each) for name, each in settings.items()]
        self._refuse_doubles("host", (host for service in self._services for host in service.hosts))
        self._refuse_doubles("port", (port for service in self._services for port in service.hosts.values()))
        self._clock = clock
        self._kept = {
            service.name: Supervision(service, clock, _polling(polling, each))
            for service, each in zip(self._services, settings.values(), strict=True)
        }
        self._watches: list[asyncio.Task[None]] = []

    @property
    def hosts(self) -> dict[str, int]:
        """Host name, in lower case -> port on 127.0.0.1."""
        return {host: port for service in self._services for host, port in service.hosts.items()}

    def status(self) -> tuple[str, ...]:
        """One line for each service: started, reused, ended or not started."""
        return tuple(service.line for service in self._services)

    @property
    def states(self) -> dict[str, State]:
        """Name -> what it is now, as this process sees it."""
        return {service.name: service.status.state for service in self._services}

    @property
    def standings(self) -> tuple[Standing, ...]:
        """What is known of each, now."""
        return tuple(
            Standing(
                each.name,
                tuple(each.hosts),
                each.status.state,
                each.status.reason,
                each.status.at,
                kept.polled,
                kept.interval,
            )
            for each, kept in ((each, self._kept[each.name]) for each in self._services)
        )

    @property
    def started(self) -> tuple[str, ...]:
        """The names of those that were started here; the others were reused."""
        return tuple(service.name for service in self._services if service.ours)

    async def start(self) -> None:
        """Make every service answer, all at once, and start again what dies from now on, while the loop runs.

        Called again, it starts those that have ended. Raises Failed(SERVICE_DOWN), after stopping what was started.
        """
        if not self._services:
            return
        await self._look_away()
        async with client() as http:
            starts = [service.start(http) for service in self._services]
            try:
                results = await asyncio.gather(*starts, return_exceptions=True)
            except asyncio.CancelledError:
                self.kill()
                raise
        failures = [result for result in results if isinstance(result, BaseException)]
        if failures:
            await self.stop()
            raise failures[0]
        self._watches = [kept.begin() for kept in self._kept.values()]

    async def ready(self) -> None:
        """Wait until every service listens and none is being started; what does not is recovered, once for all.

        Raises Failed(SERVICE_DOWN): at once for one that is not started any more.
        """
        await asyncio.gather(*map(self._there, self._services))

    async def recover(self, name: str) -> None:
        """Start it again, if it is dead; who calls while that goes on waits for the same.

        One that listens and is silent is left to the questions after its health (`Polling`): it may be busy. Raises
        Failed(SERVICE_DOWN) when it does not come back, at once when it has failed for good.
        """
        service = self._named(name)
        self._refuse_failed(service)
        await self._kept[service.name].recover()

    def name_of(self, host: str) -> str | None:
        """The service that serves a host; None for a host of others."""
        return next((service.name for service in self._services if host.lower() in service.hosts), None)

    async def lost(self) -> Failure:
        """Wait until one of them has failed for good; why. After `start`."""
        await asyncio.wait(self._watches, return_when=asyncio.FIRST_COMPLETED)
        return next(kept.failure for kept in self._kept.values() if kept.failure)

    def explain(self, failure: Failure) -> Failure:
        """A site that is down for good, in the place of the network error that this causes; which host was meant."""
        if failure.code == "NET_DNS":
            return self._misspelt(failure)
        if failure.code not in ("NET_CONNECTION_REFUSED", "CHANNEL_UNREADABLE", "CIRCUIT_OPEN"):
            return failure
        host = urlsplit(str(failure.details.get("url", ""))).hostname
        for service in self._services:
            down = self._kept[service.name].failure or service.told()
            if down and (host is None or host in service.hosts):
                circuit = {key: failure.details[key] for key in ("circuit",) if key in failure.details}
                return replace(down, effect=failure.effect, details={**down.details, **circuit})
        return failure

    def _misspelt(self, failure: Failure) -> Failure:
        host = urlsplit(str(failure.details.get("url", ""))).hostname or ""
        meant = nearest(host, self.hosts)
        return replace(failure, advice=f"Did you mean `{meant}`? Check the host's spelling.") if meant else failure

    async def end(self, name: str, *, orderly: bool) -> None:
        """End a service on purpose; its owner starts it again. `orderly`: by SIGTERM, else by SIGKILL.

        Raises Failed: SERVICE_DOWN when it does not run, INVALID_INPUT when this run has not started it.
        """
        service = self._named(name)
        pid = await self._leash(service)
        if pid is None:
            owner = await asyncio.to_thread(describe_listener, service.port)
            message = (
                f"service `{name}` is not ended: this run has not started it, it is {owner}. "
                "End that process, and the next run starts the service itself"
            )
            raise Failed(Failure("INVALID_INPUT", message, details={"service": name}))
        await end(pid, self._clock, orderly=orderly)

    def ports(self, name: str) -> tuple[int, ...]:
        """The ports of one service. Raises Failed(INVALID_INPUT) for a name that is not known."""
        return tuple(self._named(name).hosts.values())

    async def stop(self) -> None:
        """End what was started here: at most five seconds. What was reused stays."""
        await self._look_away()
        await asyncio.gather(*(service.stop() for service in self._services))

    def kill(self) -> None:
        """End it at once, without a loop: for `atexit` and signal handlers."""
        for kept in self._kept.values():
            kept.let_go()
        for service in self._services:
            service.kill()

    async def _look_away(self) -> None:
        tasks = [task for kept in self._kept.values() for task in kept.cancel()]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _there(self, service: Service) -> None:
        self._refuse_failed(service)
        kept = self._kept[service.name]
        if kept.recovering or not await _listens(service.port):
            await kept.recover()

    def _refuse_failed(self, service: Service) -> None:
        if failure := self._kept[service.name].failure or service.told():
            raise Failed(failure)

    async def _leash(self, service: Service) -> int | None:
        """The leash of what listens now; None when that is somebody else's. It may just be dying of another kill."""
        deadline = Deadline.after(service.patience, self._clock.now())
        while True:
            await self._listening(service)
            pid = service.leash or await asyncio.to_thread(leash_behind, service.port)
            stands = pid is not None or await _listens(service.port)
            if stands or not deadline.allows(LOOK, self._clock.now()):
                return pid or await asyncio.to_thread(leash_behind, service.port)
            await self._clock.sleep(LOOK)

    async def _listening(self, service: Service) -> None:
        deadline = Deadline.after(service.patience, self._clock.now())
        while not await _listens(service.port) and deadline.allows(LOOK, self._clock.now()):
            self._refuse_failed(service)
            await self._clock.sleep(LOOK)

    def _named(self, name: str) -> Service:
        for service in self._services:
            if service.name == name:
                return service
        known = ", ".join(service.name for service in self._services) or "none"
        message = f"there is no service `{name}` in [tool.harness.services]; known services: {known}"
        raise Failed(Failure("INVALID_INPUT", message))

    @staticmethod
    def _refuse_doubles(what: str, values: Iterable[str | int]) -> None:
        doubles = [str(value) for value, count in Counter(values).items() if count > 1]
        if doubles:
            raise ValueError(f"[tool.harness.services]: {what} {', '.join(doubles)} is given twice")


def _polling(polling: Polling, settings: ServiceSettings) -> Polling:
    return replace(polling, interval=settings.health_interval, patience=settings.health_patience)


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(ADDRESS, port)
    except OSError:
        return False
    writer.close()
    return True
