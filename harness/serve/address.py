"""Where the server of a project is: kept in the project, so that two checkouts never meet."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from harness.resilience.owner import Owner
from harness.resilience.replaced import write_whole

ADDRESS: Final = Path(".harness/serve.json")
"""The file with the address of the running server, relative to the project."""
_LOCK = Path(".harness/serve.lock")
EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - only compared with
"""An address that means all those of the machine -> the one under which the machine itself reaches it."""
BRIDGE: Final = Path(".harness/bridge.json")
"""The file with the address of a run that serves agents: it may run beside the project's server."""


class ServeAddress(Struct, frozen=True):
    """The running server of a project."""

    owner: Owner
    host: str
    port: int
    secure: bool = False

    @property
    def url(self) -> str:
        """Its address, without a token."""
        host = socket.gethostname() if self.host in EVERYWHERE else self.host
        name = f"[{host}]" if ":" in host else host
        return f"{'https' if self.secure else 'http'}://{name}:{self.port}/"

    @property
    def reached_at(self) -> str:
        """The host under which this machine reaches it."""
        return EVERYWHERE.get(self.host, self.host)

    @property
    def pid(self) -> int:
        return self.owner.pid


class AlreadyServedError(Exception):
    """Another process serves the project, or is about to."""


@contextlib.contextmanager
def only_server(root: Path) -> Iterator[None]:
    """Let one process at a time serve the project. Raises AlreadyServedError, and OSError."""
    file = root / _LOCK
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyServedError from None
        yield


def _kept(root: Path, file: Path) -> ServeAddress | None:
    try:
        return msgspec.json.decode((root / file).read_bytes(), type=ServeAddress)
    except (OSError, msgspec.DecodeError):
        return None


def address_of(root: Path, file: Path = ADDRESS) -> ServeAddress | None:
    """The server that runs for a project; None if there is none."""
    found = _kept(root, file)
    return found if found is not None and found.owner.alive else None


def addresses_of(root: Path) -> list[ServeAddress]:
    """The servers of the project whose process lives, that of a run first."""
    found = (address_of(root, BRIDGE), address_of(root))
    return [each for each in found if each is not None]


def port_of_a_killed_server(root: Path) -> int:
    """The port of a server that could not forget its address, so that its pages find the next one; 0: there is none."""
    found = _kept(root, ADDRESS)
    return 0 if found is None or found.owner.alive or not 0 < found.port < 65536 else found.port


def keep_address(root: Path, host: str, port: int, *, secure: bool, file: Path = ADDRESS) -> ServeAddress:
    """Write the address of this process's server. Raises OSError."""
    address = ServeAddress(Owner.this(), host, port, secure)
    write_whole(root / file, msgspec.json.encode(address) + b"\n")
    return address


def forget_address(root: Path, file: Path = ADDRESS) -> None:
    """Remove the address, if it is that of this process."""
    found = address_of(root, file)
    if found is not None and found.pid == os.getpid():
        (root / file).unlink(missing_ok=True)
