"""A session's browser context: closed and replaced when it can no longer be trusted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field
from playwright.async_api import BrowserContext, CDPSession, Locator, Page, Playwright, Route, StorageState
from playwright.async_api import Error as PlaywrightError

from harness.browser.bounded import bounded
from harness.browser.domains import bypass
from harness.browser.emulation import Emulation
from harness.browser.exchanges import ApiSender, RequestRecord
from harness.browser.har import HarSegment
from harness.browser.heard import Heard
from harness.browser.locating import look_for_test_id
from harness.browser.main_frame import Opened
from harness.browser.offline import UNNOTICED, keep_offline
from harness.browser.page_events import PageEvents
from harness.browser.process import Chromium, answers
from harness.browser.raw_trace import RawTrace
from harness.browser.request import SessionRequest
from harness.browser.storage import put_databases, without_databases
from harness.browser.unreported import open_channels
from harness.model.dialogs import MetDialog
from harness.model.record import ConsoleLine, Sent
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock, Deadline, poll_until
from harness.resilience.events import Emit, PagesEnded
from harness.spec.names import Domains, origin_of
from harness.spec.names import seconds as words

CLOSE_SECONDS = 3.0
_STOPPED_SECONDS = 0.75
"""Seconds of silence, twice in a row, after which a browser is taken for stopped and killed, with all its sessions."""
_PROMPT_SECONDS = 0.3
"""Seconds after which a context that is still not closed is examined; nearly all are closed by then."""
_FREED_SECONDS = 0.3
"""Seconds that the page may take to answer before its context is closed."""
DROWNED_SECONDS = 2.0
"""Seconds after which a browser that only one session uses is killed if it still has events of stopped pages to tell:
its context would be closed after them.
"""
_END_SECONDS = 5.0
"""Seconds that the browser may take to end the pages of a context that does not close, before it is killed: other tasks
may have pages in it."""
_KILL_SECONDS = 1.0
"""Seconds that a killed browser may take to end."""
_TRACE_START_SECONDS = 1.0
TINT = "rgba(255, 0, 102, 0.35)"
"""The colour of what is marked in a picture."""
_PROBE_SECONDS = 0.25
"""Seconds of silence after which a page counts as hanging."""


class BrowserPool(Protocol):
    """What a session needs from the pool of browsers that it came from."""

    tell: Emit
    """Receives the event about pages that outlived their context."""

    @property
    def playwright(self) -> Playwright: ...

    async def open_tab(self, request: SessionRequest, state: StorageState | None) -> tuple[Tab, Chromium]: ...

    async def release(self, chromium: Chromium) -> None: ...

    def kill_driver(self, by: str) -> None: ...


class ContextHandle:
    """The contexts of a session, one after the other. Console, HAR files and the count of requests continue."""

    def __init__(self, pool: BrowserPool, clock: Clock, request: SessionRequest, chromium: Chromium, tab: Tab) -> None:
        self._pool, self._clock, self._request = pool, clock, request
        self._console: list[ConsoleLine] = []
        self.segments: list[HarSegment] = []
        """The requests of each context, in order."""
        self.earlier: list[RawTrace] = []
        """The traces of the contexts that were replaced, in order."""
        self._sent_before = 0
        self.watches: list[PageEvents] = []
        """What was seen of each context, in order."""
        self._left: list[Sent] = []
        """The requests that left the pages of closed contexts."""
        self.on_move: Callable[[Tab], Awaitable[None]] | None = None
        """Called with each tab that replaces another, before anything is opened in it. It never raises."""
        self._move(chromium, tab)

    def _move(self, chromium: Chromium, tab: Tab) -> None:
        self.chromium, self.tab, self.ended = chromium, tab, False
        self.watches.append(tab.watch)
        self.segments += [HarSegment(tab.har, tab.watch.exchanges)] if tab.har else []

    @property
    def requests(self) -> int:
        """The number of requests of all contexts so far."""
        return self._sent_before + self.tab.watch.requests

    @property
    def exchanged(self) -> list[RequestRecord]:
        """The requests of all contexts so far: of each the newest ones."""
        return [each for watch in self.watches for each in watch.exchanges]

    @property
    def dialogs(self) -> tuple[MetDialog, ...]:
        """The dialogs of all contexts so far."""
        return tuple(each for watch in self.watches for each in watch.dialog_answers.all)

    def take_sent(self) -> tuple[Sent, ...]:
        """The requests that left the pages since the last call (ports.Session)."""
        before, self._left = self._left, []
        return (*before, *self.tab.watch.sending.take())

    @contextlib.contextmanager
    def ignore_requests(self) -> Iterator[None]:
        """Ignore the requests that leave inside: recovery causes them, not a step."""
        before = self.take_sent()
        try:
            yield
        finally:
            self.take_sent()
            self._left = [*before]

    @property
    def world(self) -> str:
        """The world of the task."""
        return self._request.world

    @property
    def console(self) -> tuple[ConsoleLine, ...]:
        """The console's lines, those of closed contexts included."""
        return tuple(self._console) if self.ended else (*self._console, *self.tab.watch.console_lines())

    async def record(self, *, freeing: bool = True) -> None:
        """Start the trace if the task wants one and it does not run yet, on a page that answers.

        `freeing`: a page that hangs is freed first.
        """
        if not self._request.traceable or self.tab.traced:
            return
        waits = self.tab.watch.frame.unanswered is not None  # then the page waits for a server, and is not replaced
        try:
            async with asyncio.timeout(_TRACE_START_SECONDS):
                ready = self.tab.freed if freeing else self.tab.answers
                if waits or await ready(_PROBE_SECONDS):
                    await self.tab.trace()
        except (PlaywrightError, TimeoutError):
            return  # a page that is gone cannot be recorded; the evidence says so

    async def replace(self, state: StorageState | None, until: Deadline, *, restart: bool = False) -> Failure | None:
        """Close the context and open a new one with `state`.

        `restart` ends the browser too, unless it has other sessions, which must not suffer. A browser that is gone or
        does not answer is replaced in any case.
        """
        old, chromium, held = self.tab, self.chromium, not self.ended
        await self._close(until.clip(CLOSE_SECONDS / 2, self._clock.now()))
        if restart and chromium.sessions <= held:
            await self.kill()
        try:
            failure = await self._take(state, until)
        finally:
            if held:  # not earlier: a browser without contexts may end
                await self._pool.release(chromium)
        if failure is None:
            self.tab.passwords |= old.passwords
            if old.traced:
                self.earlier.append(old.raw)
                await self.record()
        return failure

    async def _take(self, state: StorageState | None, until: Deadline) -> Failure | None:
        state = state or self._request.storage
        left = until.left(self._clock.now())
        try:
            async with asyncio.timeout(left):
                tab, chromium = await self._pool.open_tab(self._request, without_databases(state) if state else None)
        except Failed as error:
            return error.failure
        except TimeoutError:
            return Failure("BROWSER_UNRESPONSIVE", f"no new page in {words(left)}", tainted=True)
        self._sent_before += self.tab.watch.requests
        self._left += self.tab.watch.sending.take()
        self._move(chromium, tab)
        if self.on_move is not None:
            await self.on_move(tab)
        return await self._put_databases(state, until) if state else None

    async def _put_databases(self, state: StorageState, until: Deadline) -> Failure | None:
        left = until.left(self._clock.now())
        try:
            async with asyncio.timeout(left):
                await put_databases(self.tab.context, state)
        except (PlaywrightError, TimeoutError):
            return Failure("BROWSER_UNRESPONSIVE", f"IndexedDB could not be restored in {words(left)}", tainted=True)
        return None

    async def kill(self) -> None:
        """Kill the browser and wait until it has ended, so that no other session gets it."""
        self.chromium.kill(self._request.world)
        await poll_until(self._clock, lambda: not self.chromium.alive, 0.01, _KILL_SECONDS)

    async def end(self, seconds: float) -> bool:
        """Close the context and release the browser. Returns whether it closed cleanly."""
        if self.ended:
            return True
        closed = await self._close(seconds)
        for raw in (*self.earlier, self.tab.raw):
            raw.discard()
        await self._pool.release(self.chromium)
        return closed

    async def _close(self, seconds: float) -> bool:
        """Close the context. Afterwards its pages can send nothing more, also if that does not succeed in time."""
        if self.ended:
            return True
        self._console += self.tab.watch.console_lines()
        self.ended = self.tab.watch.over = True
        if self.tab.watch.pace.floods:  # requests that it still sends would delay the end of the HAR file
            await self.tab.silence_floods(min(_FREED_SECONDS, seconds / 2))
        if self.tab.drowned(DROWNED_SECONDS) and self.chromium.sessions <= 1 and self.chromium.process.killable:
            self.chromium.workers.forget(self.tab.watch)
            await self.kill()
            self._pool.tell(PagesEnded(self._request.world, seconds, "browser"))
            return False
        closing = asyncio.create_task(self.tab.close())
        try:
            await asyncio.wait({closing}, timeout=min(_PROMPT_SECONDS, seconds))
            if not closing.done():
                await self._help(closing, max(seconds - _PROMPT_SECONDS, 0))
            closed = closing.done() and closing.exception() is None
            if not closed:
                await self._end_pages(seconds)
            return closed
        finally:
            self.chromium.workers.forget(self.tab.watch)
            closing.cancel()

    async def _end_pages(self, seconds: float) -> None:
        """End the pages of a context that is still open: Playwright writes its HAR file before it closes them."""
        chromium, lived = self.chromium, self.chromium.alive
        answering = lived and chromium.driver.alive and not chromium.driver.silent and not chromium.process.stopped
        ended = answering and await chromium.end_context(self.tab.id, _END_SECONDS)
        if not ended:  # also if it is gone: stopped pages outlive it
            await self.kill()
        if lived:
            self._pool.tell(PagesEnded(self._request.world, seconds, "context" if ended else "browser"))

    async def _help(self, closing: asyncio.Task[None], seconds: float) -> None:
        """Help a slow close: a page in a loop would hold it up."""
        with contextlib.suppress(PlaywrightError, TimeoutError):
            async with asyncio.timeout(seconds):
                if await self.chromium.answers(_STOPPED_SECONDS):
                    await self.tab.freed(_FREED_SECONDS)
                    await asyncio.wait({closing})


