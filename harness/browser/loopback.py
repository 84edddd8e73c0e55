"""Whether a browser elsewhere reaches what listens on this machine's loopback address."""

from __future__ import annotations

import asyncio
import secrets

from playwright.async_api import Browser
from playwright.async_api import Error as PlaywrightError

ADDRESS = "127.0.0.1"
ASK_SECONDS = 3.0


async def sees_us(browser: Browser) -> bool:
    """Asked of the browser's own server: behind a forwarded port it may stand on another machine.

    Raises what Playwright raises when the browser is gone.
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
    except PlaywrightError:
        return False
    finally:
        server.close()
        await context.close()
