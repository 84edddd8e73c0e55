"""One browser context with the page that is acted on, and all that watches it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import BrowserContext, CDPSession, Locator, Page, Route, StorageState
from playwright.async_api import Error as PlaywrightError

from harness.browser.chromium import Chromium
from harness.browser.domains import bypass
from harness.browser.facts import answers
from harness.browser.raw_trace import RawTrace
from harness.browser.request import SessionRequest
from harness.browser.watch import PageWatch
from harness.resilience import Clock
from harness.spec.names import Domains

GRACE = 0.05
"""Seconds after its limit at which a picture that Playwright did not end is ended from outside."""
GIVE_UP_SECONDS = 0.3
"""How long the closing of a context that nobody takes is waited for; it goes on beyond that."""
_closing: set[asyncio.Task[None]] = set()
"""Contexts that nobody waits for any more: asyncio itself would forget them."""


@dataclass(slots=True)
class Opened:
    """What the last `open` asked for, and the page that was there when it was over."""

    asked: str
    came: str
    acted: bool = False
    """Whether a step since then may have led elsewhere."""


@dataclass(slots=True)
class Tab:
    """A context and the page that is acted on. A session replaces it when it can no longer be trusted."""

    context: BrowserContext
    page: Page
    watch: PageWatch
    control: CDPSession
    """Made before anything can hang: it can end an endless loop."""
    har: Path | None
    raw: RawTrace
    """What Playwright has written of the running trace."""
    traced: bool = False
    passwords: set[str] = field(default_factory=set)
    """Hosts and pages (host and path) on which a password was typed."""
    opened: Opened | None = None
    """The last `open` that passed here."""
    unreachable: frozenset[str] = frozenset()
    """Hosts of the project that the browser cannot reach, because it runs elsewhere."""
    controls: dict[Page, CDPSession] = field(default_factory=dict)
    """The control sessions of other pages, which were acted on or read before."""

    @classmethod
    async def open(
        cls,
        chromium: Chromium,
        request: SessionRequest,
        clock: Clock,
        proxy: str,
        viewport: tuple[int, int],
        state: StorageState | None,
        ready: Callable[[Tab], Awaitable[None]] | None = None,
    ) -> Tab:
        """Make context and page; `ready` is called with them. Raises what Playwright raises, and what `ready` does.

        Whatever cuts it off, no context is left in the browser.
        """
        har = None if request.recording == "minimal" else _new_har(request.folder)
        options = context_options(request, chromium.user_agent, proxy, viewport, state, har)
        coming = asyncio.ensure_future(chromium.browser.new_context(**options))
        try:
            tab = await cls._of(await asyncio.shield(coming), chromium, request, clock, har)
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
        if request.start is not None:
            await context.clock.set_system_time(request.start)
        if script := request.first_script:
            await context.add_init_script(script)
        if request.cookies:
            await context.add_cookies(request.cookies)
        if request.allowed_domains:
            for template in request.virtual_hosts:
                await context.route(template.partition("{host}")[0] + "**", gate(request.domains))
        watch = PageWatch(clock, request.on_request_failed, chromium.pace)
        page = await context.new_page()
        watch.attach(context, page)
        control = await context.new_cdp_session(page)
        raw = RawTrace.new(chromium.traces)
        tab = cls(context, page, watch, control, har, raw, unreachable=chromium.unreachable)
        if request.traced_from_start:
            await tab.trace()
        return tab

    async def switch(self, page: Page) -> None:
        """Act on another page of the context from now on. Raises what Playwright raises."""
        control = await self.control_of(page)
        self.controls[self.page] = self.control
        self.page, self.control = page, control
        self.watch.follow(page)

    async def control_of(self, page: Page) -> CDPSession:
        """The control session of any page of the context. Raises what Playwright raises."""
        if page is self.page:
            return self.control
        if page not in self.controls:
            self.controls[page] = await self.context.new_cdp_session(page)
        return self.controls[page]

    async def reopen(self) -> None:
        """Act on a new page of the same context; the one before is given up. Raises what Playwright raises."""
        lost = self.page
        await self.switch(await self.context.new_page())
        self.controls.pop(lost, None)
        with contextlib.suppress(PlaywrightError):
            await lost.close()

    async def freed(self, seconds: float) -> bool:
        """Whether the page answers, after ending what keeps it from it: a navigation, or a script that does not end."""
        if self.watch.unanswered:
            await self.stop_loading(seconds)
        if await answers(self.control, seconds):
            return True
        try:
            async with asyncio.timeout(seconds):
                await self.control.send("Runtime.terminateExecution")
        except (TimeoutError, PlaywrightError):
            return False
        return await answers(self.control, seconds)

    async def silenced(self, seconds: float) -> None:
        """Stop the scripts of pages that flood the browser with events, for good; and wait until they answer.

        The commands arrive at once, the answers only when the events before them have been read.
        """
        controls = {self.control, *self.controls.values()}
        stops = [each.send("Emulation.setScriptExecutionDisabled", {"value": True}) for each in controls]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*stops, return_exceptions=True)

    async def stop_loading(self, seconds: float) -> None:
        """Give up a navigation that does not end; it would hold up whatever comes next."""
        try:
            async with asyncio.timeout(seconds):
                await self.control.send("Page.stopLoading")
        except (TimeoutError, PlaywrightError):
            return  # whatever holds it up is found by the next call

    async def picture(self, path: Path, seconds: float, target: Locator | None = None) -> None:
        """A screenshot of what is in view, or of one element: the one place that takes them.

        Playwright's own timeout comes first: it knows what is wrong with the element.
        """
        async with asyncio.timeout(seconds + GRACE):
            await (target or self.page).screenshot(path=path, timeout=seconds * 1000)

    async def trace(self) -> None:
        """Record snapshots and screenshots from now on."""
        if not self.traced:
            self.traced = True
            await self.context.tracing.start(screenshots=True, snapshots=True, sources=False, name=self.raw.name)


def gate(domains: Domains) -> Callable[[Route], Awaitable[None]]:
    """A handler of routes that holds back what is for a virtual host which the task may not reach.

    To the network such a host is a server that is allowed. Playwright calls no handler for the target of a redirect:
    `navigation_failure` sees where a page has come to.
    """

    async def decide(route: Route) -> None:
        if domains.allows(route.request.url):
            await route.fallback()
        else:
            await route.abort("blockedbyclient")

    return decide


async def _give_up(coming: asyncio.Future[BrowserContext]) -> None:
    """Close a context that nobody takes, also one that is still on its way."""
    closing = asyncio.create_task(_closed(coming))
    _closing.add(closing)
    closing.add_done_callback(_closing.discard)
    await asyncio.wait({closing}, timeout=GIVE_UP_SECONDS)


async def _closed(coming: asyncio.Future[BrowserContext]) -> None:
    with contextlib.suppress(PlaywrightError, OSError):  # OSError: there is no room for its HAR file
        await (await coming).close()


def context_options(
    request: SessionRequest,
    user_agent: str,
    proxy: str,
    viewport: tuple[int, int],
    state: StorageState | None,
    har: Path | None,
) -> dict[str, Any]:
    """Options of `browser.new_context`. Pure."""
    options: dict[str, Any] = {
        "user_agent": f"{user_agent} harness-world/{request.world}",
        "viewport": {"width": viewport[0], "height": viewport[1]},
        "accept_downloads": True,
    }
    if request.allowed_domains:
        options["proxy"] = {"server": proxy, "bypass": bypass(request.domains)}
    if headers := request.mark.headers(request.world):
        options["extra_http_headers"] = headers
    if state is not None:
        options["storage_state"] = state
    if har is not None:
        options |= {"record_har_path": har, "record_har_mode": "full", "record_har_content": "embed"}
    return options


def _new_har(folder: Path) -> Path:
    return folder / f"har-{len(list(folder.glob('har-*.har'))) + 1}.har"
