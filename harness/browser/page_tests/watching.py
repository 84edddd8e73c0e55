"""Watches the contexts that ordinary tests open: their pages, requests and consoles, bounded as those of tasks."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakSet

from msgspec import Struct, field
from playwright._impl.client_instrumentation import ClientInstrumentation
from playwright.async_api import Browser, BrowserContext, CDPSession, Page, Playwright

from harness.browser import isolated
from harness.browser.main_frame import listen
from harness.browser.page_events import PageEvents
from harness.browser.page_tests.calls import FailedCall, context_of, page_of
from harness.browser.page_tests.views import is_reachable, keep_apart, playwright_of, view
from harness.browser.process import LocalProcess
from harness.resilience import SystemClock

_LOST = 5
"""The most contexts of a test that are remembered after they have closed."""


class WatchedContext(Struct, eq=False):
    """A context of a test."""

    implementation: Any
    """Playwright's own object: it knows the loop of the test."""
    context: BrowserContext
    watch: PageEvents
    pages: list[Page] = field(default_factory=list)
    """Its open pages, in the order of opening."""
    controls: dict[Page, asyncio.Future[CDPSession]] = field(default_factory=dict)
    """The control session of each page, made before anything can hang, so that it can end an endless loop."""
    attached: bool = False
    """Whether it had a page."""


class Watcher:
    """The contexts of all tests of this thread, in the order of opening, until they close."""

    def __init__(self, complain: Callable[[Exception], None], *, frees: bool = False) -> None:
        """`complain` receives what went wrong here: the test itself goes on. `frees`: pages that hang can be freed."""
        self._frees = frees
        self.on_request_failed: Callable[[str, str], None] | None = None
        """Receives URL and error of each request that failed."""
        self.finds_processes = False
        """Whether the processes of browsers are found out, so that `kill` can end them."""
        self._processes: dict[Browser, LocalProcess] = {}
        self._complain = complain
        self._thread = threading.get_ident()
        self._clock = SystemClock()
        self._open: list[WatchedContext] = []
        self._lost: deque[WatchedContext] = deque(maxlen=_LOST)
        self._registered: WeakSet[Playwright] = WeakSet()
        self.opened = 0
        """The number of contexts so far."""
        self.acted = 0
        """The number of pages so far."""

    def begin(self) -> None:
        """Watch every Playwright that is started in this thread from now on."""
        keep_apart()
        watcher, original = self, ClientInstrumentation.__init__

        def begun(instrumentation: ClientInstrumentation) -> None:
            original(instrumentation)
            if threading.get_ident() == watcher._thread:
                instrumentation.add_listener(watcher)

        self._original: Any = original
        setattr(ClientInstrumentation, "__init__", begun)  # noqa: B010 - mypy refuses an assignment to a method

    def end(self) -> None:
        """Watch no Playwright that is started after this."""
        setattr(ClientInstrumentation, "__init__", self._original)  # noqa: B010 - as above
        self._open.clear()
        self._lost.clear()

    def kill(self) -> bool:
        """End the processes of the browsers whose pages have requested something; return whether there was one.

        From any thread. Before that, a page is still being opened: Playwright would wait for it without end.
        """
        browsers = {each.context.browser for each in self.contexts if each.pages and each.watch.requests}
        found = [process for browser, process in list(self._processes.items()) if browser in browsers and process.runs]
        for process in found:
            process.kill()
        return bool(found)

    def begin_test(self) -> None:
        """A test begins: what was closed before is of no interest to it."""
        self._lost.clear()
        self._open = [each for each in self._open if is_reachable(each.implementation)]

    @property
    def contexts(self) -> list[WatchedContext]:
        """The open contexts, in the order of opening; without any, those that the test has lost or closed."""
        found = [each for each in self._open if is_reachable(each.implementation)]
        return found or [each for each in self._lost if is_reachable(each.implementation)]

    def beside(self, call: FailedCall) -> list[WatchedContext]:
        """The contexts on whose loop the context of a call is; without one, those on the loop of the last context."""
        found, own = self.contexts, context_of(page_of(call.target))
        if not found:
            return []
        loop = (own if any(each.implementation is own for each in found) else found[-1].implementation)._loop  # noqa: SLF001
        return [each for each in found if each.implementation._loop is loop]  # noqa: SLF001

    async def run_after_create_browser_context(self, implementation: Any) -> None:
        """Called by Playwright with each new context, before the test has it."""
        try:
            await self._register(implementation)
            self._watch(implementation)
            if self.finds_processes and (browser := view(implementation).browser) not in (None, *self._processes):
                self._processes[browser] = await LocalProcess.of(await browser.new_browser_cdp_session())
        except Exception as error:  # noqa: BLE001 - a defect of ours must not fail the call of the test
            self._complain(error)

    async def _register(self, implementation: Any) -> None:
        """Register the scripts of the harness: a page that is open already does not get them any more."""
        playwright = playwright_of(implementation)
        if playwright not in self._registered:
            self._registered.add(playwright)
            await isolated.register(playwright)

    def _watch(self, implementation: Any) -> None:
        context: BrowserContext = view(implementation)
        found = WatchedContext(implementation, context, PageEvents(self._clock, self.on_request_failed))
        self._open.append(found)
        self.opened += 1
        listen(context, "close", lambda _: self._closed(found))
        for page in context.pages:
            self._on_page(found, page)
        listen(context, "page", lambda page: self._on_page(found, page))

    def _closed(self, found: WatchedContext) -> None:
        if found in self._open:
            self._open.remove(found)
            self._lost.append(found)

    def _on_page(self, found: WatchedContext, page: Page) -> None:
        self.acted += 1
        if not found.attached:
            found.attached = True
            found.watch.attach(found.context, page, answers_dialogs=False)
        found.pages.append(page)
        if self._frees:
            found.controls[page] = coming = asyncio.ensure_future(found.context.new_cdp_session(page))
            coming.add_done_callback(lambda each: each.cancelled() or each.exception())  # other browsers have none
        listen(page, "close", lambda _: self._page_closed(found, page))

    def _page_closed(self, found: WatchedContext, page: Page) -> None:
        found.controls.pop(page, None)
        if page in found.pages:
            found.pages.remove(page)


def chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, and those that it came from."""
    seen: set[int] = set()
    inner: BaseException | None = error
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        yield inner
        inner = inner.__cause__ or inner.__context__
