"""How a site's answer comes to the client, well or damaged (stream.Download)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from harness.faults.head import END, closing
from harness.faults.response import AnswerHead
from harness.faults.stream import CHUNK, LINGER, Stream, pump
from harness.resilience import Clock
from harness.spec.faults import Slow

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
