"""Records what happens in the pages while steps run: requests, navigations, crashes, console, dialogs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from inspect import Parameter, Signature
from typing import Any, Final
from urllib.parse import urldefrag, urlsplit

from playwright.async_api import BrowserContext, ConsoleMessage, Frame, Page, Request, Response, WebError, WebSocket
from playwright.async_api import Error as PlaywrightError

from harness.browser.dialogs import Dialogs
from harness.browser.exchanges import RequestRecord
from harness.browser.failures.network import GIVEN_UP, net_error
from harness.browser.flood import Later, Newest, Pace
from harness.browser.sending import Announcer, Sending
from harness.model.dialogs import MetDialog
from harness.model.ports import ConsoleLine
from harness.model.record import SAFE_METHODS, Sent
from harness.resilience import Clock
from harness.spec.steps import Open

# Subscribes to Playwright's events cheaply: each request of a page has several.

_ONE: Final = Signature([Parameter("event", Parameter.POSITIONAL_ONLY)])


def listen(emitter: BrowserContext | Page, event: str, handler: Callable[[Any], None]) -> None:
    """Like `emitter.on(event, handler)`, but faster.

    Playwright asks for the handler's signature at every event, which costs more than everything else; here the handler
    carries its signature.
    """

    def heard(event: Any) -> None:
        handler(event)

    heard.__signature__ = _ONE  # type: ignore[attr-defined]
    emitter.on(event, heard)  # type: ignore[call-overload]


# The main frame of one page: its navigations, and whether the page crashed.

MOST_LOADING = 100
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
        self.document: str | None = None
        """The address by which the shown document was requested; its scripts may have changed the page's address."""
        self.broken_off: Callable[[], object] | None = None
        """Called when a document that had begun to arrive breaks off: the page never reports that it has loaded."""
        self.arrivals = 0
        """The number of times that its address changed or it was loaded again."""
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
        self.navigation = self.pending = self.latest = exchange
        self._settled.clear()

    def adopt(self, exchange: RequestRecord) -> None:
        """Take over the document that the page was opened with: it exists, or has failed, before the page is known."""
        self.navigation = self.latest = exchange
        if exchange.error is not None:
            self.failed(exchange)
        else:
            self.document = exchange.url

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
        if self.pending and len(self.pending.loading) < MOST_LOADING:
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

    def _on_crash(self, _: Page) -> None:
        self.crashed = True
        self._settled.set()

    def _on_navigated(self, frame: Frame) -> None:
        if frame == self.page.main_frame:
            self.arrivals += 1
            self._settled.set()
            if self.pending and urldefrag(frame.url).url == urldefrag(self.pending.url).url:
                self.document = self.pending.url
            if not frame.url.startswith("chrome-error:"):
                self.last_failed = None


# Observes the pages while the steps run: navigation, crash, dialogs, console, failed requests.

CONSOLE_LINES = 1000
NETWORK_ENTRIES = 500
LINE_LENGTH = 2000
POPUPS = 100
COUNTED = {"framenavigated": "navigations", "worker": "workers", "frameattached": "frames"}
"""Events of a page that are only counted: a page may flood the browser with them too."""


@dataclass(frozen=True, slots=True)
class LoggedLine:
    """One line of the console. `failed_url`: the URL of a failed request that the line reports."""

    level: str
    text: str
    place: str = ""
    failed_url: str | None = None
    at: datetime = field(default_factory=lambda: datetime.now(UTC), compare=False)

    def as_console_line(self) -> ConsoleLine:
        return ConsoleLine(self.at, self.level, self.text, self.place)


