"""The context of an act: what it may use, and how long it may take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator, Page, Playwright
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser.context import Tab
from harness.browser.failures.liveness import PROBE_SECONDS
from harness.browser.failures.scene import CallLog, answers, locate
from harness.browser.queries import LEAST_SECONDS
from harness.browser.request import SessionRequest
from harness.recovery.catalog import Effect
from harness.resilience import Clock, Deadline


class ActContext(Struct, frozen=True):
    """The argument of every act's coroutine."""

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
        """The time that is left, in milliseconds."""
        return round(1000 * self.left())

    def locator(self, selector: str, frame: str | None) -> Locator:
        return locate(self.page, selector, frame)

    async def act(self, target: Locator | None, call: Callable[[int], Awaitable[object]]) -> None:
        """Run `call(timeout in ms)`: `target` must appear within `patience`, the act may take all the remaining time.

        Playwright's own timeout ends each try, so nothing can take effect late. A second try is made only if the call
        log shows that the first one did nothing to the element, and the element was found or is there now: a busy page
        may have answered late. If the log cannot show that, only an act that may be done twice is tried again.
        """
        try:
            await call(round(1000 * min(max(self.patience, LEAST_SECONDS), self.left())))
        except PlaywrightTimeoutError as error:
            if self.left() <= LEAST_SECONDS:
                raise
            log = CallLog.of(error.message)
            if log.ends_in_silent_call and (self.once or self.tab.watch.sending.unsafe):
                raise
            if log.effect is not Effect.NONE and not log.ends_in_silent_call:
                await self._await_consequences(error)
            elif log.found or not await answers(self.tab.control, PROBE_SECONDS) or await self._is_present(target):
                await call(self.ms())
            else:
                raise

    async def _is_present(self, target: Locator | None) -> bool:
        try:
            async with asyncio.timeout(min(PROBE_SECONDS, self.left())):
                return target is not None and await target.count() > 0
        except (TimeoutError, PlaywrightError):
            return False

    async def _await_consequences(self, error: PlaywrightTimeoutError) -> None:
        """Wait for the consequences of an act that was performed, as long as there is time."""
        try:
            async with asyncio.timeout(self.left()):
                await self.tab.watch.settled()
                await self.tab.control.send("Runtime.evaluate", {"expression": "1"})  # endless dialogs block it
                await self.page.title()  # waits for a new document; `evaluate` may be replaced by the page
        except (TimeoutError, PlaywrightError):
            raise error from None
