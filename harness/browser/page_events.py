"""Records what happens in the pages while steps run: requests, navigations, crashes, console, dialogs."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import (
    BrowserContext,
    CDPSession,
    ConsoleMessage,
    Page,
    Request,
    Response,
    WebError,
    WebSocket,
)
from playwright.async_api import Error as PlaywrightError

from harness.browser.dialogs import Dialogs
from harness.browser.exchanges import RequestRecord
from harness.browser.flood import Later, Newest, Pace
from harness.browser.heard import Heard
from harness.browser.main_frame import MainFrame, listen
from harness.browser.net_log import milliseconds
from harness.browser.network_errors import GIVEN_UP, net_error
from harness.browser.sending import Announcer, Sending
from harness.browser.unreported import FAREWELL, Parting, listens
from harness.masking import cut
from harness.model.dialogs import MetDialog
from harness.model.record import MESSAGE, SAFE_METHODS, ConsoleLine, Sent
from harness.resilience import Clock
from harness.spec.step_keys import ArrivalKeys
from harness.spec.url_patterns import PAGE_ERROR

# Observes the pages while the steps run: navigation, crash, dialogs, console, failed requests.

CONSOLE_LINES = 1000
_NETWORK_ENTRIES = 500
_LINE_LENGTH = 2000
_POPUPS = 100
_COUNTED = {
    "framenavigated": "navigations", "worker": "workers", "frameattached": "frames", "download": "downloads",
}  # fmt: skip
"""Events of a page that are only counted: a page may flood the browser with them too."""
_MESSAGES = "socket messages"


@dataclass(frozen=True, slots=True)
class LoggedLine:
    """One line of the console. `failed_url`: the URL of a failed request that the line reports."""

    level: str
    text: str
    place: str = ""
    failed_url: str | None = None
    kind: str = ""
    """The type of the page's own line, as `console(...)` has it; empty for a line of the harness."""
    at: datetime = field(default_factory=lambda: datetime.now(UTC), compare=False)


