"""Bodies of a channel without end, or larger than any document: its time and its size are bounded."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Iterable

import pytest

from harness.environment.channel import MAX_DOCUMENT
from harness.environment.http_channel import HttpChannel
from harness.recovery.failure import Failed
from tests.unit.models.raw_server import Answer, raw_server

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def drips(part: bytes, pause: float, head: bytes = HEAD + b"\r\n") -> Answer:
    def answer(_: str) -> Iterable[bytes]:
        yield head
        while True:
            yield part
            time.sleep(pause)

    return answer


BOMB = gzip.compress(b" " * 50_000_000)
ENDLESS: dict[str, tuple[Answer, str]] = {
    "a byte now and then": (drips(b" ", 0.1), "no answer within 1 s"),
    "headers": (drips(b"x-a: b\r\n", 0.1, HEAD), "no answer within 1 s"),
    "continue": (drips(b"HTTP/1.1 100 Continue\r\n\r\n", 0.1, b""), "no answer within 1 s"),
    "fast": (drips(b" " * 65_536, 0), f"larger than {MAX_DOCUMENT} bytes"),
    "fast headers": (drips(b"x-a: b\r\n" * 1000, 0, HEAD), "GET"),
    "a small body that becomes large": (
        lambda _: [HEAD + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(BOMB), BOMB],
        f"larger than {MAX_DOCUMENT} bytes",
    ),
}


@pytest.mark.parametrize("case", ENDLESS)
def test_five_tasks_that_read_it_at_once_all_end(case: str) -> None:
    answer, words = ENDLESS[case]

    async def read(channel: HttpChannel) -> str:
        with pytest.raises(Failed) as caught:
            await channel.read("w1")
        return caught.value.failure.message

    async def five(url: str) -> list[str]:
        channel = HttpChannel("env", url, timeout=60 if "larger" in words else 1, hosts={})
        try:
            return await asyncio.gather(*(read(channel) for _ in range(5)))
        finally:
            await channel.close()

    began = time.monotonic()
    with raw_server(answer) as server:
        told = asyncio.run(five(f"{server.url}/env"))
    assert all(words in each for each in told), told
    assert time.monotonic() - began < 50
