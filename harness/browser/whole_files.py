"""Files that answer a request which must not be repeated are read to their end before Chromium sees them.

Chromium asks again for a download that breaks off, up to five times and by GET, even if it was an answer to a POST. No
switch and no call of the protocol prevents that. A file that it gets at once, from here, does not break off.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urldefrag

from playwright.async_api import Browser, CDPSession
from playwright.async_api import Error as PlaywrightError

from harness.browser.net_log import NetLog
from harness.model.record import SAFE_METHODS

_ANSWERS = {"patterns": [{"urlPattern": "*", "resourceType": "Document", "requestStage": "Response"}]}
_LARGEST = 64_000_000
"""Bytes; a larger file is left to Chromium, which does not keep it in memory."""
_OF_BYTES = ("content-length", "content-encoding", "transfer-encoding")
"""Headers about how the bytes came, which hold no longer."""
_WHOLE = range(200, 300)
_EMPTY = (204, 205)
_UNKNOWN = "ERR_FAILED"


class WholeFiles:
    """The answers of the documents of one world, while it downloads."""

    def __init__(self, control: CDPSession, log: NetLog, world: str, *, all_: bool) -> None:
        """`all_`: GETs must not be repeated either."""
        self.broken: str | None = None
        """The error by which a file has broken off."""
        self.reading: str | None = None
        """The URL of the file that is being read."""
        self._control = control
        self._log = log
        self._world = world
        self._all = all_
        self._before = log.broken
        self._led_on: set[str] = set()
        """The requests that an unsafe one was redirected to."""
        self._paused = ""
        self._tasks: set[asyncio.Task[None]] = set()

    def on_answer(self, event: dict[str, Any]) -> None:
        """An answer has come, whose body is still to come."""
        task = asyncio.ensure_future(self._answered(event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Let go of all answers; a file that has not come to its end is given up."""
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(PlaywrightError):
            if self.reading:
                await self._control.send("Fetch.failRequest", {"requestId": self._paused, "errorReason": "Aborted"})
            await self._control.detach()

    async def _answered(self, event: Mapping[str, Any]) -> None:
        with contextlib.suppress(PlaywrightError):  # the page is gone
            if self._must_be_whole(event):
                await self._read(event)
            else:
                await self._control.send("Fetch.continueResponse", {"requestId": event["requestId"]})

    def _must_be_whole(self, event: Mapping[str, Any]) -> bool:
        request, number, status = event["request"], event.get("networkId", ""), event.get("responseStatusCode", 0)
        agent = next((value for name, value in request["headers"].items() if name.lower() == "user-agent"), "")
        if not agent.endswith(f"harness-world/{self._world}"):
            return False
        unsafe = self._all or request["method"] not in SAFE_METHODS or number in self._led_on
        if unsafe and number:
            self._led_on.add(number)
        length = _header(event, "content-length")
        small = not length.isdecimal() or int(length) <= _LARGEST
        return unsafe and status in _WHOLE and status not in _EMPTY and small

    async def _read(self, event: Mapping[str, Any]) -> None:
        """Hand over the body when it is there, as far as it came."""
        self.reading, self._paused = event["request"]["url"], event["requestId"]
        body = (await self._control.send("Fetch.getResponseBody", {"requestId": self._paused}))["body"]
        complete = await self._log.complete(self._control)  # the body does not tell whether it is whole
        self.broken = self.broken or (self._error_of(event["request"]) if complete else _UNKNOWN)
        headers = [each for each in event.get("responseHeaders", ()) if each["name"].lower() not in _OF_BYTES]
        answer = {"responseCode": event["responseStatusCode"], "responseHeaders": headers, "body": body}
        await self._control.send("Fetch.fulfillRequest", {"requestId": self._paused, **answer})
        self.reading = None

    def _error_of(self, request: Mapping[str, Any]) -> str | None:
        """The error by which this request or its answer has ended since the act began."""
        of = request["method"], urldefrag(request["url"]).url, self._world
        found = (each for each in self._log.broken if each not in self._before)
        return next((each.error for each in found if (each.method, each.url, each.world) == of), None)


def _header(event: Mapping[str, Any], name: str) -> str:
    found = (each["value"] for each in event.get("responseHeaders", ()) if each["name"].lower() == name)
    return str(next(found, ""))


@contextlib.asynccontextmanager
async def whole_files(
    browser: Browser | None, log: NetLog | None, world: str, *, all_: bool
) -> AsyncIterator[WholeFiles | None]:
    """Read files to their end meanwhile; None where the browser has no log that tells whether they are whole."""
    if browser is None or log is None:
        yield None
        return
    control = await browser.new_browser_cdp_session()
    files = WholeFiles(control, log, world, all_=all_)
    control.on("Fetch.requestPaused", files.on_answer)
    try:
        await control.send("Fetch.enable", _ANSWERS)
        yield files
    finally:
        await files.end()
