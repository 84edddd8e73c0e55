"""The state of a project's services as seen from outside, and their logs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import psutil
from msgspec import Struct

from harness.environment.health import Health, HealthAnswer, HealthEndpoint, client, probe
from harness.environment.ownership import (
    Held,
    ServiceState,
    label,
    log_file,
    owner_file,
    owner_files_of_runs,
    read_held,
)
from harness.model.service_settings import ServiceSettings
from harness.resilience import Clock
from harness.resilience.process import command_of, listening_pid

_LOOK = 0.2
"""Seconds between two reads of the files."""
_BLOCK = 65_536


def last_lines(file: Path, count: int) -> list[str]:
    """The last lines of a file; none if it does not exist."""
    if count <= 0 or not file.is_file():
        return []
    with file.open("rb") as log:
        start, end = log.seek(0, os.SEEK_END), b""
        while start > 0 and end.count(b"\n") <= count:
            step = min(_BLOCK, start)
            start = log.seek(start - step)
            end = log.read(step) + end
            log.seek(start)
    return end.decode(errors="replace").splitlines()[-count:]


async def follow(files: Mapping[str, Path], clock: Clock) -> AsyncIterator[tuple[str, str]]:
    """Name and text of each line that is written from now on, without end. A file may appear later."""
    tails = {name: _Tail(file) for name, file in files.items()}
    while True:
        for name, tail in tails.items():
            for line in tail.new_lines():
                yield name, line
        await clock.sleep(_LOOK)


class _Tail:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._place = file.stat().st_size if file.is_file() else 0
        self._rest = b""

    def new_lines(self) -> Iterator[str]:
        """The lines since the last read; from the start if the file was truncated."""
        if not self._file.is_file():
            return
        with self._file.open("rb") as log:
            if log.seek(0, os.SEEK_END) < self._place:
                self._place, self._rest = 0, b""
            log.seek(self._place)
            *whole, self._rest = (self._rest + log.read()).split(b"\n")
            self._place = log.tell()
        yield from (line.decode(errors="replace") for line in whole)


# The state of a project's services from outside: the answers of their ports, and their owners' records.

_STATES = {
    Health.HEALTHY: ServiceState.UP,
    Health.STARTING: ServiceState.BOOTING,
    Health.SILENT: ServiceState.UNHEALTHY,
    Health.OTHER: ServiceState.DOWN,
}


class ServiceStatus(Struct, frozen=True):
    """The present state of one service."""

    name: str
    state: ServiceState
    hosts: Mapping[str, int | str]
    """Host name -> port, or `auto` while none is chosen."""
    port: int | None
    """The port of its health URL; None if unknown: it does not run, or is no longer in the settings."""
    pid: int | None
    """The pid of the listener; if unknown, that of the program that its daemon has started."""
    command: str
    """The command line of that process."""
    uptime: float | None
    """Seconds since its start."""
    restarts: int
    """The number of restarts that its owner has counted."""
    owner: int | None
    """The process that keeps it running, if one of this project does."""
    owner_command: str
    persisted: bool
    log: Path
    problem: str
    """The problem in words; empty for one that is up, or was never started."""


async def statuses(services: Mapping[str, ServiceSettings], logs: Path, clock: Clock) -> tuple[ServiceStatus, ...]:
    """Ask all services in parallel, for half a second: one result for each instance and each process that keeps one.

    Raises ValueError for settings that contradict themselves.
    """
    async with client() as http:

        async def find(service: str, name: str) -> list[ServiceStatus]:
            kept = read_held(owner_file(logs, name))
            told: list[Held | None] = [kept] if kept and kept.owner.alive else []
            told += [held for file in owner_files_of_runs(logs, name) if (held := read_held(file)) and held.owner.alive]
            settings = services[service]
            return [await _look(http, service, name, settings, logs, clock, held) for held in told or [kept]]

        asked = (find(name, label(name, number)) for name, each in services.items() for number in range(each.instances))
        return tuple(found for several in await asyncio.gather(*asked) for found in several)


async def _look(
    http: httpx2.AsyncClient, service: str, name: str, settings: ServiceSettings, logs: Path, clock: Clock,
    told: Held | None,
) -> ServiceStatus:  # fmt: skip
    held = told if told and told.owner.alive else None
    ports = held.ports if held else settings.declared
    known = {host: port for host, port in ports.items() if isinstance(port, int)}
    endpoint = HealthEndpoint.of(service, settings, known) if settings.health_host in known else None
    answer = await probe(http, endpoint) if endpoint else HealthAnswer(Health.ABSENT, "it is not started")
    silent = endpoint is None or answer.health is Health.ABSENT
    pid = None if endpoint is None or silent else await asyncio.to_thread(listening_pid, endpoint.port)
    state, port, problem = _state(answer, held, told), endpoint.port if endpoint else None, _problem(answer, told)
    return _status(name, held, pid, logs, clock, state=state, hosts=ports, port=port, problem=problem)


def kept_only(name: str, held: Held, logs: Path, clock: Clock) -> ServiceStatus:
    """The state of a service that is no longer in the settings, as its daemon has recorded it."""
    pid = held.program.pid if held.program else None
    problem = f"it is not in [tool.harness.services] any more; `harness services stop {name}` ends it"
    return _status(name, held, pid, logs, clock, state=held.state, hosts={}, port=None, problem=problem)


def _status(
    name: str, held: Held | None, pid: int | None, logs: Path, clock: Clock, *, state: ServiceState,
    hosts: Mapping[str, int | str], port: int | None, problem: str,
) -> ServiceStatus:  # fmt: skip
    return ServiceStatus(
        name=name,
        state=state,
        hosts=hosts,
        port=port,
        pid=pid,
        command=command_of(pid),
        uptime=_uptime(pid, clock.wall()),
        restarts=held.restarts if held else 0,
        owner=held.owner.pid if held else None,
        owner_command=command_of(held.owner.pid) if held else "",
        persisted=bool(held and held.persisted),
        log=log_file(logs, name),
        problem=problem,
    )


def _state(answer: HealthAnswer, held: Held | None, told: Held | None) -> ServiceState:
    """The state by the answer at the port; if nothing listens, by the last record of the owner."""
    if answer.health in _STATES:
        return _STATES[answer.health]
    if held:
        return held.state if held.state is not ServiceState.UP else ServiceState.RESTARTING
    gave_up = told and told.state is ServiceState.PERMANENTLY_FAILED
    return ServiceState.PERMANENTLY_FAILED if gave_up else ServiceState.DOWN


def _problem(answer: HealthAnswer, told: Held | None) -> str:
    if answer.health is Health.ABSENT and told is None:
        return ""
    if answer.health is Health.ABSENT and told and told.failure:
        return told.failure.message.splitlines()[0]
    taken = "another program has its port: " if answer.health is Health.OTHER else ""
    return f"{taken}{answer.problem}"


def _uptime(pid: int | None, now: datetime) -> float | None:
    try:
        born = datetime.fromtimestamp(psutil.Process(pid).create_time(), UTC) if pid is not None else now
    except psutil.Error:
        return None
    return None if pid is None else max(0.0, (now - born).total_seconds())
