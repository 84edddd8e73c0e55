"""Requests that a replay does not send: those that may change something on sites that the project does not serve.

What a redirect leads to cannot be held back, and is named. Not seen: requests that are no page's (`api`, whose address
its task names).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol
from urllib.parse import urlsplit

from harness.browser.context import Tab
from harness.model.settings import Settings
from harness.runner.harness import Harness
from harness.spec.names import host_of

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
        self._redirected: dict[str, None] = {}

    @property
    def found(self) -> tuple[str, ...]:
        """Method and address of each, without what follows a `?`."""
        return tuple(self._found)

    @property
    def redirected(self) -> tuple[str, ...]:
        """The same of those that a site of the project has sent on elsewhere: these were made."""
        return tuple(self._redirected)

    def refuses(self, request: Request) -> bool:
        """An address without a host (`data:`, `blob:`) goes nowhere."""
        host = host_of(request.url)
        return bool(host) and request.method.upper() not in SAFE and host not in self._own

    async def lay(self, tab: Tab) -> None:
        """On a context that is new. Raises what Playwright raises."""
        await tab.context.route("**/*", self.judge)
        await tab.context.route_web_socket(self.refuses_socket, self.close)
        tab.context.on("request", self.watch)

    async def judge(self, route: Route) -> None:
        """As a handler of Playwright's routes. Raises what Playwright raises."""
        request = route.request
        if not self.refuses(request):
            await route.fallback()
            return
        self._found.setdefault(f"{request.method} {_bare(request.url)}")
        await route.abort(REFUSAL)

    def refuses_socket(self, url: str) -> bool:
        """What is said over it is not looked at."""
        return host_of(url) not in self._own

    async def close(self, socket: Any) -> None:
        """A WebSocket that waits to be opened. Raises what Playwright raises."""
        self._found.setdefault(f"WebSocket {_bare(socket.url)}")
        await socket.close()

    def watch(self, request: Any) -> None:
        """Playwright asks nobody about what a redirect leads to."""
        if request.redirected_from is not None and self.refuses(request):
            self._redirected.setdefault(f"{request.method} {_bare(request.url)}")


def _bare(url: str) -> str:
    return urlsplit(url)._replace(query="", fragment="").geturl()


class CarefulHarness(Harness):
    """One whose browsers hold back."""

    def __init__(self, settings: Settings, run_id: str, held: HeldBack) -> None:
        super().__init__(settings, run_id)
        self.browsers.on_tab = held.lay