# One browser context with its current page and all observers of it.

GRACE = 0.15
"""Seconds after its limit at which a call that Playwright did not end is cancelled.

Playwright ends a call at the limit and knows the reason. On a busy machine its answer comes a little later, and must
not be taken for a call that hangs: then the reason would be lost, and the page.
"""
_GIVE_UP_SECONDS = 0.3
"""Seconds to wait for the closing of an abandoned context; after that it goes on in the background."""
_closing: set[asyncio.Task[None]] = set()
"""Closing tasks that are no longer awaited: asyncio itself keeps no strong reference to them."""


async def _set_clock(context: BrowserContext, request: SessionRequest, clock: Clock) -> None:
    """Let the clock of the pages go on where a step has left it, or begin where the task says."""
    if (turned := request.emulation.changes.clock) is not None:
        await turned.install(context, clock)
    elif request.start is not None:
        await context.clock.set_system_time(request.start)
    elif request.clocked:  # else the timers that a page has set before the step would not be due
        await context.clock.install()


async def _intercept(request: SessionRequest, context: BrowserContext, watch: PageEvents) -> None:
    """Let the task's routes answer, and after them the gate for writes; of Playwright's routes the last comes first."""
    if request.gate is not None:
        await request.gate.install(context, watch)
    if request.routing is not None:
        await request.routing.install(context, watch, request.world)


