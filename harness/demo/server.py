"""The sites as ASGI applications, by host name; one process, one loopback listener per site."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from harness.demo import VERSION, bank, control, gov, merchants, models, shop, tools
from harness.demo.connection import HttpConnection
from harness.demo.visit import page
from harness.demo.worlds import Worlds

# The sites.

_STATIC: Final = Path(__file__).with_name("static")
HOSTS: Final[Mapping[str, Sequence[BaseRoute]]] = {
    "world.local": control.ROUTES,
    "shop.local": [*shop.ROUTES, *tools.ROUTES],
    "bank.local": bank.ROUTES,
    "gov.local": gov.ROUTES,
    "util.local": merchants.UTILITY_ROUTES,
    "food.local": merchants.FOOD_ROUTES,
    "transport.local": merchants.TRANSPORT_ROUTES,
    "stream.local": merchants.STREAM_ROUTES,
    "travel.local": merchants.TRAVEL_ROUTES,
    "models.local": models.ROUTES,
}
_WITHOUT_PAGES: Final = ("world", "models")


def applications(worlds: Worlds, ports: Mapping[str, int]) -> dict[str, Starlette]:
    """Build every site over one store; ``ports`` is what ``/health`` reports about the hosts."""
    return {host: _application(host, routes, worlds, ports) for host, routes in HOSTS.items()}


def _application(host: str, routes: Sequence[BaseRoute], worlds: Worlds, ports: Mapping[str, int]) -> Starlette:
    site = host.partition(".")[0]
    shared = [
        Route("/health", _health),
        Route("/favicon.ico", _favicon),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]
    application = Starlette(routes=[*shared, *routes], exception_handlers={404: partial(_not_found, site)})
    application.state.worlds = worlds
    application.state.hosts = dict(ports)
    return application


async def _health(request: Request) -> JSONResponse:
    identity = {"service": "taskspec-demo", "version": VERSION, "pid": os.getpid()}
    return JSONResponse({**identity, "hosts": request.app.state.hosts})


async def _favicon(_request: Request) -> FileResponse:
    return FileResponse(_STATIC / "favicon.svg", media_type="image/svg+xml")


async def _not_found(site: str, request: Request, _error: Exception) -> Response:
    if site in _WITHOUT_PAGES or request.url.path.startswith("/api/"):
        return JSONResponse({"error": "not found", "path": request.url.path}, status_code=404)
    return page(request, "missing.html", {"site": site}, status=404)


# The process.

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
