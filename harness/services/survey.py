"""How the services of a project are, seen from outside: what their ports answer, and what their owners say."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import psutil

from harness.resilience import Clock
from harness.services.health import Answer, Endpoint, Health, client, probe
from harness.services.listener import command_of, listening_pid
from harness.services.ownership import Held, Ownership
from harness.services.places import log_file, owner_file
from harness.services.states import State
from harness.settings import ServiceSettings

_STATES = {
    Health.HEALTHY: State.UP,
    Health.STARTING: State.BOOTING,
    Health.SILENT: State.UNHEALTHY,
    Health.OTHER: State.DOWN,
}


@dataclass(frozen=True, slots=True)
class Found:
    """One service, now."""

    name: str
    state: State
    hosts: Mapping[str, int]
    port: int | None
    """Where it is asked for its health; None when the settings do not know the service any more."""
    pid: int | None
    """What listens there; where that is not known, what its keeper has started."""
    command: str
    """Its command line."""
    uptime: float | None
    """Seconds."""
    restarts: int
    """As its owner has counted."""
    owner: int | None
    """The process that keeps it running, if one of this project does."""
    owner_command: str
    persisted: bool
    log: Path
    problem: str
    """What is wrong, in words; empty for one that is up."""


async def survey(services: Mapping[str, ServiceSettings], logs: Path, clock: Clock) -> tuple[Found, ...]:
    """Ask them all at once: half a second. Raises ValueError for settings that contradict themselves."""
    async with client() as http:
        return tuple(await asyncio.gather(*(_find(http, name, each, logs, clock) for name, each in services.items())))


async def _find(http: httpx2.AsyncClient, name: str, settings: ServiceSettings, logs: Path, clock: Clock) -> Found:
    endpoint = Endpoint.of(name, settings)
    answer = await probe(http, endpoint)
    told = Ownership(owner_file(logs, name)).held()
    held = told if told and told.owner.alive else None
    pid = None if answer.health is Health.ABSENT else await asyncio.to_thread(listening_pid, endpoint.port)
    return Found(
        name=name,
        state=_state(answer, held, told),
        hosts=settings.hosts,
        port=endpoint.port,
        pid=pid,
        command=command_of(pid),
        uptime=_uptime(pid, clock.wall()),
        restarts=held.restarts if held else 0,
        owner=held.owner.pid if held else None,
        owner_command=command_of(held.owner.pid) if held else "",
        persisted=bool(held and held.persisted),
        log=log_file(logs, name),
        problem=_problem(answer, told),
    )


def kept_only(name: str, held: Held, logs: Path, clock: Clock) -> Found:
    """One that the settings do not know any more: as its keeper says."""
    pid = held.program.pid if held.program else None
    return Found(
        name=name,
        state=held.state,
        hosts={},
        port=None,
        pid=pid,
        command=command_of(pid),
        uptime=_uptime(pid, clock.wall()),
        restarts=held.restarts,
        owner=held.owner.pid,
        owner_command=command_of(held.owner.pid),
        persisted=held.persisted,
        log=log_file(logs, name),
        problem=f"it is not in [tool.harness.services] any more; `harness services stop {name}` ends it",
    )


def _state(answer: Answer, held: Held | None, told: Held | None) -> State:
    """What the port answers counts; where nothing listens, what the owner says, or has said last."""
    if answer.health in _STATES:
        return _STATES[answer.health]
    if held:
        return held.state if held.state is not State.UP else State.RESTARTING
    gave_up = told and told.state is State.PERMANENTLY_FAILED
    return State.PERMANENTLY_FAILED if gave_up else State.DOWN


def _problem(answer: Answer, told: Held | None) -> str:
    if answer.health is Health.ABSENT and told and told.failure:
        return told.failure.message.splitlines()[0]
    taken = "its port is a stranger's: " if answer.health is Health.OTHER else ""
    return f"{taken}{answer.problem}"


def _uptime(pid: int | None, now: datetime) -> float | None:
    try:
        born = datetime.fromtimestamp(psutil.Process(pid).create_time(), UTC) if pid is not None else now
    except psutil.Error:
        return None
    return None if pid is None else max(0.0, (now - born).total_seconds())