class PageEvents:
    """Listens to one context and its current page. Bounded: old lines and requests are dropped."""

    def __init__(
        self,
        clock: Clock,
        on_request_failed: Callable[[str, str], None] | None,
        browser: Pace | None = None,
        announcer: Announcer | None = None,
    ) -> None:
        """`browser` is the pace of the browser's events: those of this context count there too."""
        self._clock = clock
        self.pace = Pace(clock, browser)
        """The rate of events: if a page floods the browser with them, answers come late."""
        self._report = on_request_failed
        self._known: dict[Request, RequestRecord] = {}
        self._frames: dict[Page, MainFrame] = {}
        self.dialog_answers = Dialogs(self._complain)
        self.elsewhere: deque[RequestRecord] = deque(maxlen=POPUPS)
        """The newest documents that other pages requested, also pages that are still opening."""
        self._popups: deque[tuple[Page, str]] = deque(maxlen=POPUPS)
        self.lines: Newest[LoggedLine] = Newest(CONSOLE_LINES)
        self.exchanges: Newest[RequestRecord] = Newest(NETWORK_ENTRIES)
        self.requests = 0
        """The number of requests of all pages so far."""
        self.sending = Sending(clock.now, announcer)
        self.promised: Callable[[str, str], bool] | None = None
        """Tells by method and URL whether a route answers a request; None: the task has no routes."""
        self._sent: dict[Request, Sent] = {}
        """The requests among `_known` that may be evidence of a write."""
        self._bystanders: frozenset[MainFrame] = frozenset()
        """Pages that were open when the attempt began and are not the current one."""
        self._wanted: Collection[int] = ()
        self._parting: _Parting | None = None
        """The page that the last `open` leaves; None once something else was done."""

    def attach(self, context: BrowserContext, page: Page) -> None:
        """Listen. `page` is the current page; the state of the others is kept."""
        self._current = self._add(page)
        listen(context, "request", self._on_request)
        listen(context, "response", self._on_response)
        listen(context, "requestfailed", self._on_request_failed)
        listen(context, "requestfinished", self._on_request_finished)
        context.on("dialog", self.dialog_answers.on_dialog)
        listen(context, "console", self._on_console)
        listen(context, "weberror", self._on_page_error)
        listen(context, "page", self._on_page)

    def follow(self, page: Page) -> None:
        """Make this the current page; what it did until now belongs to the step that turns to it."""
        left, self._current = self._current, self._frames.get(page) or self._add(page)
        if opened := self._current.latest:
            opened.wanted = opened.wanted or opened.status in self._wanted
        self._popups = deque((entry for entry in self._popups if entry[0] is not page), maxlen=POPUPS)
        if left.page.is_closed():
            self._frames.pop(left.page, None)

    def begin(self, kind: type | None = None, *, looks: bool = False, wanted: Collection[int] = ()) -> None:
        """An attempt at a step of this kind begins: earlier events do not belong to it. `looks`: it only reads.

        `wanted`: the statuses that the step declares for the document that it opens.
        """
        self._current.navigation = None
        self._wanted = wanted
        self._bystanders = frozenset(self._frames.values()) - {self._current}
        if not looks:
            self._parting = _Parting(self._current, self._current.page.url) if kind is Open else None
        self.dialog_answers.begin(kind)
        self.sending.begin(looks=looks, opens=kind is Open)

    def passed(self) -> None:
        """The attempt has passed."""
        self.dialog_answers.passed()

    @property
    def crashed(self) -> bool:
        """Whether the page's process crashed."""
        return self._current.crashed

    @property
    def navigation(self) -> RequestRecord | None:
        """The main frame's last navigation since the step began."""
        return self._current.navigation

    @property
    def latest(self) -> RequestRecord | None:
        """The document of the main frame's last navigation, whichever step began it."""
        return self._current.latest

    @property
    def last_failed(self) -> RequestRecord | None:
        """The main frame's last navigation if it failed, whichever step began it."""
        return self._current.last_failed

    @property
    def unanswered(self) -> RequestRecord | None:
        """The main frame's navigation without an answer yet; until then, the page cannot be asked anything."""
        return self._current.unanswered

    @property
    def opening(self) -> RequestRecord | None:
        """The newest page that is still opening and has no answer: it is not among the context's pages yet."""
        waiting = ((request, exchange) for request, exchange in reversed(self._known.items()) if not exchange.answered)
        return next((exchange for request, exchange in waiting if _frameless(request)), None)

    @property
    def popups(self) -> Mapping[Page, str]:
        """The pages that were opened and that no step has turned to, each with the URL at which it was opened."""
        return dict(self._popups)

    @property
    def dialogs(self) -> list[MetDialog]:
        """Dialogs since the step began, with the answers given."""
        return self.dialog_answers.told

    @property
    def blocked(self) -> bool:
        """Whether dialogs block the page: one is open, or they open without end."""
        return self.dialog_answers.blocking(self._current.page)

    def addresses(self, page: Page) -> tuple[str, ...]:
        """The page's address, and that of its document if a script has only changed the query."""
        frame = self._frames.get(page)
        document = frame.document if frame else None
        known = document is not None and document != page.url and _path(document) == _path(page.url)
        return (page.url, document) if known and document else (page.url,)

    @contextmanager
    def on_broken_off(self, call: Callable[[], object]) -> Iterator[None]:
        """Inside, `call` is called if the main frame's document breaks off after it had begun to arrive."""
        frame = self._current
        frame.broken_off = call
        try:
            yield
        finally:
            frame.broken_off = None

    async def settled(self) -> None:
        """Wait until no navigation of the main frame is under way."""
        await self._current.settled()

    @property
    def arriving(self) -> bool:
        """Whether the rest of the current page's document may still come."""
        pending = self._current.pending
        return pending is not None and not pending.parsed and pending.error is None

    @property
    def loading(self) -> Collection[Request]:
        """What the current page requested since its last navigation and does not have yet."""
        return self._current.pending.loading if self._current.pending else ()

    def console(self) -> tuple[str, ...]:
        """The console's lines as people read them."""
        return tuple(map(str, self.console_lines()))

    def console_lines(self) -> tuple[ConsoleLine, ...]:
        """The console's lines; a failed request that Chromium itself reported appears once.

        The first line gives the number of older ones that were dropped, if any were.
        """
        reported = {line.place.rpartition(":")[0] for line in self.lines if line.text.startswith("Failed to load")}
        kept = [
            line.as_console_line() for line in self.lines if line.failed_url is None or line.failed_url not in reported
        ]
        if not self.lines.dropped:
            return tuple(kept)
        gap = f"{self.lines.dropped} older lines were dropped: the last {CONSOLE_LINES} are kept"
        return ConsoleLine(self.lines[0].at, "WARNING", gap), *kept

    def _add(self, page: Page) -> MainFrame:
        frame = self._frames[page] = MainFrame(page)
        page.on("close", self._on_close)
        for event, kind in COUNTED.items():
            listen(page, event, partial(self._count, kind))
        if self._report:
            page.on("websocket", self._on_websocket)
        return frame

    def _count(self, kind: str, _: Any) -> None:
        self.pace.count_event(kind)

    def _on_close(self, page: Page) -> None:
        if page != self._current.page:
            self._frames.pop(page, None)

    def _on_page(self, page: Page) -> None:
        """A page was opened: the request for its document came before the page was known."""
        self.pace.count_event("new pages")
        opened = self._add(page)
        for request, exchange in self._known.items():
            if self._page_of(request) is not opened:
                continue
            if _is_document(request):
                opened.adopt(exchange)
            else:
                opened.owns(exchange)
                _judge_part(exchange)
        self._popups.append((page, page.url[:LINE_LENGTH]))

    def _on_request(self, request: Request) -> None:
        self.requests += 1
        self.pace.count_event("requests")
        page = self._page_of(request)
        frame = page if page and _is_document(request) else None
        exchange = RequestRecord(request.url, request.method, self._clock.wall(), asked=request)
        if self.promised is not None:
            exchange.promised = self.promised(exchange.method, exchange.url)
        self._remember(request, exchange)
        if exchange.method not in SAFE_METHODS or frame or _frameless(request):
            self._leaves(request, exchange, page)
        if frame:
            frame.navigation_began(exchange)
        if frame is not self._current and (frame or _frameless(request)):
            self.elsewhere.append(exchange)
        if page:
            page.request_sent(request, exchange)

    def _leaves(self, request: Request, exchange: RequestRecord, page: MainFrame | None) -> None:
        """Record a request that may be evidence of a write.

        A request of another open page belongs to no step of this one, unless it is for that page's document: a link or
        a form may have that page as its target.
        """
        document = page is not None and _is_document(request)
        if page in self._bystanders and not document:
            return
        safe, whole = exchange.method in SAFE_METHODS, page is None or document
        before = request.redirected_from
        sent = self.sending.leaves(
            exchange.method,
            exchange.url,
            page=(whole or not safe) and request.is_navigation_request(),  # a form in a frame counts too
            after=self._sent.get(before) if before else None,
            body=None if safe else request.post_data_buffer,
            before=not safe and self._parting is not None and self._parting.sends(request, page),
            routed=exchange.promised,
        )
        if sent:
            self._sent[request] = sent
            if len(self._sent) > NETWORK_ENTRIES:
                del self._sent[next(iter(self._sent))]

    def _remember(self, request: Request, exchange: RequestRecord) -> None:
        self.exchanges.append(exchange)
        self._known[request] = exchange
        if len(self._known) > NETWORK_ENTRIES:
            del self._known[next(iter(self._known))]

    def _page_of(self, request: Request) -> MainFrame | None:
        """The page that sends the request; None: a service worker, or a page that is still opening."""
        if _frameless(request):
            return None
        try:
            return self._frames.get(request.frame.page)
        except PlaywrightError:
            return None

    def routed(self, request: Request, route: int) -> None:
        """A route answers a request: no site gets it."""
        if exchange := self._known.get(request):
            exchange.routed = route
        self.held_back(request)

    def held_back(self, request: Request) -> bool:
        """The request does not leave. Returns whether an act may have caused it."""
        if sent := self._sent.get(request):
            self.sending.routed(sent)
        return sent is not None

    def _on_response(self, response: Response) -> None:
        self.pace.count_event("answers")
        if exchange := self._known.get(response.request):
            exchange.status, exchange.headers = response.status, Later(lambda: response.headers)
            if exchange is self._current.navigation:
                exchange.wanted = response.status in self._wanted
            _judge_part(exchange)
        if sent := self._sent.get(response.request):
            self.sending.answered(sent)

    def _on_request_finished(self, request: Request) -> None:
        if page := self._page_of(request):
            page.request_ended(request)

    def _on_request_failed(self, request: Request) -> None:
        text = request.failure or "net::ERR_FAILED"
        exchange, page = self._known.get(request), self._page_of(request)
        if sent := self._sent.get(request):
            self.sending.failed(sent, text)
        if exchange:
            exchange.error = text
            _judge_part(exchange)
            if page and _is_document(request):
                page.failed(exchange)
        if page:
            page.request_ended(request)
        self.pace.count_event("failed requests")
        place = _truncate_marked(request.url)
        self.lines.append(LoggedLine("ERROR", f"Failed to load resource: {text} {place}", failed_url=request.url))
        if self._report:
            self._report(request.url, text)

    def _on_websocket(self, socket: WebSocket) -> None:
        """Report a WebSocket that could not be opened: there is no request for it."""
        if report := self._report:
            socket.on("socketerror", lambda text: report(socket.url, text))

    def _on_console(self, message: ConsoleMessage) -> None:
        self.pace.count_event("console lines")
        level = "WARNING" if message.type == "warning" else message.type.upper()
        self.lines.append(LoggedLine(level, _truncate_marked(message.text), _place(message.location)))

    def _on_page_error(self, error: WebError) -> None:
        self.pace.count_event("page errors")
        self.lines.append(LoggedLine("ERROR", f"Uncaught {_truncate_marked(str(error.error))}"))

    def _complain(self, text: str) -> None:
        self.lines.append(LoggedLine("WARNING", _truncate_marked(text)))