class Tab(Struct):
    """A context and its current page. A session replaces it when it can no longer be trusted."""

    context: BrowserContext
    page: Page
    watch: PageEvents
    control: CDPSession
    """It is made before anything can hang, so that it can end an endless loop."""
    har: Path | None
    raw: RawTrace
    """The files that Playwright writes for the running trace."""
    id: str
    """The browser's own name for the context."""
    user_agent: str = ""
    """The User-Agent that the sites see; it ends in `harness-world/<id>`."""
    sender: ApiSender | None = None
    """What has sent the requests of `api` steps."""
    traced: bool = False
    held: bool = False
    """Whether its pages are stopped from sending (holding.py)."""
    told: bool = False
    """Whether they have told, when they were stopped, what they had sent until then."""
    passwords: set[str] = field(default_factory=set)
    """Hosts and pages (host and path) on which a password was typed."""
    opened: Opened | None = None
    """The last successful `open`."""
    emulation: Emulation = field(default_factory=Emulation)
    aim: object = None
    """What the step under way is to reach: another attempt at it has the same aim."""
    pasting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """The turn to use the browser's clipboard."""
    unreachable: frozenset[str] = frozenset()
    """Hosts of the project that the browser cannot reach, because it runs elsewhere."""
    controls: dict[Page, CDPSession] = field(default_factory=dict)
    """The control sessions of other pages that were acted on or read before."""
    silence: asyncio.Future[Any] | None = None
    """Ends when the scripts of pages that flood the browser are stopped, and what they have told is read."""
    silenced: float = 0.0
    """When that was asked for."""

    @classmethod
    async def open(
        cls,
        chromium: Chromium,
        request: SessionRequest,
        clock: Clock,
        proxy: str,
        emulated: Mapping[str, Any],
        state: StorageState | None,
        ready: Callable[[Tab], Awaitable[None]] | None = None,
    ) -> Tab:
        """Make context and page, and call `ready` with them. Raises the errors of Playwright and of `ready`.

        If it is interrupted, no context is left in the browser.
        """
        har = None if request.recording == "minimal" else _new_har(request.folder)
        options = context_options(request, chromium.user_agent, proxy, emulated, state, har)
        coming = asyncio.ensure_future(chromium.browser.new_context(**options))
        try:
            context = await asyncio.shield(coming)
            if options.get("offline"):
                keep_offline(context, "declared")
            tab = await cls._of(context, chromium, request, clock, har)
            tab.user_agent = options["user_agent"]
            if ready is not None:
                await ready(tab)
        except BaseException:
            await _give_up(coming)
            raise
        return tab

    @classmethod
    async def _of(
        cls, context: BrowserContext, chromium: Chromium, request: SessionRequest, clock: Clock, har: Path | None
    ) -> Tab:
        look_for_test_id(context, request.context.test_id_attribute)
        await _set_clock(context, request, clock)
        await context.add_init_script(UNNOTICED)
        await request.clipboard.install(context)
        if script := request.first_script:
            await context.add_init_script(script)
        if request.cookies:
            await context.add_cookies(request.cookies)
        if request.allowed_domains:
            for template in request.virtual_hosts:
                await context.route(f"{origin_of(template)}/**", _gate(request.domains))
        watch = PageEvents(clock, request.on_request_failed, chromium.pace, request.announcer)
        watch.heard = Heard(request.hears)
        if request.videos is not None:
            request.videos.follow(context, clock)
        page = await context.new_page()
        watch.attach(context, page)
        await _intercept(request, context, watch)
        control = await context.new_cdp_session(page)
        raw = RawTrace.new(chromium.traces)
        target = (await control.send("Target.getTargetInfo"))["targetInfo"]
        name = str(target["browserContextId"])
        chromium.workers.watch(name, watch)
        pasting, unreachable = chromium.pasting, chromium.unreachable
        tab = cls(context, page, watch, control, har, raw, name, pasting=pasting, unreachable=unreachable)
        tab.emulation = request.emulation
        if request.traced_from_start:
            await tab.trace()
        return tab

    async def close(self) -> None:
        """Close the context. Raises Playwright's errors."""
        if self.sender is not None:
            await self.sender.context.dispose()
        await self.context.close()

    async def switch(self, page: Page) -> None:
        """Act on another page of the context from now on. Raises Playwright's errors."""
        control = await self.control_of(page)
        await self.emulation.apply_to(page)
        self.controls[self.page] = self.control
        self.page, self.control = page, control
        self.watch.follow(page)

    async def control_of(self, page: Page) -> CDPSession:
        """The control session of any page of the context. Raises Playwright's errors."""
        if page is self.page:
            return self.control
        if page not in self.controls:
            self.controls[page] = await self.context.new_cdp_session(page)
        return self.controls[page]

    async def reopen(self) -> None:
        """Act on a new page of the same context; the page before is given up. Raises Playwright's errors."""
        lost = self.page
        await self.switch(await self.context.new_page())
        self.controls.pop(lost, None)
        with contextlib.suppress(PlaywrightError):
            await lost.close()

    async def answers(self, seconds: float) -> bool:
        """Return whether the page answers now."""
        return await answers(self.control, seconds)

    async def freed(self, seconds: float) -> bool:
        """End whatever holds the page up, a navigation or an endless script; return whether it answers then."""
        if self.drowned():
            await self.silence_floods(seconds)
            if self.drowned():
                return False
        if self.watch.frame.unanswered:
            await self.stop_loading(seconds)
        if await answers(self.control, seconds):
            return True
        return await self.end_scripts(seconds, self.control) and await answers(self.control, seconds)

    async def end_scripts(self, seconds: float, *controls: CDPSession) -> bool:
        """End the scripts that run now, in these or in all pages that were acted on; return whether they were told."""
        controls = controls or (self.control, *self.controls.values())
        ends = [each.send("Runtime.terminateExecution") for each in controls]
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*ends, return_exceptions=True)
        except TimeoutError:
            return False
        return True

    def begin_silence(self) -> asyncio.Future[Any]:
        """Stop the scripts of pages that flood the browser with events, for good; returns what ends when they answer.

        The commands arrive at once, but the answers only after the events before them have been read.
        """
        if self.silence is None:
            controls = {self.control, *self.controls.values()}
            stops = [each.send("Emulation.setScriptExecutionDisabled", {"value": True}) for each in controls]
            if self.watch.pace.heavy:  # what waits in the page to be sent would take seconds
                stops += [each.send("Page.stopLoading") for each in controls]
            self.silence, self.silenced = asyncio.gather(*stops, return_exceptions=True), self.watch.now()
        return self.silence

    async def silence_floods(self, seconds: float) -> None:
        """Stop the scripts of pages that flood the browser with events, and wait until they answer."""
        await asyncio.wait({self.begin_silence()}, timeout=seconds)

    def drowned(self, seconds: float = 0.0) -> bool:
        """Return whether pages were stopped so long ago and their events are still being read: nothing answers yet."""
        waits = self.silence is not None and not self.silence.done()
        return waits and self.watch.now() - self.silenced >= seconds

    async def note_unreported(self, seconds: float) -> None:
        """Record that a page may have sent by a channel of which no browser reports. It never raises."""
        for control in {self.control, *self.controls.values()}:
            for what in await open_channels(control, seconds):
                self.watch.sending.announce(self.watch.sending.doubt(what))

    async def stop_loading(self, seconds: float) -> None:
        """Stop a navigation that does not end, since it would delay whatever comes next."""
        await bounded(self.control.send("Page.stopLoading"), seconds, None)  # the next call finds out what delays it

    async def picture(
        self,
        path: Path,
        seconds: float,
        target: Locator | None = None,
        *,
        full_page: bool = False,
        marks: Sequence[Locator] = (),
    ) -> None:
        """Take a screenshot of the viewport, of one element, or of the page from top to bottom, into a file.

        `marks` are tinted in it. Playwright's own timeout comes first, because it names the problem of the element.
        """
        await take_picture(self.page if target is None else target, path, seconds, full_page=full_page, marks=marks)

    async def steady_picture(
        self, target: Locator | None, ms: float, mask: Sequence[Locator], *, full_page: bool
    ) -> bytes:
        """A PNG to compare: without animations and caret, one pixel for each CSS pixel, the same on every screen."""
        shot = partial(self.page.screenshot, full_page=full_page) if target is None else target.screenshot
        return await shot(timeout=ms, animations="disabled", caret="hide", scale="css", mask=mask)

    async def trace(self) -> None:
        """Record snapshots and screenshots from now on."""
        if not self.traced:
            self.traced = True
            await self.context.tracing.start(screenshots=True, snapshots=True, sources=False, name=self.raw.name)


