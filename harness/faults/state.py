"""Injects faults into memory, environment channels and databases, and into the processes of the sites."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from harness.criteria import Json, PathError, lookup
from harness.model.ports import Injection, Undo, World, WorldCheckpoint
from harness.recovery.failure import Failed, Failure
from harness.spec.faults import (
    DatabaseLocked,
    DelayedState,
    EnvironmentAltered,
    MemoryAltered,
    PortTaken,
    ServiceFault,
    ServiceRestarted,
    of_service,
)

PATIENCE = 5.0
"""Seconds to wait for another process that has locked it."""


def _resolve_in(root: Path, path: str) -> Path:
    """The file. Raises Failed(INVALID_INPUT) if it lies outside of `root`, or does not exist."""
    folder = root.resolve()
    try:
        file = (folder / path).resolve()
        inside, found = file.is_relative_to(folder), file.is_file()
    except (OSError, ValueError) as error:
        raise _cannot_lock(path, str(error)) from error
    if not inside:
        raise _cannot_lock(path, f"it leads out of the project's folder, {folder}")
    if not found:
        raise _cannot_lock(path, f"there is no such file below {folder}")
    return file


async def lock(file: Path) -> Undo:
    """Lock a database; returns the function that unlocks it. Raises Failed(INVALID_INPUT) if that is impossible."""
    try:
        database = await asyncio.to_thread(_locked, file)
    except sqlite3.Error as error:
        raise _cannot_lock(str(file), f"it cannot be locked: {error}") from error
    return partial(asyncio.to_thread, database.close)  # closing rolls the transaction back


def _locked(file: Path) -> sqlite3.Connection:
    # `rw`: a file that vanished meanwhile is not created again. The connection is closed on another thread.
    uri = f"{file.as_uri()}?mode=rw"
    database = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        database.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error:
        database.close()
        raise
    return database


def _cannot_lock(path: str, why: str) -> Failed:
    return Failed(Failure("INVALID_INPUT", f"database_locked: {path}: {why}"))


_SOURCE = "fault"
"""The source of memory entries that a fault has written."""


class StateTarget:
    """Injects faults into one task's world, and into databases."""

    def __init__(self, world: World, root: Path, folder_of: Callable[[str], Path]) -> None:
        """`root` is the project's folder; `folder_of` returns a service's own folder."""
        self._world = world
        self._root = root
        self._folder_of = folder_of

    async def strike(self, strike: Injection) -> Undo | None:
        """Inject the fault. Raises Failed, also for a file of an unknown service."""
        match strike.fault:
            case DelayedState() as fault:
                heal = await self._delay(fault)
            case EnvironmentAltered() as fault:
                heal = await self._alter_environment(fault)
            case MemoryAltered() as fault:
                heal = self._alter_memory(fault)
            case DatabaseLocked() as fault:
                service, rest = of_service(fault.path)
                file = _resolve_in(self._folder_of(service), rest) if service else _resolve_in(self._root, fault.path)
                heal = await lock(file)
            case other:
                raise Failed(Failure("INTERNAL_ERROR", f"{other.kind} is not a fault of the state"))
        strike.met()
        return heal

    async def has(self, fault: DelayedState) -> bool:
        """Return whether the environment has the place of a late value."""
        try:
            return bool(lookup(await self._world.channel(fault.channel), fault.path))
        except PathError:
            return True  # the strike says what is wrong with it

    async def _delay(self, fault: DelayedState) -> Undo | None:
        world, channel, path = self._world, fault.channel, fault.path
        arrive = partial(world.merge, channel, path, fault.value)
        if fault.seconds == 0:
            await arrive()
            return None
        if fault.meanwhile is not None or _single_value(await world.channel(channel), path) == fault.value:
            await world.merge(channel, path, fault.meanwhile)
        return arrive

    async def _alter_environment(self, fault: EnvironmentAltered) -> Undo:
        world, channel, path = self._world, fault.channel, fault.path
        before = _single_value(await world.channel(channel), path)
        await world.merge(channel, path, fault.value)

        async def put_back() -> None:
            if _single_value(await world.channel(channel), path) == fault.value:
                await world.merge(channel, path, before)

        return put_back

    def _alter_memory(self, fault: MemoryAltered) -> Undo:
        world, key = self._world, fault.key
        before = world.entries().get(key)
        world.remember(key, fault.value, _SOURCE)
        altered = world.entries()[key]

        async def put_back() -> None:
            entries = world.entries()
            if entries.pop(key, None) == altered:
                old = {} if before is None else {key: before}
                await world.restore(WorldCheckpoint({**entries, **old}, environment={}, whole=False))

        return put_back


def _single_value(document: Json, path: str) -> Json:
    """The value at the path; null if there is none, as in criteria. Raises Failed for a path to several places."""
    try:
        found = lookup(document, path)
    except PathError as error:
        raise Failed(Failure("INVALID_INPUT", f"{path!r} is not a path: {error}")) from error
    if len(found) > 1:
        message = f"{path!r} names {len(found)} places; name one, so that it can be restored"
        raise Failed(Failure("INVALID_INPUT", message))
    return found[0] if found else None


# The processes of the sites.


class SiteTarget:
    """Injects faults into the run's services; every task that uses the site meets them."""

    def __init__(self, ports: Callable[[str], tuple[int, ...]], end: Callable[..., Awaitable[None]]) -> None:
        """`ports` returns those of a service; `end` ends it, and its owner restarts it. Both raise Failed."""
        self._ports, self._end = ports, end

    async def strike(self, strike: Injection) -> Undo | None:
        """Inject the fault. Raises Failed."""
        fault = strike.fault
        assert isinstance(fault, ServiceFault)
        ports = self._ports(fault.service)
        await self._end(fault.service, orderly=isinstance(fault, ServiceRestarted))
        strike.met()
        if not isinstance(fault, PortTaken):
            return None
        occupier = await PortOccupier.listen_on(ports)
        return occupier.free_ports


_ADDRESS = "127.0.0.1"
_GREETING = b"HTTP/1.1 \x00 a stranger is listening here\r\n\r\n"
"""The answer to every client. The NUL makes it invalid HTTP; mere words would be shown as a page (HTTP/0.9)."""


class PortOccupier:
    """Occupies the ports of a service. It must run on the loop's thread; `free_ports` must follow."""

    def __init__(self, servers: list[asyncio.Server]) -> None:
        self._servers = servers

    @classmethod
    async def listen_on(cls, ports: tuple[int, ...]) -> PortOccupier:
        """Listen on these ports, or on none. Raises Failed if a port is taken already."""
        occupier = cls([])
        try:
            for port in ports:
                await occupier._take(port)
        except BaseException as error:
            await occupier.free_ports()
            if not isinstance(error, OSError):
                raise
            why = "another program took it first" if error.errno == errno.EADDRINUSE else str(error)
            raise Failed(Failure("INTERNAL_ERROR", f"port_taken: a port could not be taken: {why}")) from error
        return occupier

    async def _take(self, port: int) -> None:
        """Keep the server before it listens: one that listens at once would be lost if this is cancelled."""
        server = await asyncio.start_server(_greet, _ADDRESS, port, reuse_address=True, start_serving=False)
        self._servers.append(server)
        await server.start_serving()

    async def free_ports(self) -> None:
        """Free the ports."""
        for server in self._servers:
            server.close()
        self._servers = []


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send the greeting, read what the client sends, and close."""
    with contextlib.suppress(OSError):
        writer.write(_GREETING)
        await writer.drain()
        await reader.read(65_536)
    writer.close()