class _Parting:
    """A page that an `open` leaves. What it sends until then is not caused by the `open`.

    Chromium does not report the requests that it sends on `pagehide`, when the other document is already there.
    """

    def __init__(self, page: MainFrame, url: str) -> None:
        self._page, self._url, self._arrivals = page, urldefrag(url).url, page.arrivals

    def sends(self, request: Request, page: MainFrame | None) -> bool:
        """Return whether the page sent this request: by its referer, if that names a page that is not opened again."""
        if page is not self._page:
            return False
        named, opened = request.headers.get("referer"), page.navigation
        again = opened is not None and urldefrag(opened.url).url == self._url
        if named and not again and urlsplit(named).path not in ("", "/"):  # otherwise it may be only the origin
            return urldefrag(named).url == self._url
        return page.arrivals == self._arrivals


def _judge_part(exchange: RequestRecord) -> None:
    """Note at its document that a request has failed or was refused; one that the browser gave up was not needed."""
    failed = exchange.error is not None and net_error(exchange.error) != GIVEN_UP
    if exchange.of is not None and (failed or (exchange.status or 0) >= 400):
        exchange.late = exchange.of.loaded
        exchange.of.lacks(exchange)


def _path(url: str) -> tuple[str, str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc, parts.path


def _is_document(request: Request) -> bool:
    """Return whether the request of a known page is for its main frame."""
    return request.is_navigation_request() and request.frame.parent_frame is None


def _frameless(request: Request) -> bool:
    """Return whether the request is for the document of a page that is still opening: it has no frame yet."""
    if not request.is_navigation_request():
        return False
    try:
        return request.frame is None
    except PlaywrightError:
        return True


def _place(location: Any) -> str:
    return f"{location['url']}:{location['lineNumber']}" if location.get("url") else ""


def _truncate_marked(text: str) -> str:
    """The text, with a sign where it was cut: the redaction must see later that something is missing."""
    return text if len(text) <= LINE_LENGTH else text[: LINE_LENGTH - 1] + "…"
