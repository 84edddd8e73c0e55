"""One process, one loopback listener per site."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from typing import Final

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from harness.demo.connection import HttpConnection
from harness.demo.sites import HOSTS, applications
from harness.demo.worlds import Worlds

_ADDRESS: Final = "127.0.0.1"
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class PortTakenError(Exception):
    """A port of the sites cannot be listened on."""


def ports_from(base: int) -> dict[str, int]:
    """Host -> port: ``base`` and the ports after it, or 0 (any free one) for all if ``base`` is 0."""
    return {host: base + offset if base else 0 for offset, host in enumerate(HOSTS)}


def bind(ports: Mapping[str, int]) -> dict[str, socket.socket]:
    """Bind one socket per host; port 0 takes a free one."""
    bound: dict[str, socket.socket] = {}
    for host, port in ports.items():
        try:
            bound[host] = socket.create_server((_ADDRESS, port), backlog=512)
        except OSError as error:
            for taken in bound.values():
                taken.close()
            raise PortTakenError(
                f"cannot listen on {_ADDRESS}:{port} for {host}: {os.strerror(error.errno or 0)}"
            ) from error
    return bound


class Server(uvicorn.Server):
    """A uvicorn server that prints a line when it is ready and leaves the signals to the caller."""

    def __init__(self, config: uvicorn.Config, ports: Mapping[str, int]) -> None:
        super().__init__(config)
        self._ports = ports

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then print the ready line."""
        await super().startup(sockets)
        print(json.dumps({"hosts": dict(self._ports)}), flush=True)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not handle signals: uvicorn would raise them again and end the process as if killed."""
        yield


def serve(sockets: Mapping[str, socket.socket], worlds: Worlds) -> None:
    """Serve all sites, each on its listener, until SIGTERM or SIGINT."""
    ports = {host: listener.getsockname()[1] for host, listener in sockets.items()}
    sites: dict[int, ASGIApp] = {ports[host]: site for host, site in applications(worlds, ports).items()}

    async def by_port(scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a connection to the site whose listener accepted it, whatever its Host header says."""
        await sites[scope["server"][1]](scope, receive, send)

    config = uvicorn.Config(
        by_port,
        http=HttpConnection,
        lifespan="off",
        log_level="critical",
        access_log=False,
        # A browser that reuses a connection while it is being closed gets an error: keep idle ones for long.
        timeout_keep_alive=600,
        # Open connections must not delay the stop.
        timeout_graceful_shutdown=0,
    )
    asyncio.run(_run(Server(config, ports), list(sockets.values())))


async def _run(server: Server, sockets: list[socket.socket]) -> None:
    def stop() -> None:
        server.should_exit = True

    for number in _STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop)
    await server.serve(sockets)
