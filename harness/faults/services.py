"""Faults done to the sites' processes."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from typing import Protocol

from harness.model.ports import Injection, Undo
from harness.recovery.failure import Failed, Failure
from harness.spec.faults import PortTaken, ServiceFault, ServiceRestarted


class Sites(Protocol):
    """The services of a run. Both raise Failed for a name that is not known."""

    def ports(self, name: str) -> tuple[int, ...]:
        """The ports that it listens on."""
        ...

    async def end(self, name: str, *, orderly: bool) -> None:
        """End its processes; whoever owns them starts it again. Raises Failed where that is not ours to do."""
        ...


class SiteHands:
    """Faults of the run's services; every task that uses the site meets them."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites

    async def strike(self, strike: Injection) -> Undo | None:
        """Do it. Raises Failed."""
        fault = strike.fault
        assert isinstance(fault, ServiceFault)
        ports = self._sites.ports(fault.service)
        await self._sites.end(fault.service, orderly=isinstance(fault, ServiceRestarted))
        strike.met()
        if not isinstance(fault, PortTaken):
            return None
        occupier = await PortOccupier.at(ports)
        return occupier.leave


# A program that has nothing to do with the site listens on its ports.

ADDRESS = "127.0.0.1"
GREETING = b"HTTP/1.1 \x00 a stranger is listening here\r\n\r\n"
"""What it says to everybody. The NUL makes it no HTTP; mere words would be shown as a page (HTTP/0.9)."""


class PortOccupier:
    """Must run on the loop's thread; `leave` must follow."""

    def __init__(self, servers: list[asyncio.Server]) -> None:
        self._servers = servers

    @classmethod
    async def at(cls, ports: tuple[int, ...]) -> PortOccupier:
        """Listen there, or nowhere. Raises Failed when a port is taken already."""
        occupier = cls([])
        try:
            for port in ports:
                await occupier._take(port)
        except BaseException as error:
            await occupier.leave()
            if not isinstance(error, OSError):
                raise
            why = "somebody else was faster" if error.errno == errno.EADDRINUSE else str(error)
            raise Failed(Failure("INTERNAL_ERROR", f"port_taken: a port could not be taken: {why}")) from error
        return occupier

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
