"""A program that has nothing to do with the site listens on its ports."""

from __future__ import annotations

import asyncio
import contextlib
import errno

from harness.recovery.failure import Failed, Failure

ADDRESS = "127.0.0.1"
GREETING = b"HTTP/1.1 \x00 a stranger is listening here\r\n\r\n"
"""What it says to everybody. The NUL makes it no HTTP; mere words would be shown as a page (HTTP/0.9)."""


class Stranger:
    """Must run on the loop's thread; `leave` must follow."""

    def __init__(self, servers: list[asyncio.Server]) -> None:
        self._servers = servers

    @classmethod
    async def at(cls, ports: tuple[int, ...]) -> Stranger:
        """Listen there, or nowhere. Raises Failed when a port is taken already."""
        stranger = cls([])
        try:
            for port in ports:
                await stranger._take(port)
        except BaseException as error:
            await stranger.leave()
            if not isinstance(error, OSError):
                raise
            why = "somebody else was faster" if error.errno == errno.EADDRINUSE else str(error)
            raise Failed(Failure("INTERNAL_ERROR", f"port_taken: a port could not be taken: {why}")) from error
        return stranger

    async def _take(self, port: int) -> None:
        """It is kept before it listens: a server that listens at once would be lost when this is cancelled."""
        server = await asyncio.start_server(_greet, ADDRESS, port, reuse_address=True, start_serving=False)
        self._servers.append(server)
        await server.start_serving()

    async def leave(self) -> None:
        """The ports are free again."""
        for server in self._servers:
            server.close()
        self._servers = []


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Greet, hear what the other has to say, and go."""
    with contextlib.suppress(OSError):
        writer.write(GREETING)
        await writer.drain()
        await reader.read(65_536)
    writer.close()
