"""Programs that use the project's server in the background: the last of them ends it, if one of them has started it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from pathlib import Path
from typing import IO, Final

import msgspec

from harness.serve.address import ServeAddress, address_of

_USERS: Final = Path(".harness/serve.users")
"""The file that each user locks, relative to the project."""
STARTED: Final = Path(".harness/serve.started.json")
"""The address of a server that ends with its last user, or that it persists."""
_PERSISTS: Final = b"persists\n"


def is_used(root: Path) -> bool:
    """Return whether a server that was started for its users is still to stay: one is there, or said so. Never waits.

    Users that leave while the server starts, or that are killed, cannot end it themselves.
    """
    try:
        with (root / _USERS).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return (root / STARTED).read_bytes() == _PERSISTS
    except BlockingIOError:
        return True
    except OSError:  # nobody has said so, or the project is gone
        return False


class ServerUse:
    """One user of the project's server, from its making until `leave`."""

    def __init__(self, root: Path) -> None:
        """Raises OSError."""
        self._root = root
        file = root / _USERS
        file.parent.mkdir(parents=True, exist_ok=True)
        self._lock: IO[str] = file.open("a")
        fcntl.flock(self._lock, fcntl.LOCK_SH)  # somebody who leaves has it alone for a moment

    def started(self, address: ServeAddress) -> None:
        """Say that a user has started this server. Raises OSError."""
        (self._root / STARTED).write_bytes(msgspec.json.encode(address))

    def persist(self) -> None:
        """Let the server stay when its last user leaves. Raises OSError."""
        (self._root / STARTED).write_bytes(_PERSISTS)

    def leave(self) -> int | None:
        """Use it no more; the pid of the server that ends for it, if one does. Never waits."""
        with self._lock as lock:
            fcntl.flock(lock, fcntl.LOCK_UN)  # of several that leave at once, the last one has it alone
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None  # somebody else uses it
            now = address_of(self._root)
            with contextlib.suppress(OSError, msgspec.DecodeError):
                ours = msgspec.json.decode((self._root / STARTED).read_bytes(), type=ServeAddress)
                (self._root / STARTED).unlink(missing_ok=True)
                if now is not None and now.owner == ours.owner:
                    os.kill(now.pid, signal.SIGTERM)
                    return now.pid
            return None
