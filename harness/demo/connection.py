"""The TCP connection under a request: a site can break it off, or never answer on it."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

EXTENSION: Final = "taskspec.connection"
_LINGER_NOT: Final = struct.pack("ii", 1, 0)
"""``SO_LINGER`` on, 0 seconds: closing sends RST instead of FIN and drops what was not yet sent."""
_INTERIM: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_READ_SECONDS: Final = 0.05
"""In which the client reads the interim head: a reset drops what is still under way."""


class HttpConnection(H11Protocol):
    """HTTP/1.1 whose requests carry their connection in the scope's extensions."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put this connection into the scope of each of its requests."""
        super().connection_made(transport)
        site: ASGIApp = self.app

        async def known(scope: Scope, receive: Receive, send: Send) -> None:
            await site({**scope, "extensions": {EXTENSION: self}}, receive, send)

        self.app = known

    def reset(self) -> None:
        """Break off with a TCP reset: the client reads no byte more."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self.transport.abort()


class ConnectionReset(Response):
    """No answer: the connection is reset.

    An interim head (100 Continue) goes first. Without it Chromium takes the reset of a connection that was idle for one
    that timed out, and sends the request again by itself, a POST too: one click would order twice.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Reset, and end when the connection has."""
        connection: HttpConnection = scope["extensions"][EXTENSION]
        connection.transport.write(_INTERIM)
        await asyncio.sleep(_READ_SECONDS)
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
