"""What a request gets that a fault strikes: instead of the site's answer, or of it."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from html import escape
from http import HTTPStatus
from typing import assert_never

from harness.faults.http import CHUNK, END, LINGER, AnswerHead, Download, RequestHead, Stream, closing, join, pump
from harness.resilience import Clock
from harness.spec.faults import Empty, Garbage, Hang, Reset, Slow, SocketFault, Status, Truncate
from harness.spec.faults.network import BODILESS

# How a site's answer comes to the client, well or damaged (stream.Download).

UPGRADED = 101
PIECES = 10
"""In how many pieces the bytes of a second are sent."""


class BrokenOffError(ConnectionError):
    """The answer ends here, on purpose."""


async def bring(site: Stream, client: Stream) -> None:
    """The whole answer. Its head says that the connection ends with it, also when the site would go on."""
    start, body, _ = await _begun(site, client)
    await client.send(start + body)
    await pump(site, client)


async def lose(breaks: Callable[[], None], site: Stream, _: Stream) -> None:
    """Take the whole answer from the site, or what it says in LINGER seconds; the client gets a RST instead."""
    raw, _end, body = (await site.read_head()).partition(END)
    head = AnswerHead.parse(raw)
    left = None if head is None or head.length is None else head.length - len(body)
    with contextlib.suppress(OSError):  # TimeoutError is one
        async with asyncio.timeout(LINGER):
            while (left is None or left > 0) and (chunk := await site.reader.read(CHUNK)):
                left = None if left is None else left - len(chunk)
    breaks()
    raise BrokenOffError


async def drip(fault: Slow, clock: Clock, site: Stream, client: Stream) -> None:
    """The answer begins later, or comes slowly; what the site has not sent yet waits with it."""
    head, body, _ = await _begun(site, client)
    chunk = head + body
    await clock.sleep(fault.seconds)
    rate = fault.bytes_per_second
    if rate is None:
        await client.send(chunk)
        return await pump(site, client)
    size = max(1, rate // PIECES)
    while chunk:
        for start in range(0, len(chunk), size):
            piece = chunk[start : start + size]
            await client.send(piece)
            await clock.sleep(len(piece) / rate)
        chunk = await site.reader.read(CHUNK)
    client.writer.write_eof()


async def break_off(most: int, method: bytes, site: Stream, client: Stream) -> None:
    """The head, and at most so much of the body, never the whole.

    A body that says where it ends just ends too early; any other, and an answer without a body, with a RST.
    """
    start, body, head = await _begun(site, client)
    if head is None or not head.has_body(method):
        raise BrokenOffError
    await client.send(start)
    await _part(body, most if head.length is None else min(most, head.length - 1), site, client)
    if not head.ends_itself:
        raise BrokenOffError
    client.writer.write_eof()


async def _begun(site: Stream, client: Stream) -> tuple[bytes, bytes, AnswerHead | None]:
    """Head of the answer, as it goes to the client, and what came with it; interim answers have gone before.

    What is no HTTP is all body.
    """
    raw = await site.read_head()
    while True:
        start, end, body = raw.partition(END)
        head = AnswerHead.parse(start) if end else None
        if head is None:
            return b"", raw, None
        if not head.interim:
            return (start + end if head.status == UPGRADED else closing(start.split(b"\r\n"))), body, head
        await client.send(start + end)
        raw = await site.read_head(body)


async def _part(chunk: bytes, most: int, site: Stream, client: Stream) -> None:
    """So many bytes, or all but the last when there are no more; they have left when this returns."""
    client.writer.transport.set_write_buffer_limits(0)
    while len(chunk) <= most:
        if len(chunk) > 1:
            await client.send(chunk[:-1])
            most, chunk = most - len(chunk) + 1, chunk[-1:]
        more = await site.reader.read(CHUNK)
        if not more:
            return
        chunk += more
    await client.send(chunk[:most])


ADDRESS = "127.0.0.1"
NOISE = b"HTTP/1.1 \x00\x01\x02\xfe\xff\x00 200\x00\r\n\x00\r\n\r\n"
"""A NUL makes a head no HTTP for every client; mere noise would be read as HTTP/0.9, a page without a head."""


@dataclass(frozen=True, slots=True)
class FaultedExchange:
    """One request on its way."""

    client: Stream
    port: int
    """Where its site is."""
    first: bytes
    """What goes to the site before all that the client still sends."""
    head: RequestHead | None = None
    """None for what is not HTTP."""
    breaks: Callable[[], None] = lambda: None
    """To be called just before it ends without a byte of an answer."""

    async def site(self) -> Stream | None:
        """A connection on which the request was begun; None when the site is down: the client was told."""
        try:
            site = await Stream.to(ADDRESS, self.port)
        except OSError:
            self.client.reset()
            return None
        site.writer.write(self.first)
        return site


async def answer(fault: SocketFault | None, exchange: FaultedExchange, clock: Clock) -> None:
    """See to it that the request gets what the fault says; without one, the site's answer."""
    match fault:
        case None:
            await _of_the_site(exchange, bring if exchange.head else pump)
        case Slow():
            await _of_the_site(exchange, partial(drip, fault, clock))
        case Truncate():
            method = exchange.head.method if exchange.head else b"GET"
            await _of_the_site(exchange, partial(break_off, fault.bytes, method))
        case Reset(commit=True):
            await _of_the_site(exchange, partial(lose, exchange.breaks))
        case _:
            await _instead(fault, exchange, clock)


async def _instead(fault: Hang | Empty | Garbage | Status | Reset, exchange: FaultedExchange, clock: Clock) -> None:
    """The site learns of nothing."""
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
    """Until the time is over, or the client has given up; then an end without a byte."""
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
    await asyncio.wait([gone])  # two cannot read at once
    await client.finish()


def status_answer(fault: Status, head: RequestHead | None) -> bytes:
    """The answer that a server of this status would give."""
    body = _body(fault).encode()
    lines = [f"HTTP/1.1 {fault.status} {_phrase(fault.status)}", "Connection: close"]
    if fault.retry_after is not None:
        lines.append(f"Retry-After: {math.ceil(fault.retry_after)}")
    if fault.status not in BODILESS:
        lines += [f"Content-Length: {len(body)}", "Content-Type: text/html; charset=utf-8"]
    without = fault.status in BODILESS or (head is not None and head.method == b"HEAD")
    return "\r\n".join([*lines, "", ""]).encode("ascii") + (b"" if without else body)


def _body(fault: Status) -> str:
    """What it declares, even if that is nothing; else a page that says who did it."""
    if "body" in fault.model_fields_set:
        return fault.body
    text = f"{fault.status}, injected by fault {escape(fault.title)}"
    return f"<!doctype html><title>{fault.status}</title><p>{text}</p>\n"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:  # no standard names it
        return "Status"
