"""All services of a project (DESIGN 4.10)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.resilience import Clock
from harness.services.health import client
from harness.services.service import Service
from harness.settings import ServiceSettings


class Services:
    """Finds or starts them, and stops what it started.

    Raises ValueError for a host or a port that is given twice. What it starts ends with this process, however that
    ends: by `stop`, by `kill`, or because the leash sees it die.
    """

    def __init__(self, settings: Mapping[str, ServiceSettings], *, root: Path, logs: Path, clock: Clock) -> None:
        self._services = [Service(name, each, root=root, logs=logs, clock=clock) for name, each in settings.items()]
        self._refuse_doubles("host", (host for service in self._services for host in service.hosts))
        self._refuse_doubles("port", (port for service in self._services for port in service.hosts.values()))

    @property
    def hosts(self) -> dict[str, int]:
        """Host name, in lower case -> port on 127.0.0.1."""
        return {host: port for service in self._services for host, port in service.hosts.items()}

    def status(self) -> tuple[str, ...]:
        """One line for each service: started, reused, ended or not started."""
        return tuple(service.status for service in self._services)

    async def start(self) -> None:
        """Make every service answer, all at once; called again, it starts those that have ended.

        Raises Failed(SERVICE_DOWN), after stopping what was started.
        """
        if not self._services:
            return
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

    async def stop(self) -> None:
        """End what was started here: at most five seconds. What was reused stays."""
        await asyncio.gather(*(service.stop() for service in self._services))

    def kill(self) -> None:
        """End it at once, without a loop: for `atexit` and signal handlers."""
        for service in self._services:
            service.kill()

    @staticmethod
    def _refuse_doubles(what: str, values: Iterable[str | int]) -> None:
        doubles = [str(value) for value, count in Counter(values).items() if count > 1]
        if doubles:
            raise ValueError(f"[tool.harness.services]: {what} {', '.join(doubles)} is given twice")
