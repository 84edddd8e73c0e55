"""Whether a browser elsewhere reaches what listens on this machine's loopback address."""

from __future__ import annotations

import asyncio
import contextlib
import secrets

from playwright.async_api import Browser
from playwright.async_api import Error as PlaywrightError

ADDRESS = "127.0.0.1"
ASK_SECONDS = 3.0
ELSEWHERE = ("ECONNREFUSED", "Parse Error")
"""What Playwright says when nothing is at a port, or something that does not speak HTTP."""


async def sees_us(browser: Browser) -> bool:
    """Asked of the browser's own server: behind a forwarded port it may stand on another machine.

    False only when nobody, or somebody else, listens there. Raises what Playwright raises when the answer does not come
    in time, or the browser is gone: nothing is known then.
    """
    word = secrets.token_hex(8).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(word), word))
        writer.close()

    server = await asyncio.start_server(answer, ADDRESS, 0)
    context = await browser.new_context()
    try:
        port = server.sockets[0].getsockname()[1]
        response = await context.request.get(f"http://{ADDRESS}:{port}/", timeout=ASK_SECONDS * 1000)
        return await response.body() == word
    except PlaywrightError as error:
        if not any(words in str(error) for words in ELSEWHERE):
            raise
        return False
    finally:
        server.close()
        with contextlib.suppress(PlaywrightError):
            await context.close()
