"""An SQLite file held under an exclusive lock."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from harness.model.ports import Heal
from harness.recovery.failure import Failed, Failure

PATIENCE = 5.0
"""Seconds to wait for whoever else has locked it."""


def confined(root: Path, path: str) -> Path:
    """The file. Raises Failed(INVALID_INPUT) when it lies outside of `root`, or is not there."""
    folder = root.resolve()
    try:
        file = (folder / path).resolve()
        inside, found = file.is_relative_to(folder), file.is_file()
    except (OSError, ValueError) as error:
        raise _refused(path, str(error)) from error
    if not inside:
        raise _refused(path, f"it leads out of the project's folder, {folder}")
    if not found:
        raise _refused(path, f"there is no such file below {folder}")
    return file


async def lock(file: Path) -> Heal:
    """Lock it; what unlocks it. Raises Failed(INVALID_INPUT) when it is no database, or cannot be locked."""
    try:
        database = await asyncio.to_thread(_locked, file)
    except sqlite3.Error as error:
        raise _refused(str(file), f"it cannot be locked: {error}") from error

    async def unlock() -> None:
        await asyncio.to_thread(database.close)  # rolls back

    return unlock


def _locked(file: Path) -> sqlite3.Connection:
    # `rw`: a file that vanished meanwhile is not made anew. The connection is closed on another thread.
    uri = f"{file.as_uri()}?mode=rw"
    database = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        database.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error:
        database.close()
        raise
    return database


def _refused(path: str, why: str) -> Failed:
    return Failed(Failure("INVALID_INPUT", f"database_locked: {path}: {why}"))
