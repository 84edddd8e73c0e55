"""Where the server of a project is: kept in the project, so that two checkouts never meet."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

import msgspec
import psutil
from msgspec import Struct

ADDRESS: Final = Path(".harness/serve.json")
"""The file with the address of the running server, relative to the project."""
_SAME = 1.0
"""Seconds by which two readings of one start may differ."""


BRIDGE: Final = Path(".harness/bridge.json")
"""The file with the address of a run that serves agents: it may run beside the project's server."""


class ServeAddress(Struct, frozen=True):
    """The running server of a project."""

    pid: int
    started: float
    """The start of its process in seconds since the epoch: a pid is reused after a while."""
    host: str
    port: int
    secure: bool = False

    @property
    def url(self) -> str:
        """Its address, without a token."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{name}:{self.port}/"

    @property
    def alive(self) -> bool:
        """Whether its process still runs."""
        try:
            process = psutil.Process(self.pid)
            dead = process.status() == psutil.STATUS_ZOMBIE
            return not dead and abs(process.create_time() - self.started) <= _SAME
        except psutil.Error:
            return False


def address_of(root: Path, file: Path = ADDRESS) -> ServeAddress | None:
    """The server that runs for a project; None if there is none."""
    try:
        found = msgspec.json.decode((root / file).read_bytes(), type=ServeAddress)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.alive else None


def keep_address(root: Path, host: str, port: int, *, secure: bool, file: Path = ADDRESS) -> ServeAddress:
    """Write the address of this process's server. Raises OSError."""
    process = psutil.Process()
    address = ServeAddress(process.pid, process.create_time(), host, port, secure)
    place = root / file
    place.parent.mkdir(parents=True, exist_ok=True)
    scratch = place.with_name(f".{place.name}.{os.getpid()}")
    scratch.write_text(json.dumps(msgspec.to_builtins(address)) + "\n", "utf-8")
    scratch.replace(place)
    return address


def forget_address(root: Path, file: Path = ADDRESS) -> None:
    """Remove the address, if it is that of this process."""
    found = address_of(root, file)
    if found is not None and found.pid == os.getpid():
        (root / file).unlink(missing_ok=True)
