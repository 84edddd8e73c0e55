"""Bytes between two connections, both ways."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from harness.faults.head import END

CHUNK = 65_536
MAX_HEAD = 65_536
"""Bytes; a longer head is passed on unread."""
LINGER = 2.0
"""Seconds that the client may take to close after its answer has ended."""
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

    async def send(self, data: bytes) -> None:
        """Write; a slow other end makes this wait. Raises OSError."""
        self.writer.write(data)
        await self.writer.drain()

    async def read_head(self, raw: bytes = b"") -> bytes:
        """Up to and with the first empty line, and what came with it; less when it is not HTTP, or does not end.

        `raw` is what was read of it before.
        """
        with contextlib.suppress(OSError):
            while END not in raw and len(raw) < MAX_HEAD and (not raw or raw[:1].isalpha()):
                chunk = await self.reader.read(CHUNK)
                if not chunk:
                    break
                raw += chunk
        return raw

    async def finish(self, last: bytes = b"") -> None:
        """Say the last, and wait for a while until the other end has closed.

        What it still sends is read: unread bytes would turn the end into a RST, and the last bytes would be lost.
        """
        with contextlib.suppress(OSError):  # TimeoutError is one
            self.writer.write(last)
            self.writer.write_eof()
            async with asyncio.timeout(LINGER):
                await self.drain_input()
        self.drop()

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
        """Read and forget until the other end closes."""
        with contextlib.suppress(OSError):
            while await self.reader.read(CHUNK):
                pass


async def pump(source: Stream, target: Stream) -> None:
    """Copy until the source ends; a slow target slows the source down. Raises OSError."""
    while chunk := await source.reader.read(CHUNK):
        await target.send(chunk)
    if target.writer.can_write_eof():
        target.writer.write_eof()


Download = Callable[[Stream, Stream], Awaitable[None]]
"""Brings the site's answer to the client, and ends what is written there. OSError: the client gets a RST."""


async def join(client: Stream, site: Stream, download: Download = pump) -> None:
    """Pass everything on until both ends are done; each end may finish sending before the other does."""
    upwards = asyncio.create_task(_upload(client, site))
    try:
        if await _brought(download, site, client):
            await asyncio.wait([upwards], timeout=LINGER)
    finally:
        upwards.cancel()
        await asyncio.wait([upwards])


async def _brought(download: Download, site: Stream, client: Stream) -> bool:
    """False when one of the two has broken the connection off: the other end learns it as well."""
    try:
        await download(site, client)
    except OSError:
        client.reset()
        return False
    return True


async def _upload(client: Stream, site: Stream) -> None:
    try:
        await pump(client, site)
    except OSError:
        if client.reader.exception() is not None:
            site.drop()
        # The site answers without reading on: its answer is lost when the rest of the request is not taken.
        await client.drain_input()
