"""Injects faults into memory, environment channels and databases."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

from harness.criteria import Json, PathError, lookup
from harness.model.ports import Injection, Undo, World, WorldCheckpoint
from harness.recovery.failure import Failed, Failure
from harness.spec.faults import DatabaseLocked, DelayedState, EnvironmentAltered, MemoryAltered
from harness.spec.faults.kinds import of_service

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
        """Inject the fault. Raises Failed."""
        match strike.fault:
            case DelayedState() as fault:
                heal = await self._delay(fault)
            case EnvironmentAltered() as fault:
                heal = await self._alter_environment(fault)
            case MemoryAltered() as fault:
                heal = self._alter_memory(fault)
            case DatabaseLocked() as fault:
                heal = await lock(_resolve_in(*self._locate_file(fault.path)))
            case other:
                raise Failed(Failure("INTERNAL_ERROR", f"{other.kind} is not a fault of the state"))
        strike.met()
        return heal

    def _locate_file(self, path: str) -> tuple[Path, str]:
        """The folder that the file must lie in, and its path there. Raises Failed for an unknown service."""
        service, rest = of_service(path)
        return (self._folder_of(service), rest) if service else (self._root, path)

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
