"""What pages have done so far, as criteria read it: the console, answers, WebSocket messages, downloads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Request

from harness.browser.contents import MOST, UNREAD, body_of, content_of, json_in
from harness.browser.flood import Newest
from harness.criteria.syntax import Happened
from harness.recovery.failure import Failed, Failure
from harness.spec.names import well_formed
from harness.spec.url_patterns import RequestPattern, glob
from harness.task_secrets import learn, secrets_of_header

if TYPE_CHECKING:
    from harness.browser.exchanges import RequestRecord
    from harness.browser.page_events import PageEvents

_LARGEST_FILE = 20_000_000
_MOST_BODIES = 32_000_000
"""Bytes of all bodies of one context that are kept."""
_MOST_MESSAGES = 1000
_PARTS = frozenset({"image", "media", "font", "stylesheet", "script", "texttrack", "manifest"})
"""Kinds of requests whose answers are read only when a criterion asks for them."""


class DownloadedFile(Struct, frozen=True):
    """A file that a `download` step has kept."""

    path: Path
    url: str


class _Message(Struct, frozen=True):
    direction: str
    url: str
    content: str | bytes

    def as_json(self) -> dict[str, Any]:
        item: dict[str, Any] = {"direction": self.direction, "url": self.url}
        if isinstance(self.content, bytes):
            return {**item, "text": None, UNREAD: f"it is binary, {len(self.content)} bytes"}
        if len(self.content) > MOST:
            return {**item, "text": None, UNREAD: f"it has more than {MOST:,} characters"}
        return {**item, "text": well_formed(self.content), "json": json_in(self.content)}


class Heard:
    """What is kept of one context while it happens, only for tasks whose criteria read it."""

    def __init__(self, wanted: Collection[str]) -> None:
        self.keeps_messages, self._keeps_bodies = "messages" in wanted, "responses" in wanted
        self.messages: Newest[_Message] = Newest(_MOST_MESSAGES)
        self._bodies: dict[Request, asyncio.Task[bytes | None]] = {}
        self._size = 0

    def message(self, direction: str, url: str, content: str | bytes) -> None:
        """A frame of a WebSocket was sent or received."""
        if self.keeps_messages:
            self.messages.append(_Message(direction, url, content))

    def answered(self, request: Request) -> None:
        """The whole answer has come. Its body is read at once: it is gone when the page is left."""
        if self._keeps_bodies and request.resource_type not in _PARTS:
            self._begin(request)

    def _begin(self, request: Request) -> asyncio.Task[bytes | None]:
        if request not in self._bodies:
            self._bodies[request] = asyncio.get_running_loop().create_task(self._read(request))
        return self._bodies[request]

    async def _read(self, request: Request) -> bytes | None:
        with suppress(PlaywrightError):
            response = await request.response()
            length = response.headers.get("content-length", "") if response else ""
            if response is None or (length.isdecimal() and int(length) > MOST) or self._size > _MOST_BODIES:
                return None
            body = await response.body()
            self._size += len(body)
            return body
        return None

    async def body(self, request: Request) -> bytes | None:
        """The body of the answer; None if it is not there any more. The caller limits the time."""
        return await asyncio.shield(self._begin(request))


async def happened(
    function: str, pattern: str, watches: Sequence[PageEvents], files: Sequence[DownloadedFile], within: float
) -> Happened:
    """What the contexts of a task have seen so far. Raises Failed if it cannot be read in time."""
    try:
        async with asyncio.timeout(within):
            if function == "downloads":
                return Happened(await asyncio.to_thread(lambda: [_file(each) for each in files]))
            if function == "responses":
                return Happened([item async for item in _answers(RequestPattern.parse(pattern), watches)])
    except TimeoutError as error:
        raise Failed(Failure("STEP_TIMEOUT", f"{function}(...) could not be read within {within:.1f}s")) from error
    return _READ[function](pattern, watches)


def _file(file: DownloadedFile) -> dict[str, Any]:
    item: dict[str, Any] = {"name": file.path.name, "url": file.url, "size": file.path.stat().st_size}
    if item["size"] > _LARGEST_FILE:
        return {**item, UNREAD: f"{file.path.name} is larger than {_LARGEST_FILE:,} bytes"}
    return {**item, **content_of(file.path.name, file.path.read_bytes())}


async def _answers(wanted: RequestPattern, watches: Sequence[PageEvents]) -> AsyncIterator[dict[str, Any]]:
    for watch in watches:
        for each in [each for each in watch.exchanges if wanted.matches(each.method, each.url)]:
            if each.status is not None:
                yield await _answer(each, watch)


async def _answer(exchange: RequestRecord, watch: PageEvents) -> dict[str, Any]:
    headers = dict(exchange.headers)
    for name, value in headers.items():
        learn(*secrets_of_header(name, value))
    raw = await watch.heard.body(exchange.asked) if watch.heard and exchange.asked else None
    known = {"method": exchange.method, "url": exchange.url, "status": exchange.status, "headers": headers}
    return {**known, **body_of(raw)}


def _messages(pattern: str, watches: Sequence[PageEvents]) -> Happened:
    wanted, kept = RequestPattern.parse(pattern), [each.heard for each in watches if each.heard]
    if not all(each.keeps_messages for each in kept):
        return Happened([], "messages are kept only if the task's file reads them from its start")
    found = [each for heard in kept for each in heard.messages if wanted.matches(each.direction, each.url)]
    dropped = sum(each.messages.dropped for each in kept)
    gap = f"{dropped} older messages were dropped: the newest {_MOST_MESSAGES} are kept" if dropped else ""
    return Happened([each.as_json() for each in found], gap)


def _console(pattern: str, watches: Sequence[PageEvents]) -> Happened:
    lines = [line for watch in watches for line in watch.lines if line.kind]
    found = [line for line in lines if glob(pattern, f"{line.kind} {line.text}")]
    gap = next(filter(None, map(_gap_of_console, watches)), "")
    items: list[dict[str, Any]] = [
        {"type": line.kind, "text": line.text, "url": line.place.rpartition(":")[0]} for line in found
    ]
    return Happened(items, gap)


def _gap_of_console(watch: PageEvents) -> str:
    if watch.spared:
        return "the page flooded the browser, so the rest of its console was not read"
    dropped = watch.lines.dropped
    return f"{dropped} older lines of the console were dropped" if dropped else ""


_READ: dict[str, Callable[[str, Sequence[PageEvents]], Happened]] = {"messages": _messages, "console": _console}
