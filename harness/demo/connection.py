"""The TCP connection under a request: a site can break it off, or never answer on it."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

EXTENSION: Final = "taskspec.connection"
_LINGER_NOT: Final = struct.pack("ii", 1, 0)
"""``SO_LINGER`` on, 0 seconds: closing sends RST instead of FIN and drops what was not yet sent."""


class Connection(H11Protocol):
    """HTTP/1.1 whose requests carry their connection in the scope's extensions."""

    requests = 0
    """How many requests have come in on it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put this connection into the scope of each of its requests."""
        super().connection_made(transport)
        site: ASGIApp = self.app

        async def known(scope: Scope, receive: Receive, send: Send) -> None:
            self.requests += 1
            await site({**scope, "extensions": {EXTENSION: self}}, receive, send)

        self.app = known

    def reset(self) -> None:
        """Break off with a TCP reset: the client reads no byte more."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self.transport.abort()


def is_fresh(request: Request) -> bool:
    """Tell whether the request is the first on its connection; without a network it always is."""
    connection: Connection | None = request.scope.get("extensions", {}).get(EXTENSION)
    return connection is None or connection.requests == 1


class Reset(Response):
    """No answer: the connection is reset."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Reset, and end when the connection has."""
        connection: Connection = scope["extensions"][EXTENSION]
        connection.reset()
        await _gone(receive)


class Silence(Response):
    """No answer: the connection stays open until the client gives up."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Wait for the client to go."""
        await _gone(receive)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
