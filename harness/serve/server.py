"""The server itself: it listens, says how it is, and ends in bounded time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from harness.resilience import Clock
from harness.serve.address import ADDRESS, forget_address, keep_address
from harness.serve.edges import Edges
from harness.serve.tokens import Tokens

SERVICE: Final = "taskspec-serve"
"""How the health answer names this server."""
LOOPBACK: Final = "127.0.0.1"
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
STOPPED_WITHIN: Final = 1
"""Seconds that open requests have at the end: a viewer's stream never ends by itself."""
LONGEST: Final = 1024 * 1024
"""Bytes of one message of a WebSocket."""
PING: Final = 20.0
"""Seconds between two pings of a WebSocket, and for the answer to one."""
LOOK: Final = 1.0
"""Seconds between two looks whether the server is still needed."""


class PortTakenError(Exception):
    """The port cannot be listened on."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises PortTakenError."""
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=512
        )
    except OSError as error:
        raise PortTakenError(f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}") from error


class Health:
    """The state of the server, as `/health` tells it: 200 only while it is ready."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.state = "starting"

    def route(self) -> Route:
        return Route("/health", self._answer)

    async def _answer(self, _request: Request) -> Response:
        body = {"status": self.state, "service": SERVICE, "project": str(self._root), "pid": os.getpid()}
        return JSONResponse(body, 200 if self.state == "ready" else 503)


class ProjectServer:
    """Serves the routes of a project until it is told to stop, or is no longer needed."""

    def __init__(self, root: Path, routes: Sequence[BaseRoute], clock: Clock, tokens: Tokens) -> None:
        self._root = root
        self._clock = clock
        self.health = Health(root)
        self._app = Starlette(routes=[self.health.route(), *routes])
        self._tokens = tokens

    async def run(
        self,
        listener: socket.socket,
        ready: Callable[[], None] = lambda: None,
        needed: Callable[[], bool] = lambda: True,
        *,
        certificate: tuple[Path, Path] | None = None,
        inside: bool = False,
        file: Path = ADDRESS,
    ) -> None:
        """Serve on the listener. `ready` is called when it answers; it ends when `needed` returns False.

        `certificate`: the files of a certificate and of its key, for TLS. `inside`: the process does more than this,
        and its signals are not the server's. `file` keeps the address. Raises OSError if it cannot be kept.
        """
        host, port = listener.getsockname()[:2]
        names = frozenset({host, *(("localhost", LOOPBACK, "::1") if host in (LOOPBACK, "::1") else ())})
        edges = Edges(self._app, self._tokens, names, self._clock.wall, secure=certificate is not None)
        config = uvicorn.Config(
            edges,
            lifespan="off",
            log_level="critical",
            access_log=False,
            timeout_keep_alive=30,
            ws_max_size=LONGEST,
            ws_ping_interval=PING,
            ws_ping_timeout=PING,
            timeout_graceful_shutdown=STOPPED_WITHIN,
            ssl_certfile=certificate and certificate[0],
            ssl_keyfile=certificate and certificate[1],
        )
        server = _Server(config, lambda: self._is_ready(ready))
        keep_address(self._root, host, port, secure=certificate is not None, file=file)
        try:
            await self._until_stopped(server, listener, needed, () if inside else STOP_SIGNALS)
        finally:
            self.health.state = "stopping"
            forget_address(self._root, file)

    def _is_ready(self, ready: Callable[[], None]) -> None:
        self.health.state = "ready"
        ready()

    async def _until_stopped(
        self, server: _Server, listener: socket.socket, needed: Callable[[], bool], signals: Sequence[signal.Signals]
    ) -> None:
        def stop() -> None:
            self.health.state, server.should_exit = "stopping", True

        for number in signals:
            asyncio.get_running_loop().add_signal_handler(number, stop)
        watch = asyncio.create_task(self._stop_when_idle(needed, stop))
        try:
            await server.serve([listener])
        finally:
            watch.cancel()

    async def _stop_when_idle(self, needed: Callable[[], bool], stop: Callable[[], None]) -> None:
        while needed():
            await self._clock.sleep(LOOK)
        stop()


class _Server(uvicorn.Server):
    """A uvicorn server that tells when it answers, and leaves the signals to the caller."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then tell."""
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not handle signals: uvicorn would raise them again and end the process as if killed."""
        yield
