"""What is kept of a context while it happens, for tasks whose criteria read it: bodies, messages, files."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Request

from harness.browser.contents import MOST
from harness.browser.flood import Newest

_MOST_BODIES = 32_000_000
"""Bytes of all bodies of one context that are kept."""
MOST_MESSAGES = 1000
_GONE = "its body was not there any more"
_PARTS = frozenset({"image", "media", "font", "stylesheet", "script", "texttrack", "manifest"})
"""Kinds of requests whose answers are read only when a criterion asks for them."""


class DownloadedFile(Struct, frozen=True):
    """A file that a `download` step has kept."""

    path: Path
    url: str


class Message(Struct, frozen=True):
    """A frame of a WebSocket."""

    direction: str
    url: str
    content: str | bytes


class Heard:
    """What is kept of one context while it happens, only for tasks whose criteria read it."""

    def __init__(self, wanted: Collection[str]) -> None:
        self.keeps_messages, self._keeps_bodies = "messages" in wanted, "responses" in wanted
        self.messages: Newest[Message] = Newest(MOST_MESSAGES)
        self._bodies: dict[Request, asyncio.Task[bytes | str]] = {}
        self._size = 0

    def message(self, direction: str, url: str, content: str | bytes) -> None:
        """A frame of a WebSocket was sent or received."""
        if self.keeps_messages:
            self.messages.append(Message(direction, url, content))

    def answered(self, request: Request) -> None:
        """The whole answer has come. Its body is read at once: it is gone when the page is left."""
        if self._keeps_bodies and request.resource_type not in _PARTS:
            self.body(request)

    def body(self, request: Request) -> asyncio.Task[bytes | str]:
        """The body of the answer, once all of it has come; a text says why there is none."""
        if request not in self._bodies:
            self._bodies[request] = asyncio.get_running_loop().create_task(self._read(request))
        return self._bodies[request]

    async def _read(self, request: Request) -> bytes | str:
        with suppress(PlaywrightError):
            response = await request.response()
            length = response.headers.get("content-length", "") if response else ""
            if length.isdecimal() and int(length) > MOST:
                return f"its body is larger than {MOST:,} bytes"
            if response is None or self._size > _MOST_BODIES:
                return _GONE if response is None else f"the bodies before it have more than {_MOST_BODIES:,} bytes"
            body = await response.body()
            self._size += len(body)
            return body
        return _GONE
