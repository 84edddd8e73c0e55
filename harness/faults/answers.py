"""The answer to a request that a fault strikes, in place of the site's or a form of it; and HTTP/1 as needed."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from http import HTTPStatus
from typing import assert_never

from msgspec import Struct

from harness.resilience import Clock
from harness.resilience.streams import LINGER, Download, Stream, join, pump
from harness.spec.faults import Empty, Garbage, Hang, Reset, Slow, SocketFault, Status, Truncate
from harness.spec.url_patterns import BODILESS

# HTTP/1 as far as a gate must understand it: heads, and where bodies end.

END = b"\r\n\r\n"
_HOP = (b"connection", b"keep-alive", b"proxy-connection")


def closing(lines: Sequence[bytes]) -> bytes:
    """The head with `Connection: close`, so that the next request comes on a new connection and is seen."""
    first, *headers = lines
    kept = [line for line in headers if line.partition(b":")[0].strip().lower() not in _HOP]
    return b"\r\n".join([first, *kept, b"Connection: close"]) + END


_REQUEST_LINE = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.[01]\Z")


class RequestHead(Struct, frozen=True):
    """Request line and header lines, without the empty line."""

    lines: tuple[bytes, ...]

    @classmethod
    def parse(cls, head: bytes) -> RequestHead | None:
        """Parse a head; None if it is not HTTP/1."""
        lines = tuple(head.removesuffix(END).split(b"\r\n"))
        return cls(lines) if _REQUEST_LINE.match(lines[0]) else None

    @property
    def method(self) -> bytes:
        return self.lines[0].split(b" ")[0]

    @property
    def target(self) -> str:
        return self.lines[0].split(b" ")[1].decode("latin-1")

    @property
    def upgrade(self) -> bool:
        """Whether the connection is to become another protocol, such as a WebSocket."""
        return self.header(b"upgrade") is not None

    def header(self, name: bytes) -> bytes | None:
        values = (line.partition(b":") for line in self.lines[1:])
        return next((value.strip() for key, _, value in values if key.strip().lower() == name), None)

    def urls(self, host: str) -> tuple[str, ...]:
        """The URLs of the request: with the site's host, and with the port that the client named."""
        if not self.target.startswith("/") and "://" in self.target:
            return (self.target,)
        scheme = "ws" if self.upgrade else "http"
        named = (self.header(b"host") or b"").decode("latin-1").lower()
        authorities = dict.fromkeys(each for each in (host, named) if each)
        return tuple(f"{scheme}://{authority}{self.target}" for authority in authorities)

    def closing(self) -> bytes:
        """The head with a request to close the connection after the answer."""
        return closing(self.lines)


_STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3})(?: |\Z)")


class AnswerHead(Struct, frozen=True):
    """The facts of an answer's head about its body."""

    status: int
    length: int | None = None
    """The length of the body in bytes, if the head declares it."""
    chunked: bool = False

    @classmethod
    def parse(cls, head: bytes) -> AnswerHead | None:
        """Parse a head; None if it is not HTTP/1."""
        first, *lines = head.removesuffix(END).split(b"\r\n")
        line = _STATUS_LINE.match(first)
        if line is None:
            return None
        headers = {name.strip().lower(): value.strip() for name, _, value in (each.partition(b":") for each in lines)}
        length = headers.get(b"content-length", b"")
        chunked = headers.get(b"transfer-encoding", b"").lower().endswith(b"chunked")
        return cls(int(line[1]), int(length) if length.isdigit() and not chunked else None, chunked)

    @property
    def interim(self) -> bool:
        """Whether the final answer is still to come (100, 102, 103)."""
        return 100 <= self.status < 200 and self.status != 101

    @property
    def ends_itself(self) -> bool:
        """Whether the body declares its end; otherwise it ends with the connection."""
        return self.length is not None or self.chunked

    def has_body(self, method: bytes) -> bool:
        """Return whether a body follows the head, in answer to a request with this method."""
        return method != b"HEAD" and self.status not in BODILESS and self.length != 0


