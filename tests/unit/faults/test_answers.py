"""What struck requests get, byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from harness.faults.answers import NOISE, status_answer
from harness.faults.network import FaultGate, Site
from harness.spec.faults import Fault
from tests.ports import free_port
from tests.unit.faults.conftest import ManualClock, talk, until

FAULT: TypeAdapter[Any] = TypeAdapter(Fault)
GET = b"GET / HTTP/1.1\r\nHost: shop.local\r\n\r\n"
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\n0123456789"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n"
)
ENDLESS = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n0123456789"
EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"


class Raw:
    """A site that takes a request of so many bytes, and says what it is told, in pieces."""

    def __init__(self, answer: bytes, request: int, piece: int) -> None:
        self.answer, self.request, self.piece = answer, request, piece
        self.got: list[bytes] = []
        self.ended = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.got.append(await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(self.request))
            for start in range(0, len(self.answer), self.piece):
                writer.write(self.answer[start : start + self.piece])
                await writer.drain()
                await asyncio.sleep(0)
        finally:
            self.ended += 1
            writer.close()


@asynccontextmanager
async def struck(
    fault: dict[str, Any],
    answer: bytes = PLAIN,
    *,
    request: int = 0,
    piece: int = 1000,
    clock: ManualClock | None = None,
) -> AsyncIterator[tuple[FaultGate, Raw]]:
    site = Raw(answer, request, piece)
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    gate = FaultGate(Site("shop.local", server.sockets[0].getsockname()[1]), clock or ManualClock(), looks=True)
    parsed = FAULT.validate_python({"url": "*", **fault})
    gate.struck = lambda _: parsed
    gate.listen()
    try:
        yield gate, site
    finally:
        await gate.close()
        server.close()
        assert not gate.connections


def play(check: Callable[[FaultGate, Raw], Any], fault: dict[str, Any], answer: bytes = PLAIN, **how: Any) -> None:
    async def main() -> None:
        async with struck(fault, answer, **how) as (gate, site):
            await check(gate, site)

    asyncio.run(main())


async def heard(gate: FaultGate, request: bytes = GET) -> tuple[bytes, bool]:
    """What arrives, and whether a RST followed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
    writer.write(request)
    raw = b""
    try:
        while chunk := await reader.read(1):
            raw += chunk
    except ConnectionResetError:
        return raw, True
    finally:
        writer.close()
    return raw, False


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"kind": "reset"}, (b"", True)),
        ({"kind": "empty"}, (b"", False)),
        ({"kind": "garbage"}, (NOISE, False)),
        (
            {"kind": "status", "status": 429, "retry_after": 1.2, "body": "späť"},
            (
                (
                    b"HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nRetry-After: 2\r\nContent-Length: 6\r\n"
                    b"Content-Type: text/html; charset=utf-8\r\n\r\nsp\xc3\xa4\xc5\xa5"
                ),
                False,
            ),
        ),
        ({"kind": "status", "status": 204}, (b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", False)),
        (
            {"kind": "status", "status": 599, "body": ""},
            (
                (
                    b"HTTP/1.1 599 Status\r\nConnection: close\r\nContent-Length: 0\r\n"
                    b"Content-Type: text/html; charset=utf-8\r\n\r\n"
                ),
                False,
            ),
        ),
    ],
)
@pytest.mark.parametrize("size", [0, 3_000_000])
def test_instead_of_the_site(fault: dict[str, Any], expected: tuple[bytes, bool], size: int) -> None:
    """A big request is read to its end, so that what is said to it arrives."""

    async def check(gate: FaultGate, site: Raw) -> None:
        head = b"POST / HTTP/1.1\r\nHost: shop.local\r\nContent-Length: %d\r\n\r\n" % size
        if fault["kind"] == "reset" and size:
            with pytest.raises(ConnectionResetError):
                await talk(gate.port, head + b"x" * size)
        else:
            assert await heard(gate, head + b"x" * size) == expected
        assert site.got == []

    play(check, fault)


def test_the_answer_to_head_has_no_body() -> None:
    async def check(gate: FaultGate, _: Raw) -> None:
        answer = await talk(gate.port, b"HEAD / HTTP/1.1\r\nHost: shop.local\r\n\r\n")
        assert answer.endswith(b"Content-Length: 4\r\nContent-Type: text/html; charset=utf-8\r\n\r\n")

    play(check, {"kind": "status", "status": 503, "body": "down"})


def test_hang_waits_and_then_ends_without_a_byte() -> None:
    clock = ManualClock()

    async def check(gate: FaultGate, site: Raw) -> None:
        asking = asyncio.create_task(heard(gate))
        await clock.sleeper()
        await clock.advance(29)
        assert not asking.done()
        await clock.advance(2)
        assert await asking == (b"", False)
        assert site.got == []

    play(check, {"kind": "hang", "seconds": 30}, clock=clock)


def test_hang_ends_with_a_client_that_gives_up() -> None:
    clock = ManualClock()

    async def check(gate: FaultGate, _: Raw) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", gate.port)
        writer.write(GET)
        await clock.sleeper()
        writer.close()
        await until(lambda: not gate.connections)

    play(check, {"kind": "hang", "seconds": 3600}, clock=clock)


