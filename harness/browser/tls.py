"""https for hosts that speak plain http: TLS ends on a loopback port, and the bytes go on to the host's own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from harness.browser.certificate import ThrowAwayKey
from harness.browser.relay import PlainEnd, TlsEnd, relay, reset, say_plainly
from harness.spec.faults.network import TlsProblem

ADDRESS = "127.0.0.1"
BACKLOG = 512
_REFUSED = "net::ERR_CONNECTION_REFUSED"
_RESET = ("ERR_CONNECTION_RESET", "ERR_CONNECTION_CLOSED")

Report = Callable[[str, str], None]
"""(URL, the browser's word for the error) of a request that failed."""
Problem = Callable[[str], TlsProblem | None]
"""Host -> what is wrong with the TLS of the connection that is now made to it."""


class TlsFront:
    """One listener for each host, so that it is known where to connect before anything is answered.

    A host that is down is found out first: then the browser's connection is reset. All on the loop's thread.
    """

    def __init__(
        self, hosts: Mapping[str, int], key: ThrowAwayKey, temp: Path, problem: Problem = lambda _: None
    ) -> None:
        self.hosts = dict(hosts)
        """Host -> its plain port."""
        self._key = key
        self._temp = temp
        self._problem = problem
        self._down: set[str] = set()
        self._connections: set[asyncio.Task[None]] = set()
        self._listeners = {host: _listener() for host in hosts}
        self.ports: dict[str, int] = {host: each.getsockname()[1] for host, each in self._listeners.items()}
        """Host -> its https port."""
        for host, listener in self._listeners.items():
            asyncio.get_running_loop().add_reader(listener, self._accept, host, listener)

    @property
    def spki(self) -> str:
        """The public key to accept, see ThrowAwayKey."""
        return self._key.spki

    @cached_property
    def _context(self) -> ssl.SSLContext:
        """Made for the first connection: most tasks have none."""
        return self._key.context(self.hosts, self._temp)

    @cached_property
    def _unknown(self) -> ssl.SSLContext:
        """Of a key that nobody was told to accept."""
        return ThrowAwayKey.new().context(self.hosts, self._temp)

    def naming(self, report: Report) -> Report:
        """A `report` that learns of a host that refuses as such; the browser sees no more than a reset."""

        def tell(url: str, error: str) -> None:
            refused = any(name in error for name in _RESET) and self._is_down(url)
            report(url, _REFUSED if refused else error)

        return tell

    def _is_down(self, url: str) -> bool:
        parts = urlsplit(url)
        return parts.scheme in ("https", "wss") and (parts.hostname or "").lower() in self._down

    def shut(self) -> None:
        """Listen no more, and end what is connected as soon as the loop runs on."""
        for listener in self._listeners.values():
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()
        self._listeners.clear()
        for task in self._connections:
            task.cancel()

    async def close(self) -> None:
        """End everything; nothing is left afterwards."""
        self.shut()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, host: str, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:  # the browser was gone before its turn
            return
        connection.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._serve(host, connection))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        # Also for a task that was cancelled before its first line ran.
        task.add_done_callback(lambda _: connection.close())

    async def _serve(self, host: str, connection: socket.socket) -> None:
        try:
            site = PlainEnd(*await asyncio.open_connection(ADDRESS, self.hosts[host]))
        except OSError:
            self._down.add(host)
            reset(connection)
            return
        self._down.discard(host)
        try:
            with contextlib.suppress(OSError):  # one of the two has gone; the other was told
                await self._connect(host, connection, site)
        finally:
            site.drop()

    async def _connect(self, host: str, connection: socket.socket, site: PlainEnd) -> None:
        problem = self._problem(host)
        streams = await asyncio.open_connection(sock=connection)
        if problem == "protocol":
            await say_plainly(PlainEnd(*streams))
            return
        client = TlsEnd(*streams, self._unknown if problem else self._context)
        try:
            await relay(client, site)
            await client.close()
        finally:
            client.drop()


def _listener() -> socket.socket:
    # Only where the protocol is named, asyncio sets TCP_NODELAY on what is accepted: without it, 40 ms are lost.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setblocking(False)
        listener.bind((ADDRESS, 0))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
