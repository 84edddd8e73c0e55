"""The main frame of one page: its navigations, and whether the page crashed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import urldefrag

from playwright.async_api import Frame, Page, Request

from harness.browser.exchange import Exchange
from harness.browser.listening import listen
from harness.browser.network import net_error

MOST_LOADING = 100
"""Requests of a page that are kept as not yet ended."""


class MainFrame:
    """What is known of one page of a context, whether it is the one acted on or another."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.crashed = False
        self.navigation: Exchange | None = None
        """The main frame's last navigation since a step began here; of a page not acted on yet, its last one."""
        self.last_failed: Exchange | None = None
        """The main frame's last navigation, when it failed; whatever step began it."""
        self.document: str | None = None
        """The address that the document shown was asked for by; its scripts may have given the page another one."""
        self.broken_off: Callable[[], object] | None = None
        """Called when a document that had begun to come breaks off: the page never says that it has loaded."""
        self.arrivals = 0
        """How often its address was another one, or it was loaded again."""
        self._pending: Exchange | None = None
        self._settled = asyncio.Event()
        self._settled.set()
        listen(page, "crash", self._on_crash)
        listen(page, "framenavigated", self._on_navigated)
        listen(page, "domcontentloaded", self._on_parsed)

    def began(self, exchange: Exchange) -> None:
        """The main frame asks for another document."""
        self.navigation = self._pending = exchange
        self._settled.clear()

    def adopt(self, exchange: Exchange) -> None:
        """The document that the page was opened with; it is there, or has failed, before the page can be known."""
        self.navigation = exchange
        if exchange.error is not None:
            self.failed(exchange)
        else:
            self.document = exchange.url

    def failed(self, exchange: Exchange) -> None:
        """A navigation of the main frame failed; an aborted one was a download, or another one took its place."""
        self._settled.set()
        if net_error(exchange.error or "") == "ERR_ABORTED":
            return
        self.last_failed = exchange
        if self.broken_off and exchange is self.navigation and exchange.status is not None:
            self.broken_off()

    async def settled(self) -> None:
        """Wait until no navigation of the main frame is under way."""
        await self._settled.wait()

    @property
    def unanswered(self) -> Exchange | None:
        """The main frame's navigation that has had no answer yet. Until then the page cannot be asked anything."""
        pending = self._pending
        return pending if pending and pending.status is None and not self._settled.is_set() else None

    def asked(self, request: Request) -> None:
        """The page sent this request; when it asks for a document, `began` knows of that already."""
        if self._pending and len(self._pending.loading) < MOST_LOADING:
            self._pending.loading[request] = request.url

    def got(self, request: Request) -> None:
        """The request is over, well or not."""
        if self._pending:
            self._pending.loading.pop(request, None)

    def _on_parsed(self, _: Page) -> None:
        if self._pending and self._pending.answered:  # else it is the page before
            self._pending.parsed = True

    def _on_crash(self, _: Page) -> None:
        self.crashed = True
        self._settled.set()

    def _on_navigated(self, frame: Frame) -> None:
        if frame == self.page.main_frame:
            self.arrivals += 1
            self._settled.set()
            if self._pending and urldefrag(frame.url).url == urldefrag(self._pending.url).url:
                self.document = self._pending.url
            if not frame.url.startswith("chrome-error:"):
                self.last_failed = None
