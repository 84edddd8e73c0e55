"""Prepares the start of a service: its ports, its folder, its placeholders."""

from __future__ import annotations

import random
import shutil
import socket
import sys
from collections.abc import Collection, Container, Mapping
from pathlib import Path

from harness.environment.health import ADDRESS
from harness.model.service_settings import AUTO, ServiceSettings

_RANGE = range(20_000, 30_000)
"""Ports below those that Linux (from 32768) and macOS (from 49152) use for outgoing connections, so that none of these
takes the port of a service that is being restarted.
"""
_TRIES = 1000


def _free_port(taken: Container[int]) -> int:
    """A port that has no listener now and is not `taken`. Raises OSError if none is found."""
    for _ in range(_TRIES):
        port = random.choice(_RANGE)
        if port not in taken and is_free(port):
            return port
    raise OSError(f"no free port between {_RANGE.start} and {_RANGE.stop - 1}")


def is_free(port: int) -> bool:
    """Return whether a server could listen on the port now."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((ADDRESS, port))
        except OSError:
            return False
    return True


def chosen_ports(settings: ServiceSettings, taken: Collection[int]) -> dict[str, int]:
    """Host name, in lower case -> its declared port, or a free one. Raises ValueError if none is free."""
    try:
        if settings.port == AUTO:
            return dict.fromkeys(settings.declared, _free_port(taken))
        found: dict[str, int] = {}
        for host, port in settings.declared.items():
            found[host] = port if isinstance(port, int) else _free_port({*taken, *found.values()})
    except OSError as error:
        raise ValueError(str(error)) from error
    return found


def are_ports_allowed(settings: ServiceSettings, ports: Mapping[str, int]) -> bool:
    """Return whether the settings allow these ports."""
    declared = settings.declared
    return declared.keys() == ports.keys() and all(port in (AUTO, ports[host]) for host, port in declared.items())


def placeholder_values(hosts: Mapping[str, int], port: int, folder: Path) -> dict[str, str]:
    """Placeholder -> its value."""
    return {
        "python": sys.executable,
        "folder": str(folder),
        "port": str(port),
        "ports": ",".join(f"{host}={each}" for host, each in hosts.items()),
        **{f"port:{host}": str(each) for host, each in hosts.items()},
    }


def fill(folder: Path, template: Path) -> None:
    """Empty the folder, and copy the template into it: the contents of a folder, or a single file. Raises OSError."""
    if not template.exists():
        raise FileNotFoundError(f"its template {template} does not exist")
    shutil.rmtree(folder, ignore_errors=True)
    if template.is_dir():
        shutil.copytree(template, folder, symlinks=True)
    else:
        folder.mkdir(parents=True)
        shutil.copy2(template, folder)
