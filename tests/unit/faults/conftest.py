"""A site on a loopback port, and a clock that is moved by hand."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

START = datetime(2025, 11, 16, 9, tzinfo=UTC)


@dataclass
class ManualClock:
    """Sleepers wake when `advance` reaches their time."""

    time: float = 0.0
    sleepers: list[tuple[float, asyncio.Future[None]]] = field(default_factory=list)

    def now(self) -> float:
        return self.time

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.time)

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sleepers.append((self.time + seconds, future))
        await future

    async def advance(self, seconds: float) -> None:
        self.time += seconds
        for at, future in self.sleepers:
            if at <= self.time and not future.done():
                future.set_result(None)
        for _ in range(10):
            await asyncio.sleep(0)

    async def sleeper(self, count: int = 1) -> None:
        """Until so many have gone to sleep."""
        await until(lambda: len(self.sleepers) >= count)


async def until(check: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not check():
            await asyncio.sleep(0.01)


@dataclass
class FakeSite:
    """Keeps every request's head and body; answers with the body's digest, or with `answer`."""

    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    answer: bytes | None = None
    connections: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._request(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        lower = head.lower()
        if b"upgrade:" in lower:
            writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
            while chunk := await reader.read(1000):
                writer.write(chunk.upper())
            return False
        length = next((int(line[15:]) for line in lower.split(b"\r\n") if line.startswith(b"content-length:")), 0)
        body = await reader.readexactly(length)
        answer = self.answer if self.answer is not None else hashlib.sha256(body).hexdigest().encode()
        closing = b"connection: close" in lower
        extra = b"Connection: close\r\n" if closing else b""
        writer.write(b"HTTP/1.1 200 OK\r\n" + extra + b"Content-Length: %d\r\n\r\n" % len(answer) + answer)
        await writer.drain()
        return not closing


@asynccontextmanager
async def site() -> AsyncIterator[FakeSite]:
    fake = FakeSite()
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    fake.port = server.sockets[0].getsockname()[1]
    try:
        yield fake
    finally:
        server.close()


async def talk(port: int, request: bytes) -> bytes:
    """Send, and read until the other end closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await reader.read()
    finally:
        writer.close()


async def refuses(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return True
    writer.close()
    return False