@pytest.mark.parametrize("answer", [PLAIN, CHUNKED, ENDLESS])
def test_a_committed_reset_gives_the_site_the_whole_request(answer: bytes) -> None:
    async def check(gate: FaultGate, site: Raw) -> None:
        head = b"POST /pay HTTP/1.1\r\nHost: shop.local\r\nContent-Length: 500000\r\n\r\n"
        assert await heard(gate, head + b"x" * 500_000) == (b"", True)
        assert len(site.got) == 1
        assert site.got[0].endswith(b"Connection: close\r\n\r\n" + b"x" * 500_000)

    play(check, {"kind": "reset", "commit": True}, answer, request=500_000)


@pytest.mark.parametrize("piece", [1, 7, 1000])
@pytest.mark.parametrize("most", [0, 1, 9, 10, 25, 10_000])
@pytest.mark.parametrize("answer", [PLAIN, CHUNKED, EARLY + PLAIN], ids=["length", "chunked", "early hints"])
@pytest.mark.sampled(12)
def test_truncated_answers_are_never_whole(answer: bytes, most: int, piece: int) -> None:
    async def check(gate: FaultGate, _: Raw) -> None:
        head, _, body = (
            answer.rpartition(b"\r\n\r\n0123456789") if answer != CHUNKED else CHUNKED.partition(b"\r\n\r\n")
        )
        whole = body or b"0123456789"
        kept = whole[: min(most, len(whole) - 1)]
        assert await heard(gate) == (head + b"\r\n\r\n" + kept, False)

    play(check, {"kind": "truncate", "bytes": most}, answer, piece=piece)


@pytest.mark.parametrize("most", [0, 4, 100])
def test_an_answer_that_ends_with_its_connection_is_broken_off_with_a_rst(most: int) -> None:
    async def check(gate: FaultGate, _: Raw) -> None:
        raw, reset = await heard(gate)
        assert reset
        assert raw == ENDLESS[: len(ENDLESS) - 10 + min(most, 9)]

    play(check, {"kind": "truncate", "bytes": most}, ENDLESS)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"what?\r\n\r\n",
        b"",
        EARLY,
    ],
)
def test_an_answer_without_a_body_is_lost_whole(answer: bytes) -> None:
    async def check(gate: FaultGate, _: Raw) -> None:
        raw, reset = await heard(gate)
        assert reset
        assert raw in (b"", EARLY)

    play(check, {"kind": "truncate", "bytes": 5}, answer)


def test_a_late_answer_is_whole() -> None:
    clock = ManualClock()

    async def check(gate: FaultGate, site: Raw) -> None:
        asking = asyncio.create_task(heard(gate))
        await clock.sleeper()
        await until(lambda: site.ended)
        await clock.advance(4.9)
        assert not asking.done()
        await clock.advance(0.2)
        assert await asking == (PLAIN, False)

    play(check, {"kind": "slow", "seconds": 5}, clock=clock)


@pytest.mark.parametrize(("rate", "seconds"), [(20, len(PLAIN) / 20), (3, len(PLAIN) / 3)])
def test_a_dripping_answer_takes_as_long_as_its_rate_says(rate: int, seconds: float) -> None:
    clock = ManualClock()

    async def check(gate: FaultGate, _: Raw) -> None:
        asking = asyncio.create_task(heard(gate))
        slept = 0
        while not asking.done():
            await until(lambda: asking.done() or any(not future.done() for _, future in clock.sleepers))
            if not asking.done():
                slept += 1
                await clock.advance(min(at for at, future in clock.sleepers if not future.done()) - clock.time)
        assert await asking == (PLAIN, False)
        assert abs(clock.time - seconds) < 1.5 / rate * max(1, rate // 10)
        assert slept > 10

    play(check, {"kind": "slow", "bytes_per_second": rate}, clock=clock)


@pytest.mark.parametrize("kind", ["truncate", "slow", "reset"])
async def test_a_site_that_is_down_resets_the_connection(kind: str) -> None:
    more = {"truncate": {}, "slow": {"seconds": 1}, "reset": {"commit": True}}[kind]
    gate = FaultGate(Site("shop.local", free_port()), ManualClock(), looks=True)
    parsed = FAULT.validate_python({"kind": kind, "url": "*", **more})
    gate.struck = lambda _: parsed
    gate.listen()
    assert await heard(gate) == (b"", True)
    await gate.close()


def test_a_status_without_a_body_says_who_did_it() -> None:
    answered = status_answer(FAULT.validate_python({"kind": "status", "url": "*", "status": 503, "id": "<b>"}), None)
    assert answered.endswith(b"\r\n\r\n<!doctype html><title>503</title><p>503, injected by fault &lt;b&gt;</p>\n")


@pytest.mark.parametrize("status", [204, 205, 304])
def test_a_body_where_none_can_be_is_refused(status: int) -> None:
    with pytest.raises(ValidationError, match=f"status {status} has no body"):
        FAULT.validate_python({"kind": "status", "url": "*", "status": status, "body": "x"})
