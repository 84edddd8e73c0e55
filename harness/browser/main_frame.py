"""The main frame of one page: its navigations, and whether the page crashed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, Final
from urllib.parse import urldefrag

from msgspec import Struct
from playwright.async_api import BrowserContext, Frame, Page, Request, WebSocket

from harness.browser.exchanges import RequestRecord
from harness.browser.network_errors import GIVEN_UP, net_error
from harness.model.record import SAFE_METHODS

# Subscribes to Playwright's events cheaply: each request of a page has several.

_ONE: Final = Signature([Parameter("event", Parameter.POSITIONAL_ONLY)])


def listen(
    emitter: BrowserContext | Page | WebSocket, event: str, handler: Callable[[Any], None]
) -> Callable[[], None]:
    """Like `emitter.on(event, handler)`, but faster. Returns what ends it.

    Playwright asks for the handler's signature at every event, which costs more than everything else; here the handler
    carries its signature.
    """

    def heard(event: Any) -> None:
        handler(event)

    heard.__signature__ = _ONE  # type: ignore[attr-defined]
    emitter.on(event, heard)  # type: ignore[call-overload]
    return lambda: emitter.remove_listener(event, heard)


_MOST_LOADING = 100
"""The number of unfinished requests of a page that are kept."""


class MainFrame:
    """The state of one page of a context, whether it is the current one or not."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.crashed = False
        self.navigation: RequestRecord | None = None
        """The main frame's last navigation since a step began here; for a page not acted on yet, its last one."""
        self.last_failed: RequestRecord | None = None
        """The main frame's last navigation if it failed, whichever step began it."""
        self.latest: RequestRecord | None = None
        """The document of its last navigation, also of the one that it was opened with."""
        self._before: RequestRecord | None = None
        self.posted: set[str] = set()
        """The addresses that this tab requested by an unsafe method."""
        self.document: str | None = None
        """The address by which the shown document was requested; its scripts may have changed the page's address."""
        self.broken_off: Callable[[], object] | None = None
        """Called when a document that had begun to arrive breaks off: the page never reports that it has loaded."""
        self.arrivals = 0
        """The number of times that its address changed or it was loaded again."""
        self.shown: RequestRecord | None = None
        """The document that is shown."""
        self.listens: RequestRecord | None = None
        """The document that is known to listen for being left."""
        self.on_left: Callable[[bool], object] | None = None
        """Called when a document is left: whether it is known to listen for that."""
        self.pending: RequestRecord | None = None  # the last navigation, whichever step began it
        self._settled = asyncio.Event()
        self._settled.set()
        listen(page, "crash", self._on_crash)
        listen(page, "close", lambda _: self._settled.set())
        listen(page, "framenavigated", self._on_navigated)
        listen(page, "domcontentloaded", self._on_parsed)
        listen(page, "load", self._on_loaded)

    def navigation_began(self, exchange: RequestRecord) -> None:
        """The main frame requests another document."""
        self._before = self.latest
        self._note_method(exchange)
        self.navigation = self.pending = self.latest = exchange
        self._settled.clear()

    def adopt(self, exchange: RequestRecord) -> None:
        """Take over the document that the page was opened with: it exists, or has failed, before the page is known."""
        self.navigation = self.latest = exchange
        self._note_method(exchange)
        if exchange.error is not None:
            self.failed(exchange)
        else:
            self.document = exchange.url

    def _note_method(self, exchange: RequestRecord) -> None:
        if exchange.method not in SAFE_METHODS:
            self.posted.add(urldefrag(exchange.url).url)

    def failed(self, exchange: RequestRecord) -> None:
        """A navigation of the main frame failed; an aborted one was a download, or was replaced by another."""
        self._settled.set()
        if net_error(exchange.error or "") == GIVEN_UP:
            self.latest = self._before if exchange is self.latest else self.latest  # the page has stayed
            return
        self.last_failed = exchange
        if self.broken_off and exchange is self.navigation and exchange.status is not None:
            self.broken_off()

    async def settled(self) -> None:
        """Wait until no navigation of the main frame is under way."""
        await self._settled.wait()

    @property
    def unanswered(self) -> RequestRecord | None:
        """The main frame's navigation without an answer yet; until then, the page cannot be asked anything."""
        pending = self.pending
        return pending if pending and pending.status is None and not self._settled.is_set() else None

    def request_sent(self, request: Request, exchange: RequestRecord) -> None:
        """The page sent this request; `navigation_began` already knows of one for a document."""
        if self.pending and len(self.pending.loading) < _MOST_LOADING:
            self.pending.loading[request] = request.url
        self.owns(exchange)

    def owns(self, exchange: RequestRecord) -> None:
        """The request belongs to the page's document. Before that was answered, the page before it sends."""
        document = self.latest
        if document is not None and exchange is not document and document.status is not None:
            exchange.of = document

    def request_ended(self, request: Request) -> None:
        """The request is over, successful or not."""
        if self.pending:
            self.pending.loading.pop(request, None)

    def _on_parsed(self, _: Page) -> None:
        if self.latest and self.latest.answered:  # else it belongs to the page before
            self.latest.parsed = True

    def _on_loaded(self, _: Page) -> None:
        if self.latest and self.latest.answered:
            self.latest.loaded = self.latest.parsed = True

    def left(self) -> None:
        """The document that was shown is gone."""
        if self.on_left is not None:
            self.on_left(self.listens is not None and self.listens is self.shown)

    def _on_crash(self, _: Page) -> None:
        self.crashed = True
        self._settled.set()

    def _on_navigated(self, frame: Frame) -> None:
        if frame == self.page.main_frame:
            self.arrivals += 1
            self._settled.set()
            if self.shown is not self.latest:
                self.left()
                self.shown = self.latest
            if self.pending and urldefrag(frame.url).url == urldefrag(self.pending.url).url:
                self.document = self.pending.url
            if not frame.url.startswith("chrome-error:"):
                self.last_failed = None


class Opened(Struct):
    """The URL that the last `open` requested, and the page that was shown afterwards."""

    asked: str
    came: str
    acted: bool = False
    """Whether a step since then may have navigated."""
