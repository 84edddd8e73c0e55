"""Chromium's net log: the requests that the browser sends again by itself, which no page and no event shows."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Any
from urllib.parse import urldefrag

from playwright.async_api import CDPSession
from playwright.async_api import Error as PlaywrightError

from harness.model.record import Sent

START = {
    "transferMode": "ReportEvents",
    "traceConfig": {"includedCategories": ["netlog"], "excludedCategories": ["*"]},
}
AGAIN = "HTTP_TRANSACTION_RESTART_AFTER_ERROR"
STARTED = "URL_REQUEST_START_JOB"
SECONDS = 0.3
"""Seconds that the browser may take to begin or end the recording; a busy one is not waited for."""


class Resending:
    """The recording of repeated requests in one browser, for any number of listeners."""

    def __init__(self, control: CDPSession) -> None:
        self._control = control
        self._lock = asyncio.Lock()
        self._listeners: list[list[Sent]] = []
        self._events: list[dict[str, Any]] = []
        self._complete = asyncio.Event()
        self._heard = False

    async def begin(self, sent: list[Sent]) -> None:
        """Start recording. `sent` receives the requests, and `end` marks those that were repeated. It never raises."""
        async with self._lock:
            self._listeners.append(sent)
            if len(self._listeners) == 1:
                await self._start()

    async def end(self, sent: list[Sent]) -> None:
        """Mark the requests that were repeated. It never raises: if the browser does not answer, nothing is marked."""
        async with self._lock:
            if not any(each is sent for each in self._listeners):
                return
            found = await self._stop()
            for each in self._listeners:
                mark(each, found)
            self._listeners = [each for each in self._listeners if each is not sent]
            if self._listeners:
                await self._start()

    async def _start(self) -> None:
        if not self._heard:
            self._control.on("Tracing.dataCollected", lambda event: self._events.extend(event["value"]))
            self._control.on("Tracing.tracingComplete", lambda _: self._complete.set())
            self._heard = True
        self._events.clear()
        await self._ask("Tracing.start", START)

    async def _stop(self) -> set[tuple[str, str]]:
        self._complete.clear()
        if await self._ask("Tracing.end", {}):
            try:
                async with asyncio.timeout(SECONDS):
                    await self._complete.wait()
            except TimeoutError:
                return set()
        return sent_again(self._events)

    async def _ask(self, method: str, parameters: dict[str, Any]) -> bool:
        try:
            async with asyncio.timeout(SECONDS):
                await self._control.send(method, parameters)
        except (PlaywrightError, TimeoutError):
            return False
        return True


def sent_again(events: Iterable[dict[str, Any]]) -> set[tuple[str, str]]:
    """Method and URL of the requests that the net log shows were repeated. Pure."""
    asked: dict[Any, tuple[str, str]] = {}
    again: set[tuple[str, str]] = set()
    for event in sorted(events, key=lambda each: float(each.get("ts", 0))):
        source, params = str(event.get("id2")), event.get("args", {}).get("params") or {}
        if event.get("name") == STARTED and "url" in params:
            asked[source] = (str(params.get("method", "")), urldefrag(str(params["url"])).url)
        elif event.get("name") == AGAIN and source in asked:
            again.add(asked[source])
    return again


def mark(sent: Iterable[Sent], found: Collection[tuple[str, str]]) -> None:
    """Mark the requests that were found."""
    for each in sent:
        each.twice = each.twice or (each.method, each.url) in found
