"""The TCP connection of a request: a site can break it, or never answer on it."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

_EXTENSION: Final = "taskspec.connection"
_LINGER_NOT: Final = struct.pack("ii", 1, 0)
"""``SO_LINGER`` on, 0 seconds: closing sends RST instead of FIN and drops what was not yet sent."""
_INTERIM: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_READ_SECONDS: Final = 0.05
"""Seconds within which the client reads the interim head: a reset drops what is still under way."""


class HttpConnection(H11Protocol):
    """HTTP/1.1 whose requests carry their connection in the scope's extensions."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put this connection into the scope of each of its requests."""
        super().connection_made(transport)
        site: ASGIApp = self.app

        async def known(scope: Scope, receive: Receive, send: Send) -> None:
            await site({**scope, "extensions": {_EXTENSION: self}}, receive, send)

        self.app = known

    def reset(self) -> None:
        """Break the connection with a TCP reset: the client reads no further byte."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self.transport.abort()


class ConnectionReset(Response):
    """No answer: the connection is reset.

    An interim head (100 Continue) is sent first. Without it Chromium takes the reset of an idle connection for a
    timeout, and repeats the request by itself, even a POST: one click would order twice.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Reset the connection, and return when it is closed."""
        connection: HttpConnection = scope["extensions"][_EXTENSION]
        connection.transport.write(_INTERIM)
        await asyncio.sleep(_READ_SECONDS)
        connection.reset()
        await _await_disconnect(receive)


class Silence(Response):
    """No answer: the connection stays open until the client gives up."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Wait until the client disconnects."""
        await _await_disconnect(receive)


async def _await_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