_MAX_HEAD = 65_536
"""Bytes; a longer head is passed on without being parsed."""


async def read_head(stream: Stream, raw: bytes = b"") -> bytes:
    """Read up to the first empty line; returns also what came with it, and less if it is not HTTP, or does not end.

    `raw` is what was read of it before.
    """
    with contextlib.suppress(OSError):
        while END not in raw and len(raw) < _MAX_HEAD and (not raw or raw[:1].isalpha()):
            chunk = await stream.read()
            if not chunk:
                break
            raw += chunk
    return raw


# The answers.

_UPGRADED = 101
_PIECES = 10
"""The number of pieces in which the bytes of one second are sent."""


class BrokenOffError(ConnectionError):
    """The answer ends here on purpose."""


async def _forward_answer(site: Stream, client: Stream) -> None:
    """Pass on the whole answer. Its head closes the connection, even if the site would keep it open."""
    start, body, _ = await _read_answer_head(site, client)
    await client.send(start + body)
    await pump(site, client)


async def _drop_answer(breaks: Callable[[], None], site: Stream, _: Stream) -> None:
    """Take the whole answer from the site, or what arrives in LINGER seconds; the client gets a RST instead."""
    raw, _end, body = (await read_head(site)).partition(END)
    head = AnswerHead.parse(raw)
    left = None if head is None or head.length is None else head.length - len(body)
    with contextlib.suppress(OSError):  # includes TimeoutError
        async with asyncio.timeout(LINGER):
            while (left is None or left > 0) and (chunk := await site.read()):
                left = None if left is None else left - len(chunk)
    breaks()
    raise BrokenOffError


