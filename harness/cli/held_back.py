"""Requests that a replay does not send: those that may change something on sites that the project does not serve.

Not seen: what a redirect leads to, WebSockets, and requests that are no page's (`api`, whose address its task names).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol
from urllib.parse import urlsplit

from harness.browser import Browsers, SessionRequest
from harness.resilience import Clock
from harness.settings import BrowserSettings, Settings
from harness.spec.hosts import host_of
from harness.wiring import Harness

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
REFUSAL = "blockedbyclient"


class Request(Protocol):
    """Playwright's, as far as it is looked at."""

    @property
    def method(self) -> str: ...

    @property
    def url(self) -> str: ...


class Route(Protocol):
    """Playwright's: a request that waits."""

    @property
    def request(self) -> Any: ...

    def abort(self, error_code: str | None = None) -> Awaitable[None]: ...

    def fallback(self) -> Awaitable[None]: ...


class HeldBack:
    """Lets pass what only reads, and all for hosts of the project; remembers the rest."""

    def __init__(self, own: frozenset[str]) -> None:
        self._own = own
        self._found: dict[str, None] = {}

    @property
    def found(self) -> tuple[str, ...]:
        """Method and address of each, without what follows a `?`."""
        return tuple(self._found)

    def refuses(self, request: Request) -> bool:
        """An address without a host (`data:`, `blob:`) goes nowhere."""
        host = host_of(request.url)
        return bool(host) and request.method.upper() not in SAFE and host not in self._own

    async def judge(self, route: Route) -> None:
        """As a handler of Playwright's routes. Raises what Playwright raises."""
        request = route.request
        if not self.refuses(request):
            await route.fallback()
            return
        self._found.setdefault(f"{request.method} {urlsplit(request.url)._replace(query='', fragment='').geturl()}")
        await route.abort(REFUSAL)


class CarefulBrowsers(Browsers):
    """Every context, also one that takes the place of another, asks first."""

    def __init__(self, settings: BrowserSettings, clock: Clock, held: HeldBack, **more: Any) -> None:
        super().__init__(settings, clock, **more)
        self._held = held

    async def open_tab(self, request: SessionRequest, state: Any) -> Any:
        """As of `Browsers`."""
        tab, chromium = await super().open_tab(request, state)
        await tab.context.route("**/*", self._held.judge)
        return tab, chromium


class CarefulHarness(Harness):
    """One whose browsers hold back."""

    def __init__(self, settings: Settings, run_id: str, held: HeldBack) -> None:
        super().__init__(settings, run_id)
        self.browsers = CarefulBrowsers(
            settings.browser,
            self.clock,
            held,
            temp=self._scratch.path,
            guard=self._scratch.guard,
            hosts=self.services.hosts,
        )
