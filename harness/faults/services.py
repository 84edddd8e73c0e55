"""Injects faults into the processes of the sites."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Awaitable, Callable

from harness.model.ports import Injection, Undo
from harness.recovery.failure import Failed, Failure
from harness.spec.faults import PortTaken, ServiceFault, ServiceRestarted


class SiteTarget:
    """Injects faults into the run's services; every task that uses the site meets them."""

    def __init__(self, ports: Callable[[str], tuple[int, ...]], end: Callable[..., Awaitable[None]]) -> None:
        """`ports` returns those of a service; `end` ends it, and its owner restarts it. Both raise Failed."""
        self._ports, self._end = ports, end

    async def strike(self, strike: Injection) -> Undo | None:
        """Inject the fault. Raises Failed."""
        fault = strike.fault
        assert isinstance(fault, ServiceFault)
        ports = self._ports(fault.service)
        await self._end(fault.service, orderly=isinstance(fault, ServiceRestarted))
        strike.met()
        if not isinstance(fault, PortTaken):
            return None
        occupier = await PortOccupier.listen_on(ports)
        return occupier.free_ports


_ADDRESS = "127.0.0.1"
_GREETING = b"HTTP/1.1 \x00 a stranger is listening here\r\n\r\n"
"""The answer to every client. The NUL makes it invalid HTTP; mere words would be shown as a page (HTTP/0.9)."""


class PortOccupier:
    """Occupies the ports of a service. It must run on the loop's thread; `free_ports` must follow."""

    def __init__(self, servers: list[asyncio.Server]) -> None:
        self._servers = servers

    @classmethod
    async def listen_on(cls, ports: tuple[int, ...]) -> PortOccupier:
        """Listen on these ports, or on none. Raises Failed if a port is taken already."""
        occupier = cls([])
        try:
            for port in ports:
                await occupier._take(port)
        except BaseException as error:
            await occupier.free_ports()
            if not isinstance(error, OSError):
                raise
            why = "another program took it first" if error.errno == errno.EADDRINUSE else str(error)
            raise Failed(Failure("INTERNAL_ERROR", f"port_taken: a port could not be taken: {why}")) from error
        return occupier

    async def _take(self, port: int) -> None:
        """Keep the server before it listens: one that listens at once would be lost if this is cancelled."""
        server = await asyncio.start_server(_greet, _ADDRESS, port, reuse_address=True, start_serving=False)
        self._servers.append(server)
        await server.start_serving()

    async def free_ports(self) -> None:
        """Free the ports."""
        for server in self._servers:
            server.close()
        self._servers = []


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send the greeting, read what the client sends, and close."""
    with contextlib.suppress(OSError):
        writer.write(_GREETING)
        await writer.drain()
        await reader.read(65_536)
    writer.close()