async def _drip(fault: Slow, clock: Clock, site: Stream, client: Stream) -> None:
    """Delay the answer, or send it slowly; what the site has not sent yet is delayed with it."""
    head, body, _ = await _read_answer_head(site, client)
    chunk = head + body
    await clock.sleep(fault.seconds)
    rate = fault.bytes_per_second
    if rate is None:
        await client.send(chunk)
        return await pump(site, client)
    size = max(1, rate // _PIECES)
    while chunk:
        for start in range(0, len(chunk), size):
            piece = chunk[start : start + size]
            await client.send(piece)
            await clock.sleep(len(piece) / rate)
        chunk = await site.read()
    await client.end()


async def _break_off(most: int, method: bytes, site: Stream, client: Stream) -> None:
    """Send the head, and at most so much of the body, never all of it.

    A body with a declared end just ends too early; any other, and an answer without a body, ends with a RST.
    """
    start, body, head = await _read_answer_head(site, client)
    if head is None or not head.has_body(method):
        raise BrokenOffError
    await client.send(start)
    await _part(body, most if head.length is None else min(most, head.length - 1), site, client)
    if not head.ends_itself:
        raise BrokenOffError
    await client.end()


async def _read_answer_head(site: Stream, client: Stream) -> tuple[bytes, bytes, AnswerHead | None]:
    """The head of the answer, as it goes to the client, and the bytes after it; interim answers are passed on first.

    An answer that is no HTTP is all body.
    """
    raw = await read_head(site)
    while True:
        start, end, body = raw.partition(END)
        head = AnswerHead.parse(start) if end else None
        if head is None:
            return b"", raw, None
        if not head.interim:
            return (start + end if head.status == _UPGRADED else closing(start.split(b"\r\n"))), body, head
        await client.send(start + end)
        raw = await read_head(site, body)


async def _part(chunk: bytes, most: int, site: Stream, client: Stream) -> None:
    """Send so many bytes, or all but the last if there are no more; they have left when this returns."""
    client.writer.transport.set_write_buffer_limits(0)
    while len(chunk) <= most:
        if len(chunk) > 1:
            await client.send(chunk[:-1])
            most, chunk = most - len(chunk) + 1, chunk[-1:]
        more = await site.read()
        if not more:
            return
        chunk += more
    await client.send(chunk[:most])


NOISE = b"HTTP/1.1 \x00\x01\x02\xfe\xff\x00 200\x00\r\n\x00\r\n\r\n"
"""The NUL makes it invalid HTTP for every client; mere noise would be read as HTTP/0.9, a page without a head."""


class FaultedExchange(Struct, frozen=True):
    """A request that a gate has received."""

    client: Stream
    port: int
    """The port of its site."""
    first: bytes
    """The bytes that go to the site before all that the client still sends."""
    head: RequestHead | None = None
    """The head; None if the request is not HTTP."""
    breaks: Callable[[], None] = lambda: None
    """Call it just before the request ends without a byte of an answer."""

    async def site(self) -> Stream | None:
        """Connect to the site and begin the request; returns None if the site is down, and the client knows it then."""
        try:
            site = await Stream.to(self.port)
        except OSError:
            self.client.reset()
            return None
        site.writer.write(self.first)
        return site


async def answer(fault: SocketFault | None, exchange: FaultedExchange, clock: Clock) -> None:
    """Answer the request as the fault says; without a fault, with the site's answer."""
    match fault:
        case None:
            await _of_the_site(exchange, _forward_answer if exchange.head else pump)
        case Slow():
            await _of_the_site(exchange, partial(_drip, fault, clock))
        case Truncate():
            method = exchange.head.method if exchange.head else b"GET"
            await _of_the_site(exchange, partial(_break_off, fault.bytes, method))
        case Reset(commit=True):
            await _of_the_site(exchange, partial(_drop_answer, exchange.breaks))
        case _:
            await _answer_for_site(fault, exchange, clock)


async def _answer_for_site(
    fault: Hang | Empty | Garbage | Status | Reset, exchange: FaultedExchange, clock: Clock
) -> None:
    """Answer in place of the site, which does not see the request."""
    client = exchange.client
    match fault:
        case Hang(seconds=seconds):
            await _silence(exchange, seconds, clock)
        case Empty():
            exchange.breaks()
            await client.finish()
        case Garbage():
            await client.finish(NOISE)
        case Status():
            await client.finish(status_answer(fault, exchange.head))
        case Reset():
            exchange.breaks()
            client.reset()
        case _:
            assert_never(fault)


async def _of_the_site(exchange: FaultedExchange, download: Download) -> None:
    site = await exchange.site()
    if site is None:
        return
    try:
        await join(exchange.client, site, download)
        await exchange.client.close()
    finally:
        site.drop()


async def _silence(exchange: FaultedExchange, seconds: float, clock: Clock) -> None:
    """Wait until the time is over or the client has given up; then end without a byte."""
    client = exchange.client
    sleep = asyncio.ensure_future(clock.sleep(seconds))
    gone = asyncio.ensure_future(client.drain_input())
    try:
        await asyncio.wait([sleep, gone], return_when=asyncio.FIRST_COMPLETED)
        if not gone.done():
            exchange.breaks()
    finally:
        sleep.cancel()
        gone.cancel()
    await asyncio.wait([gone])  # two coroutines cannot read at once
    await client.finish()


def status_answer(fault: Status, head: RequestHead | None) -> bytes:
    """The answer that a server with this status would give."""
    body = _body(fault).encode()
    lines = [f"HTTP/1.1 {fault.status} {_phrase(fault.status)}", "Connection: close"]
    if fault.retry_after is not None:
        lines.append(f"Retry-After: {math.ceil(fault.retry_after)}")
    if fault.status not in BODILESS:
        lines += [f"Content-Length: {len(body)}", "Content-Type: text/html; charset=utf-8"]
    without = fault.status in BODILESS or (head is not None and head.method == b"HEAD")
    return "\r\n".join([*lines, "", ""]).encode("ascii") + (b"" if without else body)


def _body(fault: Status) -> str:
    """The declared body, even if empty; else a page that names the fault."""
    if "body" in fault.model_fields_set:
        return fault.body
    text = f"{fault.status}, injected by fault {escape(fault.title)}"
    return f"<!doctype html><title>{fault.status}</title><p>{text}</p>\n"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:  # a status that no standard names
        return "Status"
