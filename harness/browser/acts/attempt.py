"""One attempt of one step: what an act may use, and how long it may take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator, Page, Playwright
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser.context import Tab
from harness.browser.failures.liveness import PROBE_SECONDS
from harness.browser.failures.scene import CallLog, answers, locate
from harness.browser.request import SessionRequest
from harness.recovery.catalog import Effect
from harness.resilience import Clock, Deadline

LEAST_SECONDS = 0.02
"""Playwright reads a timeout of 0 as `for ever`."""


@dataclass(frozen=True, slots=True)
class ActContext:
    """Handed to the coroutine of an act."""

    playwright: Playwright
    tab: Tab
    request: SessionRequest
    user_agent: str
    clock: Clock
    deadline: Deadline
    patience: float
    once: bool = False
    """Whether the act must not be done twice (`effect: write`)."""

    @property
    def page(self) -> Page:
        return self.tab.page

    def left(self) -> float:
        """Seconds left, never below LEAST_SECONDS."""
        return max(LEAST_SECONDS, self.deadline.left(self.clock.now()))

    def ms(self) -> int:
        """What is left, in milliseconds."""
        return round(1000 * self.left())

    def locator(self, selector: str, frame: str | None) -> Locator:
        return locate(self.page, selector, frame)

    async def act(self, target: Locator | None, call: Callable[[int], Awaitable[object]]) -> None:
        """Do `call(timeout in ms)`: `target` must be there within `patience`, the act may take all that is left.

        Playwright's own timeout ends each try, so nothing can land late. A second try is made only when the call log
        shows that the first one did nothing to the element, and it was found, or is there now: a busy page may not
        have told in time. Where the log cannot show it, what may be done twice is.
        """
        try:
            await call(round(1000 * min(max(self.patience, LEAST_SECONDS), self.left())))
        except PlaywrightTimeoutError as error:
            if self.left() <= LEAST_SECONDS:
                raise
            log = CallLog.of(error.message)
            if log.unsaid and (self.once or self.tab.watch.sending.unsafe):
                raise
            if log.effect is not Effect.NONE and not log.unsaid:
                await self._outlast(error)
            elif log.found or not await answers(self.tab.control, PROBE_SECONDS) or await self._there(target):
                await call(self.ms())
            else:
                raise

    async def _there(self, target: Locator | None) -> bool:
        try:
            async with asyncio.timeout(min(PROBE_SECONDS, self.left())):
                return target is not None and await target.count() > 0
        except (TimeoutError, PlaywrightError):
            return False

    async def _outlast(self, error: PlaywrightTimeoutError) -> None:
        """The act was performed and its consequences last: wait for them as long as there is time."""
        try:
            async with asyncio.timeout(self.left()):
                await self.tab.watch.settled()
                await self.tab.control.send("Runtime.evaluate", {"expression": "1"})  # dialogs without end hold it up
                await self.page.title()  # waits for a new document; not `evaluate`: that is the page's own to break
        except (TimeoutError, PlaywrightError):
            raise error from None
