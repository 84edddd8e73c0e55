"""The server itself: it listens, says how it is, and ends in bounded time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from errno import EADDRINUSE
from pathlib import Path
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from harness.resilience import Clock
from harness.resilience.process import describe_listener
from harness.serve.address import ADDRESS, address_of, forget_address, keep_address
from harness.serve.edges import LONGEST_BODY, Addressed, Edges
from harness.serve.tokens import Tokens

LOOPBACK: Final = "127.0.0.1"
SERVICE: Final = "taskspec-serve"
"""How the health answer names this server."""
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_STOPPED_WITHIN: Final = 1
"""Seconds that open requests have at the end: a viewer's stream never ends by itself."""
PING: Final = 20.0
"""Seconds between two pings of a WebSocket, and until one that is not answered ends it."""
LOOK: Final = 1.0
"""Seconds between two looks whether the server is still needed."""


class CannotListenError(Exception):
    """The port cannot be listened on."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises CannotListenError."""
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=512
        )
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        by = f", by {describe_listener(port)}" if error.errno == EADDRINUSE else ""
        raise CannotListenError(f"cannot listen on {host}:{port}: {why}{by}") from error


def check_certificate(files: tuple[Path, Path] | None) -> None:
    """Check that the files are a certificate and its key. Raises ValueError."""
    if files is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*files)
    except (OSError, ssl.SSLError) as error:
        names = " and ".join(str(each) for each in files)
        raise ValueError(f"[tool.harness.serve] {names} are no certificate and key: {error}") from error


class ServerHealth:
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

    def __init__(
        self, root: Path, routes: Sequence[BaseRoute], clock: Clock, tokens: Tokens, *, read_only: bool = False
    ) -> None:
        """`read_only`: it shows pages, and takes nothing from anybody."""
        self._root, self._clock, self._tokens, self._read_only = root, clock, tokens, read_only
        self.health = ServerHealth(root)
        self._app = Starlette(routes=[self.health.route(), *routes])
        self.stopping: Callable[[], None] = lambda: None
        """Called when the server begins to stop, while its connections are still open."""

    async def run(
        self,
        listener: socket.socket,
        ready: Callable[[], None] = lambda: None,
        needed: Callable[[], bool] = lambda: True,
        *,
        host: str = "",
        certificate: tuple[Path, Path] | None = None,
        inside: bool = False,
        file: Path = ADDRESS,
    ) -> None:
        """Serve on the listener. `ready` is called when it answers; it ends when `needed` returns False.

        `host`: the name that was listened on. `certificate`: the files of a certificate and of its key, for TLS.
        `inside`: the process does more than this, and its signals are not the server's. `file` keeps the address.
        Raises OSError if it cannot be kept, or the certificate cannot be read.
        """
        address, port = listener.getsockname()[:2]
        now, secure, hosts = self._clock.wall, certificate is not None, Addressed.of(host or address, address)
        edges = Edges(self._app, self._tokens, hosts, now, secure=secure, read_only=self._read_only)
        server = QuietUvicorn(uvicorn_config(edges, LONGEST_BODY, certificate), lambda: self._is_ready(ready))

        def keep() -> None:
            keep_address(self._root, host or address, port, secure=secure, file=file)

        def attend() -> None:
            """Keep the address again if somebody deleted it."""
            if address_of(self._root, file) is None:
                with contextlib.suppress(OSError):  # a full disk: the next look tries again
                    keep()

        keep()
        try:
            await self._until_stopped(server, listener, needed, attend, () if inside else _STOP_SIGNALS)
        finally:
            self.health.state = "stopping"
            forget_address(self._root, file)

    def _is_ready(self, ready: Callable[[], None]) -> None:
        self.health.state = "ready"
        ready()

    async def _until_stopped(
        self,
        server: QuietUvicorn,
        listener: socket.socket,
        needed: Callable[[], bool],
        attend: Callable[[], None],
        signals: Sequence[signal.Signals],
    ) -> None:
        def stop() -> None:
            if self.health.state != "stopping":
                self.stopping()
            self.health.state, server.should_exit = "stopping", True

        for number in signals:
            asyncio.get_running_loop().add_signal_handler(number, stop)
        watch = asyncio.create_task(self._attend(needed, stop, attend))
        try:
            await server.serve([listener])
        finally:
            watch.cancel()

    async def _attend(self, needed: Callable[[], bool], stop: Callable[[], None], attend: Callable[[], None]) -> None:
        """Stop the server when it is not needed, or its project is gone; also if that can no longer be found out."""
        try:
            while self._root.is_dir() and needed():
                attend()
                await self._clock.sleep(LOOK)
        finally:
            stop()


def uvicorn_config(app: ASGIApp, longest: int, certificate: tuple[Path, Path] | None = None) -> uvicorn.Config:
    """A server that says nothing. `longest`: bytes of one message of a WebSocket. `certificate`: for TLS."""
    return uvicorn.Config(
        app,
        interface="asgi3",
        lifespan="off",
        log_level="critical",
        access_log=False,
        ws_max_size=longest,
        ws_ping_interval=PING,
        ws_ping_timeout=PING,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_STOPPED_WITHIN,
        ssl_certfile=certificate and certificate[0],
        ssl_keyfile=certificate and certificate[1],
    )


class QuietUvicorn(uvicorn.Server):
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
