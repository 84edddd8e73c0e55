"""The gate: what it lets through, what it refuses, what it holds."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket

import httpx2
import pytest

from harness.faults.gate import Gate, Hold, Site
from harness.faults.stream import Stream
from tests.unit.faults.conftest import FakeSite, ManualClock, refuses, site, talk, until

BIG = os.urandom(10_000_000)
CLOCK = ManualClock()


def gate(fake: FakeSite, hold: Hold | None = None, clock: ManualClock = CLOCK) -> Gate:
    made = Gate(Site("shop.local", fake.port), clock, hold)
    made.listen()
    return made


def nothing(_urls: tuple[str, ...]) -> float | None:
    return None


@pytest.mark.parametrize("hold", [None, nothing])
def test_ten_megabytes_pass_unchanged_in_both_directions(hold: Hold | None) -> None:
    async def main() -> None:
        async with site() as fake, httpx2.AsyncClient(trust_env=False, timeout=30) as http:
            between = gate(fake, hold)
            url = f"http://127.0.0.1:{between.port}/upload"
            assert (await http.post(url, content=BIG)).text == hashlib.sha256(BIG).hexdigest()
            fake.answer = BIG
            assert (await http.get(url)).content == BIG
            await between.close()

    asyncio.run(main())


@pytest.mark.parametrize(("hold", "connections"), [(None, 1), (nothing, 3)])
def test_clients_that_keep_connections(hold: Hold | None, connections: int) -> None:
    async def main() -> None:
        async with site() as fake, httpx2.AsyncClient(trust_env=False) as http:
            between = gate(fake, hold)
            for number in range(3):
                answer = await http.post(f"http://127.0.0.1:{between.port}/{number}", content=b"x")
                assert answer.text == hashlib.sha256(b"x").hexdigest()
            assert fake.connections == connections
            assert len(fake.heads) == 3
            await between.close()

    asyncio.run(main())


def test_only_the_connection_headers_of_a_request_change() -> None:
    async def main() -> None:
        async with site() as fake:
            between = gate(fake, nothing)
            head = b"POST /a?b=c HTTP/1.1\r\nHost: shop.local\r\nConnection: keep-alive\r\nContent-Length: 2"
            await talk(between.port, head + b"\r\n\r\nhi")
            kept = b"POST /a?b=c HTTP/1.1\r\nHost: shop.local\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
            assert fake.heads == [kept]
            await between.close()

    asyncio.run(main())


def test_an_upgrade_passes_untouched_both_ways() -> None:
    async def main() -> None:
        async with site() as fake:
            between = gate(fake, nothing)
            reader, writer = await asyncio.open_connection("127.0.0.1", between.port)
            head = b"GET /ws HTTP/1.1\r\nHost: shop.local\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
            writer.write(head)
            assert b"101" in await reader.readuntil(b"\r\n\r\n")
            for word in (b"one", b"two"):
                writer.write(word)
                assert await reader.readexactly(3) == word.upper()
            assert fake.heads == [head]
            writer.close()
            await between.close()

    asyncio.run(main())


@pytest.mark.parametrize("raw", [b"\x16\x03\x01 hello", b"EHLO\r\n\r\n", b"x" * 70_000])
def test_what_is_not_http_passes_as_it_is(raw: bytes) -> None:
    async def main() -> None:
        received = bytearray()

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while chunk := await reader.read(1000):
                received.extend(chunk)
            writer.write(b"bye")  # after the other side has finished: half-closed
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        between = gate(FakeSite(server.sockets[0].getsockname()[1]), nothing)
        reader, writer = await asyncio.open_connection("127.0.0.1", between.port)
        writer.write(raw)
        writer.write_eof()
        assert await reader.read() == b"bye"
        assert bytes(received) == raw
        writer.close()
        await between.close()
        server.close()

    asyncio.run(main())


def test_a_slow_client_slows_the_site_down() -> None:
    async def main() -> None:
        sent = 0

        async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            try:
                while True:
                    writer.write(b"x" * 100_000)
                    await writer.drain()
                    sent += 100_000
            except ConnectionError:
                sent = -1
            finally:
                writer.close()

        server = await asyncio.start_server(flood, "127.0.0.1", 0)
        between = gate(FakeSite(server.sockets[0].getsockname()[1]))
        reader, writer = await asyncio.open_connection("127.0.0.1", between.port, limit=1000)
        await reader.read(1000)
        before = -1
        while sent != before:
            before = sent
            await asyncio.sleep(0.3)
        assert 0 < sent < 100_000_000
        writer.transport.abort()
        await until(lambda: sent == -1)  # the client's end reaches the site
        await between.close()
        server.close()

    asyncio.run(main())


def test_an_early_answer_reaches_a_client_that_still_sends() -> None:
    async def main() -> None:
        async def reject(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            writer.write_eof()
            await asyncio.sleep(0.1)
            writer.close()

        server = await asyncio.start_server(reject, "127.0.0.1", 0)
        between = gate(FakeSite(server.sockets[0].getsockname()[1]), nothing)
        request = b"POST / HTTP/1.1\r\nHost: shop.local\r\nContent-Length: 10000000\r\n\r\n" + BIG
        assert (await talk(between.port, request)).startswith(b"HTTP/1.1 413")
        await between.close()
        server.close()

    asyncio.run(main())


def test_a_connection_that_the_site_breaks_off_is_broken_off() -> None:
    async def main() -> None:
        async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            await asyncio.sleep(0.1)
            Stream(reader, writer).reset()

        server = await asyncio.start_server(break_off, "127.0.0.1", 0)
        between = gate(FakeSite(server.sockets[0].getsockname()[1]), nothing)
        with pytest.raises(ConnectionResetError):
            await talk(between.port, b"GET / HTTP/1.1\r\n\r\n")
        await between.close()
        server.close()

    asyncio.run(main())


def test_a_site_that_is_down_resets_the_connection() -> None:
    async def main() -> None:
        async with site() as fake:
            down = FakeSite(fake.port)
        between = gate(down)
        with pytest.raises(ConnectionResetError):
            await talk(between.port, b"GET / HTTP/1.1\r\n\r\n")
        await between.close()

    asyncio.run(main())


def test_refusing_is_real_and_the_port_stays() -> None:
    async def main() -> None:
        async with site() as fake:
            between = gate(fake)
            port = between.port
            for _ in range(3):
                assert not await refuses(port)
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET / HTTP/1.1\r\n\r\n")
                await reader.readexactly(10)
                between.refuse()
                assert await refuses(port)
                await read_to_the_end(reader)
                writer.close()
                between.listen()
                between.listen()
            assert (between.port, await refuses(port)) == (port, False)
            await between.close()
            assert await refuses(port)
            with socket.create_server(("127.0.0.1", port)):
                pass

    asyncio.run(main())


async def read_to_the_end(reader: asyncio.StreamReader) -> None:
    try:
        await reader.read()
    except ConnectionResetError:
        return


def test_a_held_request_is_dropped_without_a_byte() -> None:
    async def main() -> None:
        clock = ManualClock()
        async with site() as fake:
            seen: list[tuple[str, ...]] = []

            def hold(urls: tuple[str, ...]) -> float | None:
                seen.append(urls)
                return 30

            between = gate(fake, hold, clock)
            body = b"POST /pay?x=1 HTTP/1.1\r\nHost: shop.local:81\r\nContent-Length: 10000000\r\n\r\n" + BIG
            asking = asyncio.create_task(talk(between.port, body))
            await clock.sleeper()
            await clock.advance(29)
            assert not asking.done()
            await clock.advance(2)
            assert await asking == b""
            assert seen == [("http://shop.local/pay?x=1", "http://shop.local:81/pay?x=1")]
            assert fake.heads == []
            await between.close()

    asyncio.run(main())


def test_closing_ends_held_requests_and_forwarded_ones() -> None:
    async def main() -> None:
        clock = ManualClock()
        async with site() as fake:
            between = gate(fake, lambda _: 3600.0, clock)
            held = asyncio.create_task(talk(between.port, b"GET / HTTP/1.1\r\n\r\n"))
            await clock.sleeper()
            silent_reader, silent = await asyncio.open_connection("127.0.0.1", between.port)
            await between.close()
            assert await held == b""
            await read_to_the_end(silent_reader)
            silent.close()

    asyncio.run(main())