async def take_picture(
    of: Page | Locator, path: Path, seconds: float, *, full_page: bool = False, marks: Sequence[Locator] = ()
) -> None:
    """Take a screenshot of a page or an element into a file, with these elements tinted.

    Playwright's own timeout comes before ours.
    """
    async with asyncio.timeout(seconds + GRACE):
        shot = partial(of.screenshot, full_page=full_page) if isinstance(of, Page) else of.screenshot
        await shot(path=path, timeout=seconds * 1000, mask=[*marks] or None, mask_color=TINT if marks else None)


def _gate(domains: Domains) -> Callable[[Route], Awaitable[None]]:
    """Return a handler of routes that blocks requests to virtual hosts which the task may not reach.

    To the network such a host is a server that is allowed. Playwright calls no handler for the target of a redirect:
    `navigation_failure` checks where a page ends up.
    """

    async def decide(route: Route) -> None:
        if domains.allows(route.request.url):
            await route.fallback()
        else:
            await route.abort("blockedbyclient")

    return decide


async def _give_up(coming: asyncio.Future[BrowserContext]) -> None:
    """Close a context that nobody uses, even if it is still being made."""

    async def close() -> None:
        with contextlib.suppress(PlaywrightError, OSError):  # OSError: there is no room for its HAR file
            await (await coming).close()

    closing = asyncio.create_task(close())
    _closing.add(closing)
    closing.add_done_callback(_closing.discard)
    await asyncio.wait({closing}, timeout=_GIVE_UP_SECONDS)


def context_options(
    request: SessionRequest,
    user_agent: str,
    proxy: str,
    emulated: Mapping[str, Any],
    state: StorageState | None,
    har: Path | None,
) -> dict[str, Any]:
    """The options of `browser.new_context`; `emulated` are those that the task chooses. Pure."""
    agent = emulated.get("user_agent", user_agent)
    options: dict[str, Any] = {
        **emulated,
        "user_agent": f"{agent} harness-world/{request.world}",
        "accept_downloads": True,
    }
    if request.allowed_domains:
        options["proxy"] = {"server": proxy, "bypass": bypass(request.domains)}
    if headers := request.mark.headers(request.world):
        options["extra_http_headers"] = {**emulated.get("extra_http_headers", {}), **headers}
    if state is not None:
        options["storage_state"] = state
    if har is not None:
        options |= {"record_har_path": har, "record_har_mode": "full", "record_har_content": "embed"}
    return options


def _new_har(folder: Path) -> Path:
    """A file of its own for each context, made at once: a browser that dies writes none, and would leave its name."""
    har = folder / f"har-{len(list(folder.glob('har-*.har'))) + 1}.har"
    har.touch()
    return har