class PageEvents:
    """Listens to one context and its current page. Bounded: old lines and requests are dropped."""

    _spared: tuple[Callable[[], None], ...] = ()
    """What ends the reading of events that can be spared at the end of the task."""

    def __init__(
        self,
        clock: Clock,
        on_request_failed: Callable[[str, str], None] | None,
        browser: Pace | None = None,
        announcer: Announcer | None = None,
    ) -> None:
        """`browser` is the pace of the browser's events: those of this context count there too."""
        self._clock, self._report = clock, on_request_failed
        self.pace = Pace(clock, browser)
        """The rate of events: if a page floods the browser with them, answers come late."""
        self._known: dict[Request, RequestRecord] = {}
        self._frames: dict[Page, MainFrame] = {}
        self.dialog_answers = Dialogs(self._complain)
        self.elsewhere: deque[RequestRecord] = deque(maxlen=_POPUPS)
        """The newest documents that other pages requested, also pages that are still opening."""
        self._popups: deque[tuple[Page, str]] = deque(maxlen=_POPUPS)
        self.lines: Newest[LoggedLine] = Newest(CONSOLE_LINES)
        self.exchanges: Newest[RequestRecord] = Newest(_NETWORK_ENTRIES)
        self.requests = self.answers = 0
        """The number of requests, and of answers, of all pages so far."""
        self.sending = Sending(clock.now, announcer)
        self.heard: Heard | None = None
        """What is kept only for tasks whose criteria read it."""
        self.spared = False
        """Whether the rest of the console was not read."""
        self.promised: Callable[[str, str], bool] | None = None
        """Tells by method and URL whether a route answers a request; None: the task has no routes."""
        self._sent: dict[Request, Sent] = {}
        """The requests among `_known` that may be evidence of a write."""
        self._wanted: Collection[int] = ()
        self._routed_sockets: Counter[str] = Counter()
        """URL -> how many WebSockets a route connects to their server: the browser will report them."""
        self.began = milliseconds()
        """The time of the browser's log from which on what it tells may be of this context."""
        self.left_at: deque[tuple[float, bool]] = deque(maxlen=_POPUPS)
        """The times at which documents were left, by the same clock, and whether an `open` left them."""
        self.origins: set[str] = set()
        """The origins of all documents so far."""
        self._doubts: deque[Sent] = deque(maxlen=_POPUPS)
        """What workers may have sent before they were watched."""
        self.over = False
        """Whether the context is being closed, or is held: a page that is left then sends nothing."""
        self._parting: Parting | None = None
        """The page that the last `open` leaves; None once something else was done."""

    def attach(self, context: BrowserContext, page: Page) -> None:
        """Listen. `page` is the current page; the state of the others is kept."""
        self.frame = self._add(page)
        """The main frame of the current page."""
        listen(context, "request", self._on_request)
        context.on("dialog", self.dialog_answers.on_dialog)
        listen(context, "dialog", partial(self._count, "dialogs"))
        self._spared = (
            listen(context, "response", self._on_response),
            listen(context, "requestfailed", self._on_request_failed),
            listen(context, "requestfinished", self._on_request_finished),
            listen(context, "console", self._on_console),
            listen(context, "weberror", self._on_page_error),
        )
        listen(context, "page", self._on_page)

    def spare(self) -> None:
        """Read no more lines of the console and no answers: they come faster than that, and what is asked waits for
        them. The driver does not even pass them on then.
        """
        for end in self._spared:
            end()
        if self._spared:
            self.spared = True
            self._complain("the page floods the browser: what it logged and was answered after this was not read")
        self._spared = ()

    def follow(self, page: Page) -> None:
        """Make this the current page; what it did until now belongs to the step that turns to it."""
        left, self.frame = self.frame, self._frames.get(page) or self._add(page)
        if opened := self.frame.latest:
            opened.wanted = opened.wanted or opened.status in self._wanted
        self._popups = deque((entry for entry in self._popups if entry[0] is not page), maxlen=_POPUPS)
        if left.page.is_closed():
            self._frames.pop(left.page, None)

    def begin(self, kind: type | None = None, *, looks: bool = False, wanted: Collection[int] = ()) -> None:
        """An attempt at a step of this kind begins: earlier events do not belong to it. `looks`: it only reads.

        `wanted`: the statuses that the step declares for the document that it opens.
        """
        self.frame.navigation, opens = None, kind is not None and issubclass(kind, ArrivalKeys)
        self._wanted = wanted
        if not looks and not opens and self.frame.latest is not None:
            self.frame.latest.touched = self.frame.latest.touched or self._clock.wall()
        if not looks:
            self._parting = Parting(self.frame, self.now()) if opens else None
        self.dialog_answers.begin(kind)
        self.sending.begin(looks=looks, opens=opens)

    def passed(self) -> None:
        """The attempt has passed."""
        self.dialog_answers.passed()

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
        return self.dialog_answers.blocking(self.frame.page)

    def addresses(self, page: Page) -> tuple[str, ...]:
        """The page's address, and that of its document if a script has only changed the query."""
        frame = self._frames.get(page)
        document = frame.document if frame else None
        known = document is not None and document != page.url and _path(document) == _path(page.url)
        return (page.url, document) if known and document else (page.url,)

    @contextmanager
    def on_broken_off(self, call: Callable[[], object]) -> Iterator[None]:
        """Inside, `call` is called if the main frame's document breaks off after it had begun to arrive."""
        frame = self.frame
        frame.broken_off = call
        try:
            yield
        finally:
            frame.broken_off = None

    @property
    def arriving(self) -> bool:
        """Whether the rest of the current page's document may still come."""
        pending = self.frame.pending
        return pending is not None and not pending.parsed and pending.error is None

    @property
    def loading(self) -> Collection[Request]:
        """What the current page requested since its last navigation and does not have yet."""
        return self.frame.pending.loading if self.frame.pending else ()

    def console_lines(self) -> tuple[ConsoleLine, ...]:
        """The console's lines; a failed request that Chromium itself reported appears once.

        The first line gives the number of older ones that were dropped, if any were.
        """
        reported = {line.place.rpartition(":")[0] for line in self.lines if line.text.startswith("Failed to load")}
        shown = (line for line in self.lines if line.failed_url is None or line.failed_url not in reported)
        kept = [ConsoleLine(line.at, line.level, line.text, line.place) for line in shown]
        if not self.lines.dropped:
            return tuple(kept)
        gap = f"{self.lines.dropped} older lines were dropped: the last {CONSOLE_LINES} are kept"
        return ConsoleLine(self.lines[0].at, "WARNING", gap), *kept

    def _add(self, page: Page) -> MainFrame:
        frame = self._frames[page] = MainFrame(page)
        frame.on_left = lambda listened: self._on_left(frame, listened)
        page.on("close", self._on_close)
        listen(page, "websocket", lambda socket: self._on_websocket(socket, frame))
        for event, kind in _COUNTED.items():
            listen(page, event, partial(self._count, kind))
        return frame

    async def ask_what_leaving_does(self, control: CDPSession) -> None:
        """Find out whether the current document listens for being left. It never raises."""
        frame, document = self.frame, self.frame.latest
        if await listens(control):
            frame.listens = document

    def _on_left(self, frame: MainFrame, listened: bool) -> None:
        """A document is gone; one that listened for that may have sent something with its last breath."""
        if self.over:
            return
        leaving = self._parting is not None and self._parting.page is frame
        if not (leaving and (self.sending.unacted or frame.shown is None)):
            self.left_at.append((milliseconds(), leaving))
        if listened:
            self.sending.announce(self.sending.doubt(FAREWELL, before=leaving))

    def _count(self, kind: str, _: Any) -> None:
        self.pace.count_event(kind)

    def _on_close(self, page: Page) -> None:
        if frame := self._frames.get(page):
            frame.left()
        if page != self.frame.page:
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
        self._popups.append((page, cut(page.url, _LINE_LENGTH)))

    def _on_request(self, request: Request) -> None:
        self.requests += 1
        self.pace.count_event("requests")
        page = self._page_of(request)
        frame = page if page and _is_document(request) else None
        exchange = RequestRecord(request.url, request.method, self._clock.wall(), asked=request)
        if self.promised is not None:
            exchange.promised = self.promised(exchange.method, exchange.url)
        self.exchanges.append(exchange)
        self._known[request] = exchange
        if len(self._known) > _NETWORK_ENTRIES:
            del self._known[next(iter(self._known))]
        if request.is_navigation_request():
            self.origins.add(_origin(exchange.url))
        if exchange.method not in SAFE_METHODS or frame or _frameless(request):
            self._leaves(request, exchange, page)
        if frame:
            frame.navigation_began(exchange)
        if frame is not self.frame and (frame or _frameless(request)):
            self.elsewhere.append(exchange)
        if page:
            page.request_sent(request, exchange)

    def _leaves(self, request: Request, exchange: RequestRecord, page: MainFrame | None) -> None:
        """Record a request that may be evidence of a write, of any page: a step may have woken another one.

        The report of a content security policy tells a site only what the browser has refused.
        """
        if request.resource_type == "other" and request.headers.get("content-type") == "application/csp-report":
            self.sending.tells(exchange.method, exchange.url)
            return
        safe, whole = exchange.method in SAFE_METHODS, page is None or _is_document(request)
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
            if len(self._sent) > _NETWORK_ENTRIES:
                del self._sent[next(iter(self._sent))]

    def undecided(self) -> frozenset[int]:
        """The requests that may be evidence of a write and have neither answer nor error yet, each as a number."""
        known = ((sent, self._known.get(request)) for request, sent in self._sent.items() if sent.unsafe)
        return frozenset(id(sent) for sent, of in known if of and of.status is None and of.error is None)

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

    def patched(self, request: Request, route: int) -> None:
        """A route has changed the answer of a site."""
        if exchange := self._known.get(request):
            exchange.routed, exchange.patched = route, True

    def held_back(self, request: Request) -> bool:
        """The request does not leave. Returns whether an act may have caused it."""
        if sent := self._sent.get(request):
            self.sending.routed(sent)
        return sent is not None

    def _on_response(self, response: Response) -> None:
        self.answers += 1
        self.pace.count_event("answers")
        if exchange := self._known.get(response.request):
            exchange.status, exchange.headers = response.status, Later(lambda: response.headers)
            if exchange is self.frame.navigation:
                exchange.wanted = response.status in self._wanted
            _judge_part(exchange)
        if sent := self._sent.get(response.request):
            self.sending.answered(sent)

    def _on_request_finished(self, request: Request) -> None:
        if page := self._page_of(request):
            page.request_ended(request)
        if self.heard is not None:
            self.heard.answered(request)

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
        place = cut(request.url, _LINE_LENGTH)
        self.lines.append(LoggedLine("ERROR", f"Failed to load resource: {text} {place}", failed_url=request.url))
        if self._report:
            self._report(request.url, text)

    def _on_websocket(self, socket: WebSocket, page: MainFrame) -> None:
        """Report a WebSocket that could not be opened: there is no request for it. Its messages may write."""
        began = self.now()
        self.pace.count_event("sockets")
        if self._routed_sockets[socket.url]:
            self._routed_sockets[socket.url] -= 1
        else:
            listen(socket, "framesent", lambda text: self._on_message(socket.url, text, page, began))
            listen(socket, "framereceived", lambda text: self.message_passed("received", socket.url, text))
        if report := self._report:
            socket.on("socketerror", lambda text: report(socket.url, text))

    def expect_socket(self, url: str) -> None:
        """A route connects a page's WebSocket to its server, and tells itself of the messages."""
        self._routed_sockets[url] += 1

    def message_passed(self, direction: str, url: str, text: str | bytes) -> None:
        """A page has `sent` a message over a WebSocket, or has `received` it."""
        self.pace.count_event(_MESSAGES)
        if self.heard is not None:
            self.heard.message(direction, url, text)

    def _on_message(self, url: str, text: str | bytes, page: MainFrame, began: float) -> None:
        self.message_passed("sent", url, text)
        body = text.encode() if isinstance(text, str) else text
        before = self._parting is not None and self._parting.outlived_by(began, page)
        self.sending.leaves(MESSAGE, url, page=False, after=None, body=body, before=before)

    # What a worker that no page owns sends (targets.py). It may outlive the page that an `open` leaves.

    def now(self) -> float:
        return self._clock.now()

    def worker_leaves(self, method: str, url: str, body: bytes | None, after: Sent | None, began: float) -> Sent | None:
        """A worker that began at this time sends something; None if it need not be known."""
        before = self._parting is not None and self._parting.outlived_by(began)
        return self.sending.leaves(method, url, page=False, after=after, body=body, before=before)

    def worker_unwatched(self, sent: Sent) -> None:
        """It was not watched, so it may have sent something that was not seen."""
        self._doubts.append(sent)
        self.sending.announce(sent)

    def clear_doubts(self) -> None:
        """The workers that were not watched from their start have sent nothing."""
        for each in self._doubts:
            each.arrived = False
        self._doubts.clear()

    def _on_console(self, message: ConsoleMessage) -> None:
        self.pace.count_event("console lines")
        level, at = "WARNING" if message.type == "warning" else message.type.upper(), message.location
        place = f"{at['url']}:{at['lineNumber']}" if at.get("url") else ""
        self.lines.append(LoggedLine(level, cut(message.text, _LINE_LENGTH), place, kind=message.type))

    def _on_page_error(self, error: WebError) -> None:
        self.pace.count_event("page errors")
        self.lines.append(LoggedLine("ERROR", f"Uncaught {cut(str(error.error), _LINE_LENGTH)}", kind=PAGE_ERROR))

    def _complain(self, text: str) -> None:
        self.lines.append(LoggedLine("WARNING", cut(text, _LINE_LENGTH)))


def _judge_part(exchange: RequestRecord) -> None:
    """Note at its document that a request has failed or was refused; one that the browser gave up was not needed."""
    failed = exchange.error is not None and net_error(exchange.error) != GIVEN_UP
    if exchange.of is not None and (failed or (exchange.status or 0) >= 400):
        exchange.late = exchange.of.loaded
        exchange.of.lacks(exchange)


def _path(url: str) -> tuple[str, str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc, parts.path


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


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
