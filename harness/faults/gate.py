"""A gate between the browser and one host: its port can be closed and opened, its requests held back."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass

from harness.faults.request import END, MAX_HEAD, RequestHead
from harness.faults.stream import CHUNK, LINGER, Stream, join
from harness.resilience import Clock

ADDRESS = "127.0.0.1"
BACKLOG = 512

Hold = Callable[[tuple[str, ...]], float | None]
"""The URLs a request goes by -> seconds to hold it, None to let it pass."""


@dataclass(frozen=True, slots=True)
class Site:
    """What a gate stands before: the host's name and its real port."""

    host: str
    port: int


class Gate:
    """Listens on a port of its own, which stays the same. With `hold`, every request is looked at."""

    def __init__(self, site: Site, clock: Clock, hold: Hold | None = None) -> None:
        self._site = site
        self._clock = clock
        self._hold = hold
        self._socket: socket.socket | None = _bind(0)
        self._open = False
        self._connections: set[asyncio.Task[None]] = set()
        self.port: int = self._socket.getsockname()[1]

    def listen(self) -> None:
        """Open the port. Must run on the loop's thread, as must `refuse` and `close`."""
        if self._open:
            return
        self._socket = self._socket or _bind(self.port)
        self._socket.listen(BACKLOG)
        asyncio.get_running_loop().add_reader(self._socket, self._accept, self._socket)
        self._open = True

    def refuse(self) -> None:
        """Close the port, so that the kernel itself refuses; connections that stand are dropped."""
        self._shut()
        if sys.platform == "linux":
            # Bound and not listening, the port refuses, and nobody else can be given it meanwhile. Other kernels
            # may leave a connection to such a port without an answer.
            self._socket = _bind(self.port)
        for task in self._connections:
            task.cancel()

    async def close(self) -> None:
        """End everything."""
        self._shut()
        tasks = tuple(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _shut(self) -> None:
        if self._socket is None:
            return
        if self._open:
            asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket, self._open = None, False

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:  # the client was gone before its turn
            return
        connection.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._serve(connection))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        # Also for a task that was cancelled before its first line ran.
        task.add_done_callback(lambda _: connection.close())

    async def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            client = await Stream.of(connection)
            try:
                await (self._pass(client, b"") if self._hold is None else self._examine(client, self._hold))
                await client.close()
            finally:
                client.drop()

    async def _examine(self, client: Stream, hold: Hold) -> None:
        """Read one request's head; hold the request, or pass it on."""
        raw = await _read_head(client)
        head, end, rest = raw.partition(END)
        request = RequestHead.parse(head) if end else None
        if request is None:
            await self._pass(client, raw)
            return
        seconds = hold(request.urls(self._site.host))
        if seconds is not None:
            await self._keep_waiting(client, seconds)
        else:
            await self._pass(client, raw if request.upgrade else request.closing() + rest)

    async def _keep_waiting(self, client: Stream, seconds: float) -> None:
        """Until the time is over, or the client has given up."""
        sleep = asyncio.ensure_future(self._clock.sleep(seconds))
        gone = asyncio.ensure_future(client.drain_input())
        try:
            await asyncio.wait([sleep, gone], return_when=asyncio.FIRST_COMPLETED)
            if not gone.done():
                # What the client still sends is read on for a while: it must see an end without a byte, not a RST.
                client.writer.write_eof()
                await asyncio.wait([gone], timeout=LINGER)
        finally:
            sleep.cancel()
            gone.cancel()

    async def _pass(self, client: Stream, first: bytes) -> None:
        try:
            site = await Stream.to(ADDRESS, self._site.port)
        except OSError:
            client.reset()
            return
        try:
            site.writer.write(first)
            await join(client, site)
        finally:
            site.drop()


def _bind(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setblocking(False)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((ADDRESS, port))
    except OSError:
        bound.close()
        raise
    return bound


async def _read_head(client: Stream) -> bytes:
    """Up to and with the empty line, and what came with it; less when it is not HTTP, or does not end."""
    raw = b""
    with contextlib.suppress(OSError):
        while END not in raw and len(raw) < MAX_HEAD and (not raw or raw[:1].isalpha()):
            chunk = await client.reader.read(CHUNK)
            if not chunk:
                break
            raw += chunk
    return raw
