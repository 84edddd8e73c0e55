"""The context of an act: what it may use, and how long it may take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator, Page, Playwright
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser.context import Tab
from harness.browser.failures.classify import facts_now
from harness.browser.failures.liveness import PROBE_SECONDS
from harness.browser.failures.scene import LOOK_SECONDS, CallLog, FailureContext
from harness.browser.isolated import Script
from harness.browser.locating import locate
from harness.browser.net_log import NetLog
from harness.browser.process import answers
from harness.browser.queries import LEAST_SECONDS
from harness.browser.request import SessionRequest
from harness.recovery.catalog import Effect
from harness.resilience import Clock, Deadline

NOT_ENDED = "the navigation did not end\nCall log:\n  - performing submit action"
"""Playwright's wording for a click whose navigation does not end."""
_PERHAPS = "\n  - a request has left: perhaps performing the action\n"
"""What is added to the call log of an act that may have been performed as its time ended."""
RESERVE_SHARE = 0.2
"""The share of an attempt's time that is kept to find out what holds it up."""
_RESERVE_SECONDS = 1.0
"""The most seconds that are kept for that."""
_POLL = 0.1
"""Seconds between two looks at an element that is not ready."""


class ActContext(Struct, frozen=True):
    """The argument of every act's coroutine."""

    playwright: Playwright
    tab: Tab
    request: SessionRequest
    clock: Clock
    deadline: Deadline
    patience: float
    scene: FailureContext
    """What names a failure of the act, and has its element."""
    once: bool = False
    """Whether the act must not be done twice (`effect: write`)."""
    net_log: NetLog | None = None
    """What the browser tells of its requests."""

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

        Playwright's own timeout ends each try, so nothing can take effect late. Another try is made only if the call
        log shows that the last one did nothing to the element, and the element was found or is there now: a busy page
        may have answered late. If the log cannot show that, only an act that may be done twice is tried again. A log
        that ends just before the act shows it only as long as no request has left.

        Before the limit comes a reserve, in which nothing is under way while the page is asked what holds the act up:
        however late a busy machine answers, the reason is known and nothing can happen after the limit. An element
        that becomes ready meanwhile is acted on.
        """
        seconds, told, brink = min(max(self.patience, LEAST_SECONDS), self._before_reserve()), None, ""
        while True:
            try:
                await call(round(1000 * seconds))
                return
            except PlaywrightTimeoutError as error:
                log = CallLog.of(error.message)
                if log.effect is not Effect.NONE and not log.ends_in_silent_call:
                    await self._await_consequences(error)
                    return
                brink = error.message if log.on_the_brink else brink
                if brink and self.tab.watch.sending.unsafe:
                    raise PlaywrightTimeoutError(brink.rstrip() + _PERHAPS) from None
                if log.ends_in_silent_call and (self.once or self.tab.watch.sending.unsafe):
                    raise
                told = self._more_telling(error, told)
                more = await self._time_for_more(log, target)
                if more is None:
                    raise told from None
                seconds = more

    async def answer(self, script: Script, target: Locator, argument: object = None) -> Any:
        """The answer of a script about an element, which must appear as for an act."""
        answers: list[Any] = []

        async def ask(ms: float) -> None:
            answers.append(await script.of_one(target, argument, ms / 1000))

        await self.act(target, ask)
        return answers[0]

    def _before_reserve(self) -> float:
        """Seconds left before the reserve begins, never below LEAST_SECONDS."""
        reserve = min(_RESERVE_SECONDS, RESERVE_SHARE * self.scene.within)
        return max(LEAST_SECONDS, self.deadline.left(self.clock.now()) - reserve)

    def _more_telling(
        self, error: PlaywrightTimeoutError, before: PlaywrightTimeoutError | None
    ) -> PlaywrightTimeoutError:
        """Return the error of the later try, unless only the one before says what held the act up."""
        log = CallLog.of(error.message)
        if before is not None and log.obstacle is None and CallLog.of(before.message).obstacle:
            return before
        self.scene.seen.log = log
        return error

    async def _time_for_more(self, log: CallLog, target: Locator | None) -> float | None:
        """The seconds of another try; None if the element did not come, or did not become ready."""
        left = self._before_reserve()
        if left <= LEAST_SECONDS:
            return await self._time_once_ready()
        there = log.found or not await answers(self.tab.control, PROBE_SECONDS) or await self._is_present(target)
        return left if there else None

    async def _time_once_ready(self) -> float | None:
        """Look at the element until it is ready or the time is over; returns the seconds left if it is ready."""
        place, briefly = None, False
        while (left := self.left()) > 2 * LEAST_SECONDS:
            facts = await facts_now(self.scene, min(left, LOOK_SECONDS), briefly=briefly)
            if facts is not None:
                if facts.count or self.scene.seen.facts is None or self.scene.seen.facts.count:
                    self.scene.seen.facts = facts  # else what the first look found elsewhere is kept
                briefly = True
                if facts.count > 1 or (facts.ready and facts.box == place):  # Playwright tells of several matches
                    return self.left()
                place = facts.box if facts.ready else None
            await self.clock.sleep(min(_POLL, self.left()))
        return None

    async def _is_present(self, target: Locator | None) -> bool:
        try:
            async with asyncio.timeout(min(PROBE_SECONDS, self.left())):
                return target is not None and await target.count() > 0
        except TimeoutError:
            return False
        except PlaywrightError:  # another try says what is wrong, such as a selector that cannot be read
            return True

    async def _await_consequences(self, error: PlaywrightTimeoutError) -> None:
        """Wait for the consequences of an act that was performed, as long as there is time."""
        try:
            async with asyncio.timeout(self.left()):
                await self.tab.watch.frame.settled()
                await self.tab.control.send("Runtime.evaluate", {"expression": "1"})  # endless dialogs block it
                await self.page.title()  # waits for a new document; `evaluate` may be replaced by the page
        except (TimeoutError, PlaywrightError):
            raise error from None
