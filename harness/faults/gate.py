"""A gate between the browser and one host: its port can be closed and opened, its requests struck."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass

from harness.faults.answers import ADDRESS, Exchange, answer
from harness.faults.head import END
from harness.faults.request import RequestHead
from harness.faults.resends import FRESH, Resends
from harness.faults.stream import Stream
from harness.resilience import Clock
from harness.spec.faults import SocketFault

BACKLOG = 512

Struck = Callable[[tuple[str, ...]], SocketFault | None]
"""The URLs a request goes by -> the fault that strikes it, None to let it pass."""


@dataclass(frozen=True, slots=True)
class Site:
    """What a gate stands before: the host's name and its real port."""

    host: str
    port: int


class Gate:
    """Listens on a port of its own, which stays the same. One that `looks` reads every request's head."""

    def __init__(self, site: Site, clock: Clock, *, looks: bool = False) -> None:
        self._site = site
        self._clock = clock
        self._looks = looks
        self.struck: Struck = lambda _: None
        self._socket: socket.socket | None = _bind(0)
        self._open = False
        self._ended = False
        self._connections: set[asyncio.Task[None]] = set()
        self._unused: set[asyncio.Task[None]] = set()
        self._resends = Resends()
        self.port: int = self._socket.getsockname()[1]

    def listen(self) -> None:
        """Open the port, unless the gate was closed for good. All of a gate must run on the loop's thread."""
        if self._open or self._ended:
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

    def drop_unused(self) -> None:
        """End the connections on which no request has come yet: the next request comes on a new one."""
        for task in self._unused:
            task.cancel()

    def failed(self, url: str) -> None:
        """The browser has learnt that a request to this host failed."""
        self._resends.failed(url)

    async def close(self) -> None:
        """End everything, for good."""
        self._ended = True
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
        task = asyncio.get_running_loop().create_task(self._serve(connection, self._clock.now()))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        # Also for a task that was cancelled before its first line ran.
        task.add_done_callback(lambda _: connection.close())

    async def _serve(self, connection: socket.socket, since: float) -> None:
        with contextlib.suppress(OSError):
            client = await Stream.of(connection)
            try:
                if self._looks:
                    await self._examine(client, since)
                else:
                    await answer(None, Exchange(client, self._site.port, b""), self._clock)
            finally:
                client.drop()

    async def _examine(self, client: Stream, since: float) -> None:
        """Read the head of the request on a connection accepted at `since`; strike the request, or pass it on."""
        raw = await self._first(client)
        head, end, rest = raw.partition(END)
        request = RequestHead.parse(head) if end else None
        if request is None:
            await answer(None, Exchange(client, self._site.port, raw), self._clock)
            return
        urls, stood = request.urls(self._site.host), self._clock.now() - since
        fault = self._resends.again(head, self._clock.now()) or self.struck(urls)

        def breaks() -> None:
            if fault is not None and stood >= FRESH:
                self._resends.remember(head, urls, fault, self._clock.now())

        first = raw if request.upgrade else request.closing() + rest
        await answer(fault, Exchange(client, self._site.port, first, request, breaks), self._clock)

    async def _first(self, client: Stream) -> bytes:
        task = asyncio.current_task()
        assert task is not None
        self._unused.add(task)
        try:
            return await client.read_head()
        finally:
            self._unused.discard(task)


def _bind(port: int) -> socket.socket:
    # Only where the protocol is named, asyncio sets TCP_NODELAY on what is accepted: without it, 40 ms are lost.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setblocking(False)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((ADDRESS, port))
    except OSError:
        bound.close()
        raise
    return bound
