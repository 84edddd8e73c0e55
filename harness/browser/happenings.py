"""What pages have done so far, as criteria read it: the console, answers, WebSocket messages, downloads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.browser.contents import MOST, UNREAD, body_of, content_of, json_in
from harness.browser.heard import MOST_MESSAGES, DownloadedFile, Message
from harness.criteria.syntax import Happened
from harness.recovery.failure import Failed, Failure
from harness.spec.names import well_formed
from harness.spec.url_patterns import RequestPattern, glob
from harness.task_secrets import learn, secrets_of_header

if TYPE_CHECKING:
    from harness.browser.exchanges import RequestRecord
    from harness.browser.page_events import PageEvents

_LARGEST_FILE = 20_000_000


async def happened(
    function: str, pattern: str, watches: Sequence[PageEvents], files: Sequence[DownloadedFile], within: float
) -> Happened:
    """What the contexts of a task have seen so far. Raises Failed if it cannot be read in time."""
    if function == "responses":
        return await _responses(RequestPattern.parse(pattern), watches, within)
    if function != "downloads":
        return (_console if function == "console" else _messages)(pattern, watches)
    try:
        async with asyncio.timeout(within):
            return Happened(await asyncio.to_thread(lambda: [_file(each) for each in files]))
    except TimeoutError as error:
        raise Failed(Failure("STEP_TIMEOUT", f"the downloads could not be read within {within:.1f}s")) from error


def _file(file: DownloadedFile) -> dict[str, Any]:
    item: dict[str, Any] = {"name": file.path.name, "url": file.url, "size": file.path.stat().st_size}
    if item["size"] > _LARGEST_FILE:
        return {**item, UNREAD: f"{file.path.name} is larger than {_LARGEST_FILE:,} bytes"}
    return {**item, **content_of(file.path.name, file.path.read_bytes())}


async def _responses(wanted: RequestPattern, watches: Sequence[PageEvents], within: float) -> Happened:
    """The answers that match, each with its body if that comes in time."""
    found = [
        (each, watch.heard.body(each.asked) if watch.heard and each.asked and not _is_stream(each) else None)
        for watch in watches
        for each in watch.exchanges
        if each.status is not None and wanted.matches(each.method, each.url)
    ]
    bodies = [body for _, body in found if body is not None]
    if bodies:
        await asyncio.wait(bodies, timeout=within)
    gap = next(filter(None, (_gap(watch, watch.exchanges.dropped, "requests") for watch in watches)), "")
    return Happened([_response(each, body) for each, body in found], gap)


def _is_stream(exchange: RequestRecord) -> bool:
    """Return whether the body of the answer comes without end."""
    return exchange.headers.get("content-type", "").startswith("text/event-stream")


def _response(exchange: RequestRecord, body: asyncio.Task[bytes | str] | None) -> dict[str, Any]:
    headers = dict(exchange.headers)
    for name, value in headers.items():
        learn(*secrets_of_header(name, value))
    known = {"method": exchange.method, "url": exchange.url, "status": exchange.status, "headers": headers}
    if body is None or not body.done():
        return {**known, UNREAD: "its body has not come to its end"}
    return {**known, **body_of(body.result())}


def _gap(watch: PageEvents, dropped: int, what: str) -> str:
    """Why some of what a context has done was not kept; empty if all was."""
    if watch.spared:
        return "the page flooded the browser, so the rest was not read"
    return f"{dropped} older {what} were dropped" if dropped else ""


def _messages(pattern: str, watches: Sequence[PageEvents]) -> Happened:
    wanted, kept = RequestPattern.parse(pattern), [each.heard for each in watches if each.heard]
    if not all(each.keeps_messages for each in kept):
        return Happened([], "messages are kept only if the task's file reads them from its start")
    found = [each for heard in kept for each in heard.messages if wanted.matches(each.direction, each.url)]
    dropped = sum(each.messages.dropped for each in kept)
    gap = f"{dropped} older messages were dropped: the newest {MOST_MESSAGES} are kept" if dropped else ""
    return Happened([_message(each) for each in found], gap)


def _message(message: Message) -> dict[str, Any]:
    item: dict[str, Any] = {"direction": message.direction, "url": message.url}
    if isinstance(message.content, bytes):
        return {**item, "text": None, UNREAD: f"it is binary, {len(message.content)} bytes"}
    if len(message.content) > MOST:
        return {**item, "text": None, UNREAD: f"it has more than {MOST:,} characters"}
    return {**item, "text": well_formed(message.content), "json": json_in(message.content)}


def _console(pattern: str, watches: Sequence[PageEvents]) -> Happened:
    lines = [line for watch in watches for line in watch.lines if line.kind]
    found = [line for line in lines if glob(pattern, f"{line.kind} {line.text}")]
    gap = next(filter(None, (_gap(watch, watch.lines.dropped, "lines of the console") for watch in watches)), "")
    items: list[dict[str, Any]] = [
        {"type": line.kind, "text": line.text, "url": line.place.rpartition(":")[0]} for line in found
    ]
    return Happened(items, gap)
