"""What happens around a page while the steps run: navigation, crash, dialogs, console, failed requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from playwright.async_api import BrowserContext, ConsoleMessage, Dialog, Frame, Page, Request, Response, WebError
from playwright.async_api import Error as PlaywrightError

from harness.browser.network import net_error
from harness.resilience import Clock

CONSOLE_LINES = 1000
NETWORK_ENTRIES = 500
LINE_LENGTH = 2000
POPUPS = 100
DIALOGS = 20
"""Dialogs of one step that are told; a page may open them without end."""


@dataclass(slots=True)
class Exchange:
    """One request and what became of it."""

    url: str
    method: str
    started: datetime
    navigation: bool = False
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the console. `failed_url`: it tells of a request that failed."""

    level: str
    text: str
    place: str = ""
    failed_url: str | None = None

    def __str__(self) -> str:
        return f"[{self.level}] {self.text}" + (f" ({self.place})" if self.place else "")


class PageWatch:
    """Listeners of one context and its main page. Bounded: old lines and requests fall out."""

    def __init__(self, clock: Clock, on_request_failed: Callable[[str, str], None] | None) -> None:
        self._clock = clock
        self._report = on_request_failed
        self._answers: set[asyncio.Task[None]] = set()
        self._open: deque[tuple[Request, Exchange]] = deque(maxlen=NETWORK_ENTRIES)
        self._pending: Exchange | None = None
        self._settled = asyncio.Event()
        self._settled.set()
        self.crashed = False
        self.navigation: Exchange | None = None
        """The main frame's last navigation since the step began."""
        self.last_failed: Exchange | None = None
        """The main frame's last navigation, when it failed; whatever step began it."""
        self.dialogs: list[dict[str, str]] = []
        """Dialogs since the step began."""
        self.open_dialogs = 0
        self.popups: deque[str] = deque(maxlen=POPUPS)
        self.lines: deque[Line] = deque(maxlen=CONSOLE_LINES)
        self.exchanges: deque[Exchange] = deque(maxlen=NETWORK_ENTRIES)

    def attach(self, context: BrowserContext, page: Page) -> None:
        """Listen. `page` is the main page; the others of the context are only recorded."""
        self._page = page
        page.on("crash", self._on_crash)
        page.on("framenavigated", self._on_navigated)
        context.on("request", self._on_request)
        context.on("response", self._on_response)
        context.on("requestfailed", self._on_request_failed)
        context.on("dialog", self._on_dialog)
        context.on("console", self._on_console)
        context.on("weberror", self._on_page_error)
        context.on("page", self._on_page)

    def begin(self) -> None:
        """A step begins: what came before is not its doing."""
        self.navigation = None
        self.dialogs = []

    async def settled(self) -> None:
        """Wait until no navigation of the main frame is under way."""
        await self._settled.wait()

    @property
    def unanswered(self) -> Exchange | None:
        """The main frame's navigation that has had no answer yet. Until then the page cannot be asked anything."""
        pending = self._pending
        return pending if pending and pending.status is None and not self._settled.is_set() else None

    @property
    def blocked(self) -> bool:
        """Whether dialogs hold the page up: one is open, or they come without end."""
        return self.open_dialogs > 0 or len(self.dialogs) >= DIALOGS

    def console(self) -> tuple[str, ...]:
        """The console's lines; a failed request that Chromium itself reported is not said twice."""
        reported = {line.place.rpartition(":")[0] for line in self.lines if line.text.startswith("Failed to load")}
        return tuple(str(line) for line in self.lines if line.failed_url is None or line.failed_url not in reported)

    def _on_crash(self, _: Page) -> None:
        self.crashed = True
        self._settled.set()

    def _on_navigated(self, frame: Frame) -> None:
        if frame == self._page.main_frame:
            self._settled.set()
            if not frame.url.startswith("chrome-error:"):
                self.last_failed = None

    def _on_request(self, request: Request) -> None:
        exchange = Exchange(request.url, request.method, self._clock.wall(), self._is_main(request))
        self.exchanges.append(exchange)
        self._open.append((request, exchange))
        if exchange.navigation:
            self.navigation = self._pending = exchange
            self._settled.clear()

    def _is_main(self, request: Request) -> bool:
        if not request.is_navigation_request():
            return False
        try:
            return request.frame == self._page.main_frame
        except PlaywrightError:  # a page that is only being opened has no frame yet, so it is not the main one
            return False

    def _take(self, request: Request) -> Exchange | None:
        return next((exchange for known, exchange in reversed(self._open) if known == request), None)

    def _on_response(self, response: Response) -> None:
        exchange = self._take(response.request)
        if exchange:
            exchange.status, exchange.headers = response.status, response.headers

    def _on_request_failed(self, request: Request) -> None:
        text = request.failure or "net::ERR_FAILED"
        exchange = self._take(request)
        if exchange:
            exchange.error = text
            if exchange.navigation:
                self._navigation_failed(exchange)
        place = request.url[:LINE_LENGTH]
        self.lines.append(Line("ERROR", f"Failed to load resource: {text} {place}", failed_url=request.url))
        if self._report:
            self._report(request.url, text)

    def _navigation_failed(self, exchange: Exchange) -> None:
        self._settled.set()
        if net_error(exchange.error or "") != "ERR_ABORTED":
            self.last_failed = exchange

    def _on_dialog(self, dialog: Dialog) -> None:
        """Accept at once, as a person doing the task would."""
        if len(self.dialogs) < DIALOGS:
            self.dialogs.append({"type": dialog.type, "message": dialog.message[:LINE_LENGTH]})
        self.open_dialogs += 1
        task = asyncio.ensure_future(self._accept(dialog))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _accept(self, dialog: Dialog) -> None:
        try:
            await dialog.accept(dialog.default_value)
        except PlaywrightError as error:  # the page went away with its dialog
            self.lines.append(Line("WARNING", f"dialog not answered: {error.message[:LINE_LENGTH]}"))
        self.open_dialogs -= 1

    def _on_console(self, message: ConsoleMessage) -> None:
        level = "WARNING" if message.type == "warning" else message.type.upper()
        self.lines.append(Line(level, message.text[:LINE_LENGTH], _place(message.location)))

    def _on_page_error(self, error: WebError) -> None:
        self.lines.append(Line("ERROR", f"Uncaught {str(error.error)[:LINE_LENGTH]}"))

    def _on_page(self, page: Page) -> None:
        if page != self._page:
            self.popups.append(page.url[:LINE_LENGTH])


def _place(location: Any) -> str:
    return f"{location['url']}:{location['lineNumber']}" if location.get("url") else ""
