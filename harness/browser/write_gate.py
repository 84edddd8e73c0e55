"""Holds back the unsafe requests of an agent's steps that its policy does not let leave (docs/agents.md).

What is held back is decided here, before anything leaves the browser: whatever a page has told the agent.
"""

from __future__ import annotations

import contextlib
from collections import deque

from playwright.async_api import BrowserContext, Page, Route
from playwright.async_api import Error as PlaywrightError

from harness.browser.locating import locate
from harness.browser.page_events import PageEvents
from harness.model.policy import AllowedElement, WritePermission
from harness.model.record import SAFE_METHODS
from harness.recovery.failure import Failed, Failure
from harness.spec.steps import Step, Type
from harness.spec.url_patterns import RequestPattern

_MOST = 20
"""The number of held-back requests that are kept of one step."""


class HeldBack:
    """A request that did not leave."""

    def __init__(self, method: str, url: str, *, page: bool, acted: bool) -> None:
        self.method, self.url = method, url.partition("#")[0]
        self.page = page
        """Whether it was for the document of a page: a form was submitted."""
        self.acted = acted
        """Whether the act may have caused it: the page does not send it again and again by itself."""

    def __str__(self) -> str:
        return f"{self.method} {self.url}"

    def failure(self) -> Failure:
        """The failure of the step that caused it."""
        message = f"the step would have sent {self}, which the task does not declare: it was held back"
        return Failure("POLICY_WRITE", message, details={"method": self.method, "url": self.url})


class WriteGate:
    """The gate of one task, in every context that it has."""

    def __init__(self) -> None:
        self._permission: WritePermission | None = None
        self._patterns: tuple[RequestPattern, ...] = ()
        self._everything = True
        self._held: deque[HeldBack] = deque(maxlen=_MOST)

    @property
    def closed(self) -> bool:
        """Whether some unsafe requests are held back at present."""
        return not self._everything

    def restrict(self, permission: WritePermission | None) -> None:
        """A step begins. None: it is no agent's, and everything may leave."""
        self._permission = permission
        self._everything = permission is None or permission.everything
        self._patterns = permission.requests if permission else ()
        self._held.clear()

    async def admit(self, page: Page, step: Step) -> None:
        """Find out whether the step acts on an element on which it may write. Raises Failed for a bad selector."""
        for allowed in self._permission.elements if self._permission else ():
            if not self._everything and step.target and await _is_same(page, allowed, step):
                self._everything = allowed.request is None
                self._patterns += (allowed.request,) if allowed.request else ()

    def lets_pass(self, method: str, url: str) -> bool:
        """Return whether a request may leave now."""
        safe = method in SAFE_METHODS
        return safe or self._everything or any(each.matches(method, url) for each in self._patterns)

    @property
    def held(self) -> tuple[str, ...]:
        """The requests that were held back since the step began."""
        return tuple(dict.fromkeys(map(str, self._held)))

    def caused_by(self, step: Step) -> HeldBack | None:
        """The first held-back request that the act of this step caused. Typing alone causes none but a form."""
        if step.effect_class == "read" or step.looks_only:
            return None
        return next((each for each in self._held if each.page or (each.acted and not isinstance(step, Type))), None)

    async def install(self, context: BrowserContext, watch: PageEvents) -> None:
        """Guard a context. What a route of the task answers does not come here."""

        async def handle(route: Route) -> None:
            request = route.request
            with contextlib.suppress(PlaywrightError):  # the page closed meanwhile
                if self.lets_pass(request.method, request.url):
                    await route.fallback()
                    return
                acted, page = watch.held_back(request), request.is_navigation_request()
                self._held.append(HeldBack(request.method, request.url, page=page, acted=acted))
                await route.abort("aborted")

        await context.route("**/*", handle)


async def _is_same(page: Page, allowed: AllowedElement, step: Step) -> bool:
    """Return whether the step's element is one of an allowed selector, or inside of one."""
    if step.target == allowed.selector and getattr(step, "frame", None) == allowed.frame:
        return True
    try:
        wanted = await locate(page, allowed.selector, allowed.frame).element_handles()
    except PlaywrightError as error:
        message = f"the selector {allowed.selector} of `allowed_writes` or of a step cannot be used: {error.message}"
        raise Failed(Failure("INVALID_INPUT", message, allowed.selector)) from error
    target = locate(page, step.target or "", getattr(step, "frame", None))
    for each in wanted:
        with contextlib.suppress(PlaywrightError):  # it is in another frame, or gone
            if await target.evaluate("(element, other) => other.contains(element)", each, timeout=_SAME_MS):
                return True
    return False


_SAME_MS = 1000
"""Milliseconds for a comparison of two elements."""
