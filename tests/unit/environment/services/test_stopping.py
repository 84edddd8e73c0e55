"""Stopping while others still ask for it; and a stranger whose health answer would break who reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from harness.environment.health import Health, HealthAnswer, HealthEndpoint, client, probe
from harness.environment.services import Services
from harness.recovery.failure import Failed
from tests.unit.environment.services.conftest import eventually, programs, settings

Make = Callable[..., Services]


@pytest.mark.thorough
async def test_what_is_being_stopped_is_not_started_again_by_a_task_that_misses_it(make: Make, port: int) -> None:
    services = make(settings(port, "site", "stubborn", health_interval=0))
    await services.start()
    stopping = asyncio.ensure_future(services.stop())
    said = []
    while not stopping.done():
        try:
            await services.recover("site")
        except Failed as failed:
            said.append(failed.failure.message)
        await asyncio.sleep(0.01)
    await stopping
    with pytest.raises(Failed, match="is being stopped"):
        await services.recover("site")
    assert set(said) == {"service `site` is being stopped"}
    assert eventually(lambda: not programs(port), 3), "it was started again, and nobody ends it"
    await services.start()
    await services.recover("site")
    await services.stop()


def test_an_answer_that_is_nested_without_end_is_a_strangers() -> None:
    body = b"[" * 200_000

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    async def main() -> HealthAnswer:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        endpoint = HealthEndpoint.of("site", settings(port), {"shop.local": port})
        async with server, client() as http:
            return await probe(http, endpoint, 10)

    assert asyncio.run(main()) == HealthAnswer(Health.OTHER, "its health answer is not JSON")


@pytest.mark.parametrize("abort", [True, False])
def test_what_breaks_connections_off_is_dying_and_is_given_time(make: Make, port: int, abort: bool) -> None:
    """A program whose process ends while it is asked: its port is free in a moment."""
    asked = 0

    async def dying(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        await reader.readuntil(b"\r\n\r\n")
        asked += 1
        writer.transport.abort() if abort else writer.close()
        if asked == 3:
            server.close()

    async def main() -> None:
        nonlocal server
        server = await asyncio.start_server(dying, "127.0.0.1", port)
        services = make(settings(port))
        await services.start()
        assert asked >= 3
        assert services.started == ("site",)
        await services.stop()

    server: asyncio.Server
    asyncio.run(main())


def test_what_never_does_anything_else_is_told_of(make: Make, port: int) -> None:
    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()

    async def main() -> None:
        async with await asyncio.start_server(closing, "127.0.0.1", port):
            with pytest.raises(Failed, match=r"is taken by pid .*: it does not answer in HTTP: "):
                await make(settings(port)).start()

    asyncio.run(main())


def test_what_does_not_speak_http_is_a_strangers_at_once() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
        await writer.drain()
        writer.close()

    async def main() -> HealthAnswer:
        async with await asyncio.start_server(greet, "127.0.0.1", 0) as server, client() as http:
            port = server.sockets[0].getsockname()[1]
            return await probe(http, HealthEndpoint.of("site", settings(port), {"shop.local": port}), 10)

    assert asyncio.run(main()).health is Health.OTHER
