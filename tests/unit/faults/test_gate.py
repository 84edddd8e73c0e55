"""The gate: what it lets through, and what it refuses. What struck requests get is in test_answers."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket

import httpx2
import pytest

from harness.faults.network import FaultGate, Site, Struck
from harness.resilience.streams import Stream
from harness.spec.faults import Empty, Hang, SocketFault
from tests.unit.faults.conftest import FakeSite, ManualClock, refuses, site, talk, until

BIG = os.urandom(10_000_000)
CLOCK = ManualClock()


def gate(fake: FakeSite, struck: Struck | None = None, clock: ManualClock = CLOCK, *, looks: bool = True) -> FaultGate:
    made = FaultGate(Site("shop.local", fake.port), clock, looks=looks)
    if struck is not None:
        made.struck = struck
    made.listen()
    return made


@pytest.mark.parametrize("looks", [False, True])
async def test_ten_megabytes_pass_unchanged_in_both_directions(looks: bool) -> None:
    async with site() as fake, httpx2.AsyncClient(trust_env=False, timeout=30) as http:
        between = gate(fake, looks=looks)
        url = f"http://127.0.0.1:{between.port}/upload"
        assert (await http.post(url, content=BIG)).text == hashlib.sha256(BIG).hexdigest()
        fake.answer = BIG
        assert (await http.get(url)).content == BIG
        await between.close()


@pytest.mark.parametrize(("looks", "connections"), [(False, 1), (True, 3)])
async def test_clients_that_keep_connections(looks: bool, connections: int) -> None:
    async with site() as fake, httpx2.AsyncClient(trust_env=False) as http:
        between = gate(fake, looks=looks)
        for number in range(3):
            answer = await http.post(f"http://127.0.0.1:{between.port}/{number}", content=b"x")
            assert answer.text == hashlib.sha256(b"x").hexdigest()
        assert fake.connections == connections
        assert len(fake.heads) == 3
        await between.close()


async def test_only_the_connection_headers_of_a_request_change() -> None:
    async with site() as fake:
        between = gate(fake)
        head = b"POST /a?b=c HTTP/1.1\r\nHost: shop.local\r\nConnection: keep-alive\r\nContent-Length: 2"
        await talk(between.port, head + b"\r\n\r\nhi")
        kept = b"POST /a?b=c HTTP/1.1\r\nHost: shop.local\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
        assert fake.heads == [kept]
        await between.close()


async def test_a_client_learns_that_its_connection_ends_also_when_the_site_keeps_it() -> None:
    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\nhi")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(keep, "127.0.0.1", 0)
    between = gate(FakeSite(server.sockets[0].getsockname()[1]))
    reader, writer = await asyncio.open_connection("127.0.0.1", between.port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    expected = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
    assert await reader.readexactly(len(expected)) == expected
    writer.close()
    await until(lambda: not between.connections)
    await between.close()
    server.close()


async def test_an_upgrade_passes_untouched_both_ways() -> None:
    async with site() as fake:
        between = gate(fake)
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


@pytest.mark.parametrize("raw", [b"\x16\x03\x01 hello", b"EHLO\r\n\r\n", b"x" * 70_000])
async def test_what_is_not_http_passes_as_it_is(raw: bytes) -> None:
    received = bytearray()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(1000):
            received.extend(chunk)
        writer.write(b"bye")  # after the other side has finished: half-closed
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    between = gate(FakeSite(server.sockets[0].getsockname()[1]))
    reader, writer = await asyncio.open_connection("127.0.0.1", between.port)
    writer.write(raw)
    writer.write_eof()
    assert await reader.read() == b"bye"
    assert bytes(received) == raw
    writer.close()
    await between.close()
    server.close()


async def test_a_slow_client_slows_the_site_down() -> None:
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
    between = gate(FakeSite(server.sockets[0].getsockname()[1]), looks=False)
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


async def test_an_early_answer_reaches_a_client_that_still_sends() -> None:
    async def reject(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        writer.write_eof()
        await asyncio.sleep(0.1)
        writer.close()

    server = await asyncio.start_server(reject, "127.0.0.1", 0)
    between = gate(FakeSite(server.sockets[0].getsockname()[1]))
    request = b"POST / HTTP/1.1\r\nHost: shop.local\r\nContent-Length: 10000000\r\n\r\n" + BIG
    assert (await talk(between.port, request)).startswith(b"HTTP/1.1 413")
    await between.close()
    server.close()


async def test_a_connection_that_the_site_breaks_off_is_broken_off() -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        await asyncio.sleep(0.1)
        Stream(reader, writer).reset()

    server = await asyncio.start_server(break_off, "127.0.0.1", 0)
    between = gate(FakeSite(server.sockets[0].getsockname()[1]))
    with pytest.raises(ConnectionResetError):
        await talk(between.port, b"GET / HTTP/1.1\r\n\r\n")
    await between.close()
    server.close()


async def test_a_site_that_is_down_resets_the_connection() -> None:
    async with site() as fake:
        down = FakeSite(fake.port)
    between = gate(down)
    with pytest.raises(ConnectionResetError):
        await talk(between.port, b"GET / HTTP/1.1\r\n\r\n")
    await between.close()


async def test_refusing_is_real_and_the_port_stays() -> None:
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


async def read_to_the_end(reader: asyncio.StreamReader) -> None:
    try:
        await reader.read()
    except ConnectionResetError:
        return


def strikes(fault: SocketFault, times: int, seen: list[tuple[str, ...]]) -> Struck:
    """The first requests, as many as `times`."""

    def struck(urls: tuple[str, ...]) -> SocketFault | None:
        seen.append(urls)
        return fault if len(seen) <= times else None

    return struck


async def test_a_struck_request_goes_by_its_host_and_by_what_the_client_named() -> None:
    async with site() as fake:
        seen: list[tuple[str, ...]] = []
        between = gate(fake, strikes(Empty(url="*"), 1, seen))
        body = b"POST /pay?x=1 HTTP/1.1\r\nHost: shop.local:81\r\nContent-Length: 10000000\r\n\r\n" + BIG
        assert await talk(between.port, body) == b""
        assert seen == [("http://shop.local/pay?x=1", "http://shop.local:81/pay?x=1")]
        assert fake.heads == []
        await between.close()


@pytest.mark.parametrize("stood", [0.0, 5.0])
async def test_what_chromium_sends_again_by_itself_is_struck_again_and_not_counted(stood: float) -> None:
    """It does so only after a connection that had stood open before the request came."""
    clock = ManualClock()
    async with site() as fake:
        seen: list[tuple[str, ...]] = []
        between = gate(fake, strikes(Empty(url="*"), 1, seen), clock)
        reader, writer = await asyncio.open_connection("127.0.0.1", between.port)
        await until(lambda: between.connections)
        await clock.advance(stood)
        writer.write(b"GET /a HTTP/1.1\r\nHost: shop.local\r\n\r\n")
        assert await reader.read() == b""
        writer.close()
        again = await talk(between.port, b"GET /a HTTP/1.1\r\nHost: shop.local\r\n\r\n")
        assert (again == b"", len(seen)) == ((True, 1) if stood else (False, 2))
        between.failed("https://shop.local/a#part")
        assert b"200 OK" in await talk(between.port, b"GET /a HTTP/1.1\r\nHost: shop.local\r\n\r\n")
        await between.close()


async def test_connections_without_a_request_can_be_ended_alone() -> None:
    clock = ManualClock()
    async with site() as fake:
        between = gate(fake, lambda _: Hang(url="*", seconds=3600), clock)
        held = asyncio.create_task(talk(between.port, b"GET / HTTP/1.1\r\n\r\n"))
        await clock.sleeper()
        reader, writer = await asyncio.open_connection("127.0.0.1", between.port)
        await until(lambda: len(between.unused) == 1)
        between.drop_unused()
        await read_to_the_end(reader)
        assert not held.done()
        writer.close()
        await between.close()
        assert await held == b""


async def test_closing_ends_held_requests_and_forwarded_ones_for_good() -> None:
    clock = ManualClock()
    async with site() as fake:
        between = gate(fake, lambda _: Hang(url="*", seconds=3600), clock)
        held = asyncio.create_task(talk(between.port, b"GET / HTTP/1.1\r\n\r\n"))
        await clock.sleeper()
        silent_reader, silent = await asyncio.open_connection("127.0.0.1", between.port)
        await between.close()
        assert await held == b""
        await read_to_the_end(silent_reader)
        silent.close()
        between.listen()
        assert await refuses(between.port)
        assert asyncio.all_tasks() == {asyncio.current_task()}
