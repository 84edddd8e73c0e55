"""Bytes between two connections, both ways."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass

CHUNK = 65_536
LINGER = 2.0
"""Seconds that the client may take to close after the site has ended its answer."""
_RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Stream:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def of(cls, connection: socket.socket) -> Stream:
        """An accepted connection as a stream."""
        return cls(*await asyncio.open_connection(sock=connection))

    @classmethod
    async def to(cls, host: str, port: int) -> Stream:
        """Raises OSError when nothing listens there."""
        return cls(*await asyncio.open_connection(host, port))

    async def close(self) -> None:
        """End it in order: what was written still arrives."""
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    def drop(self) -> None:
        """End it at once."""
        self.writer.transport.abort()

    def reset(self) -> None:
        """End it at once, with a RST: the other end learns that something broke."""
        with contextlib.suppress(OSError):  # it has ended already
            self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.drop()

    async def drain_input(self) -> None:
        """Read and forget until the other end closes: unread bytes would turn a close into a RST."""
        with contextlib.suppress(OSError):
            while await self.reader.read(CHUNK):
                pass


async def join(client: Stream, site: Stream) -> None:
    """Pass everything on until both ends are done; each end may finish sending before the other does."""
    upwards = asyncio.create_task(_upload(client, site))
    try:
        if await _download(site, client):
            await asyncio.wait([upwards], timeout=LINGER)
    finally:
        upwards.cancel()
        await asyncio.wait([upwards])


async def _download(site: Stream, client: Stream) -> bool:
    """False when one of the two has broken the connection off: the other end learns it as well."""
    try:
        await _pump(site, client)
    except OSError:
        client.reset()
        return False
    return True


async def _upload(client: Stream, site: Stream) -> None:
    try:
        await _pump(client, site)
    except OSError:
        if client.reader.exception() is not None:
            site.drop()
        # The site answers without reading on: its answer is lost when the rest of the request is not taken.
        await client.drain_input()


async def _pump(source: Stream, target: Stream) -> None:
    """Copy until the source ends; a slow target slows the source down. Raises OSError."""
    while chunk := await source.reader.read(CHUNK):
        target.writer.write(chunk)
        await target.writer.drain()
    if target.writer.can_write_eof():
        target.writer.write_eof()
