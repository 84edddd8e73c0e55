"""Bytes between a TLS connection and a plain one, both ways; each end may finish sending before the other does."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct

CHUNK = 65_536
LINGER = 2.0
"""Seconds that the client may take to close after the site has ended its answer."""
_PLAIN_ANSWER = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
_ABRUPT = struct.pack("ii", 1, 0)


def reset(connection: socket.socket) -> None:
    """Close with a RST: the other end learns that something broke."""
    with contextlib.suppress(OSError):  # it has ended already
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABRUPT)
    connection.close()


class PlainEnd:
    """A connection without TLS."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """What has come; empty at the end. Raises OSError."""
        return await self._reader.read(CHUNK)

    async def write(self, data: bytes) -> None:
        """Raises OSError. Waits while the other end takes nothing."""
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        """Nothing more will be written; reading goes on."""
        self._writer.write_eof()

    @property
    def broken(self) -> bool:
        """Whether the other end has broken off."""
        return self._reader.exception() is not None

    async def close(self) -> None:
        """End it in order: what was written still arrives."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def drop(self) -> None:
        """Close at once."""
        self._writer.transport.abort()

    def reset(self) -> None:
        """Close at once with a RST."""
        with contextlib.suppress(OSError):  # it has ended already
            self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABRUPT)
        self.drop()


class TlsEnd(PlainEnd):
    """A connection whose other end is a TLS client. Unlike asyncio's own, its two directions end separately."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext) -> None:
        super().__init__(reader, writer)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    async def shake_hands(self) -> None:
        """Before all else. Raises OSError (ssl.SSLError is one)."""
        try:
            while not self._shaken():
                await self._flush()
                if not await self._feed():
                    raise ConnectionResetError("the client left before it said anything")
        finally:
            await self._flush()  # also the alert that tells the client what is wrong

    def _shaken(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    async def read(self) -> bytes:
        while True:
            try:
                return self._tls.read(CHUNK)
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._feed():  # browsers close without TLS's own goodbye
                    return b""
            except ssl.SSLZeroReturnError:
                return b""

    async def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]
        await self._flush()

    async def end(self) -> None:
        with contextlib.suppress(ssl.SSLError):  # it wants to read the answer to its goodbye; `read` does that
            self._tls.unwrap()
        await self._flush()
        await super().end()

    async def _feed(self) -> bool:
        """Whether more came."""
        data = await super().read()
        self._incoming.write(data)
        return bool(data)

    async def _flush(self) -> None:
        if self._outgoing.pending:
            await super().write(self._outgoing.read())


async def say_plainly(client: PlainEnd) -> None:
    """Answer a client that greets in TLS as a server does that knows none. Raises OSError."""
    try:
        await client.read()
        await client.write(_PLAIN_ANSWER)
        await client.end()
        async with asyncio.timeout(LINGER):
            while await client.read():  # unread bytes would turn the end into a RST, and the answer would be lost
                pass
    finally:
        client.drop()


async def relay(client: TlsEnd, site: PlainEnd) -> None:
    """Pass everything on until both ends are done. Raises OSError."""
    await client.shake_hands()
    upwards = asyncio.create_task(_upload(client, site))
    try:
        if await _download(site, client):
            await asyncio.wait([upwards], timeout=LINGER)
    finally:
        upwards.cancel()
        await asyncio.wait([upwards])


async def _download(site: PlainEnd, client: TlsEnd) -> bool:
    """False when one of the two has broken the connection off: the client learns it as well."""
    try:
        await _pump(site, client)
    except OSError:
        client.reset()
        return False
    return True


async def _upload(client: TlsEnd, site: PlainEnd) -> None:
    try:
        await _pump(client, site)
    except OSError:
        if client.broken:
            site.drop()
        # The site answers without reading on: its answer is lost when the rest of the request is not taken.
        with contextlib.suppress(OSError):
            while await client.read():
                pass


async def _pump(source: PlainEnd, target: PlainEnd) -> None:
    """Copy until the source ends; a slow target slows the source down. Raises OSError."""
    while data := await source.read():
        await target.write(data)
    await target.end()
