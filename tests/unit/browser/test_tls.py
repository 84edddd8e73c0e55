"""TLS in front of a plain port: what Python's own TLS client sees."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from harness.browser.tls import ThrowAwayKey, TlsFront

KEY = ThrowAwayKey.new()
HOST = "shop.test"
MEGABYTE = 1_000_000
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def client_context(*protocols: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(list(protocols) or ["h2", "http/1.1"])
    return context


@asynccontextmanager
async def fronted(serve: Serve, folder: Path) -> AsyncIterator[TlsFront]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    front = TlsFront({HOST: server.sockets[0].getsockname()[1]}, KEY, folder)
    try:
        yield front
    finally:
        await front.close()
        server.close()


async def connect(front: TlsFront, *protocols: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(
        "127.0.0.1", front.ports[HOST], ssl=client_context(*protocols), server_hostname=HOST
    )


def play(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await work

    asyncio.run(bounded())


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    writer.close()


def test_bytes_go_both_ways_under_a_certificate_of_our_key(tmp_path: Path) -> None:
    async def body() -> None:
        async with fronted(echo, tmp_path) as front:
            reader, writer = await connect(front)
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            tls = writer.get_extra_info("ssl_object")
            assert tls.selected_alpn_protocol() == "http/1.1"
            shown = x509.load_der_x509_certificate(tls.getpeercert(binary_form=True))
            assert shown.public_key() == KEY.private.public_key()
            names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            assert names.get_values_for_type(x509.DNSName) == [HOST]
            writer.close()
            await writer.wait_closed()

    play(body())


def test_http_2_is_not_agreed_on(tmp_path: Path) -> None:
    async def body() -> None:
        async with fronted(echo, tmp_path) as front:
            _, writer = await connect(front, "h2")
            assert writer.get_extra_info("ssl_object").selected_alpn_protocol() is None
            writer.close()
            await writer.wait_closed()

    play(body())


def test_many_connections_each_keep_their_bytes(tmp_path: Path) -> None:
    async def one(front: TlsFront, number: int) -> bool:
        reader, writer = await connect(front)
        sent = os.urandom(200_000) + bytes([number])
        writer.write(sent)
        got = await reader.readexactly(len(sent))
        writer.close()
        await writer.wait_closed()
        return got == sent

    async def body() -> None:
        async with fronted(echo, tmp_path) as front:
            assert all(await asyncio.gather(*(one(front, number) for number in range(20))))

    play(body())


def test_a_client_that_does_not_read_stops_the_site_and_loses_nothing(tmp_path: Path) -> None:
    chunk, count = os.urandom(MEGABYTE), 80
    written = 0

    async def pour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        for _each in range(count):
            writer.write(chunk)
            await writer.drain()
            written += 1
        writer.close()

    async def body() -> None:
        async with fronted(pour, tmp_path) as front:
            reader, writer = await connect(front)
            before = -1
            while written == 0 or written != before:
                before = written
                await asyncio.sleep(0.5)
            assert written < count / 2, "what lies between fits into the systems' buffers"
            digest, size = hashlib.sha256(), 0
            while data := await reader.read(MEGABYTE):
                digest.update(data)
                size += len(data)
            assert size == count * MEGABYTE
            assert digest.digest() == hashlib.sha256(chunk * count).digest()
            writer.close()

    play(body())


def test_the_site_may_finish_before_the_client_does(tmp_path: Path) -> None:
    """It answers at once, ends its side, and reads on; the client is not cut off in the middle of its upload."""
    received = 0
    read_all = asyncio.Event()

    async def answer_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        received += len(await reader.read(65536))
        writer.write(b"the whole answer")
        writer.write_eof()
        while data := await reader.read(65536):
            received += len(data)
        read_all.set()
        writer.close()

    async def body() -> None:
        async with fronted(answer_first, tmp_path) as front:
            client = await asyncio.to_thread(tls_socket, front)
            answer = await asyncio.to_thread(upload_after_answer, client, 5 * MEGABYTE)
            assert answer == b"the whole answer"
            await read_all.wait()
            assert received == 5 * MEGABYTE + 1

    play(body())


def tls_socket(front: TlsFront) -> ssl.SSLSocket:
    raw = socket.create_connection(("127.0.0.1", front.ports[HOST]))
    return client_context().wrap_socket(raw, server_hostname=HOST)


def upload_after_answer(client: ssl.SSLSocket, size: int) -> bytes:
    """Begin an upload, read the answer to its end, and only then send the rest."""
    with client:
        client.sendall(b"x")
        answer = b"".join(iter(lambda: client.recv(65536), b""))
        client.sendall(b"y" * size)
    return answer


def test_the_client_may_finish_before_the_site_does(tmp_path: Path) -> None:
    async def answer_last(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"%d bytes" % len(await reader.read()))
        writer.close()

    def ask(front: TlsFront) -> bytes:
        with tls_socket(front) as client:
            client.sendall(b"z" * MEGABYTE)
            with socket.socket(fileno=os.dup(client.fileno())) as raw:
                raw.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(65536), b""))

    async def body() -> None:
        async with fronted(answer_last, tmp_path) as front:
            assert await asyncio.to_thread(ask, front) == b"1000000 bytes"

    play(body())


def test_a_broken_answer_is_seen_as_broken(tmp_path: Path) -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"half")
        await writer.drain()
        await reader.read(1)
        linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.close()

    async def body() -> None:
        async with fronted(break_off, tmp_path) as front:
            reader, writer = await connect(front)
            writer.write(b"a")
            assert await reader.readexactly(4) == b"half"
            writer.write(b"b")
            with pytest.raises(ConnectionResetError):
                await reader.read(1)
            writer.close()

    play(body())


def test_a_client_that_breaks_off_is_not_waited_for(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def wait_for_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        with suppress(ConnectionError):
            await reader.read()
        ended.set()
        writer.close()

    async def body() -> None:
        async with fronted(wait_for_end, tmp_path) as front:
            _, writer = await connect(front)
            writer.write(b"a")
            await writer.drain()
            writer.transport.abort()
            await ended.wait()

    play(body())
    assert ended.is_set()


def test_a_host_that_is_down_resets_and_is_named_to_those_who_count_refusals(tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []

    async def body() -> None:
        place = socket.socket()
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
        front = TlsFront({HOST: port}, KEY, tmp_path)
        report = front.naming(lambda url, error: told.append((url, error)))
        report(f"https://{HOST}/", "net::ERR_CONNECTION_RESET")
        with pytest.raises(ConnectionError):
            await connect(front)
        report(f"https://{HOST}/", "net::ERR_CONNECTION_RESET")
        report(f"https://{HOST}/", "net::ERR_ABORTED")
        report(f"http://{HOST}/", "net::ERR_CONNECTION_RESET")
        report("https://other.test/", "net::ERR_CONNECTION_RESET")
        place.close()
        server = await asyncio.start_server(echo, "127.0.0.1", port)
        _, writer = await connect(front)
        report(f"https://{HOST}/", "net::ERR_CONNECTION_RESET")
        writer.close()
        await front.close()
        server.close()

    play(body())
    assert [error.removeprefix("net::ERR_") for _, error in told] == [
        "CONNECTION_RESET",
        "CONNECTION_REFUSED",
        "ABORTED",
        "CONNECTION_RESET",
        "CONNECTION_RESET",
        "CONNECTION_RESET",
    ]


def test_what_is_no_tls_is_turned_away(tmp_path: Path) -> None:
    async def body() -> None:
        async with fronted(echo, tmp_path) as front:
            reader, writer = await asyncio.open_connection("127.0.0.1", front.ports[HOST])
            writer.write(b"GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
            try:
                answer = await reader.read()
            except ConnectionResetError:
                answer = b""
            assert b"HTTP" not in answer
            writer.close()

    play(body())


def test_closing_ends_listeners_and_connections(tmp_path: Path) -> None:
    async def body() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        front = TlsFront({HOST: server.sockets[0].getsockname()[1]}, KEY, tmp_path)
        reader, writer = await connect(front)
        writer.write(b"x")
        await reader.readexactly(1)
        front.stop_listening()
        front.stop_listening()
        await front.close()
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await connect(front)
        assert list(tmp_path.iterdir()) == []
        server.close()

    play(body())
