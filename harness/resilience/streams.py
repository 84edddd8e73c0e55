"""Connections on this machine: bytes between two of them, both ways; either end may finish sending first."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self

_ADDRESS = "127.0.0.1"
BACKLOG = 512
CHUNK = 65_536
LINGER = 2.0
"""Seconds that the client may take to close after its answer has ended."""
_ABRUPT = struct.pack("ii", 1, 0)


def bound(port: int = 0) -> socket.socket:
    """A socket with this port of this machine, or one that is free; it does not listen yet. Raises OSError."""
    # asyncio sets TCP_NODELAY on accepted connections only if the protocol is named: without it, 40 ms are lost.
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((_ADDRESS, port))
    except OSError:
        made.close()
        raise
    return made


def accept(
    listener: socket.socket, serve: Callable[[socket.socket], Coroutine[Any, Any, None]], tasks: set[asyncio.Task[None]]
) -> None:
    """Accept a connection, and serve it in one of the `tasks`, which removes itself at its end."""
    try:
        connection, _ = listener.accept()
    except OSError:  # the client disconnected before its turn
        return
    connection.setblocking(False)
    task = asyncio.get_running_loop().create_task(serve(connection))
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    # This also covers a task that was cancelled before its first line ran.
    task.add_done_callback(lambda _: connection.close())


def end_abruptly(connection: socket.socket) -> None:
    """Let it end with a RST when it is closed, so that the other end learns that something broke."""
    with contextlib.suppress(OSError):  # it has ended already
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABRUPT)


class Stream:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, port: int) -> Self:
        """Connect. Raises OSError if nothing listens there."""
        return cls(*await asyncio.open_connection(_ADDRESS, port))

    async def read(self) -> bytes:
        """The bytes that have come; empty at the end. Raises OSError."""
        return await self.reader.read(CHUNK)

    async def send(self, data: bytes) -> None:
        """Write; if the other end is slow, this waits. Raises OSError."""
        self.writer.write(data)
        await self.writer.drain()

    async def end(self) -> None:
        """End the writing; reading goes on."""
        if self.writer.can_write_eof():
            self.writer.write_eof()

    async def finish(self, last: bytes = b"") -> None:
        """Send the last bytes, and wait a while until the other end has closed.

        What it still sends is read: unread bytes would turn the end into a RST, and the last bytes would be lost.
        """
        with contextlib.suppress(OSError):  # includes TimeoutError
            self.writer.write(last)
            self.writer.write_eof()
            async with asyncio.timeout(LINGER):
                await self.drain_input()
        self.drop()

    async def drain_input(self) -> None:
        """Read and drop everything until the other end closes."""
        with contextlib.suppress(OSError):
            while await self.read():
                pass

    async def close(self) -> None:
        """Close regularly: what was written still arrives."""
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    def drop(self) -> None:
        """Close at once."""
        self.writer.transport.abort()

    def reset(self) -> None:
        """Close at once with a RST, so that the other end learns that something broke."""
        end_abruptly(self.writer.get_extra_info("socket"))
        self.drop()


async def pump(source: Stream, target: Stream) -> None:
    """Copy until the source ends; a slow target slows the source down. Raises OSError."""
    while chunk := await source.read():
        await target.send(chunk)
    await target.end()


Download = Callable[[Stream, Stream], Awaitable[None]]
"""Passes the site's answer to the client and ends the writing there. On OSError the client gets a RST."""


async def join(client: Stream, site: Stream, download: Download = pump) -> None:
    """Pass everything on in both directions until both ends are done; each may finish sending first."""
    upwards = asyncio.create_task(_upload(client, site))
    try:
        if await _pass_answer_on(download, site, client):
            await asyncio.wait([upwards], timeout=LINGER)
    finally:
        upwards.cancel()
        await asyncio.wait([upwards])


async def _pass_answer_on(download: Download, site: Stream, client: Stream) -> bool:
    """Pass the answer on; return False if one of the two has broken the connection, which the other end then learns."""
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
        # The site answers without reading on: its answer is lost unless the rest of the request is read.
        await client.drain_input()
