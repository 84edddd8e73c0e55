"""The way back in a fresh context: to one URL, or to all pages of a checkpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page

from harness.browser.attempt import Attempt
from harness.browser.checkpoint import Checkpoint, settle, unlike
from harness.browser.failures import failure_of
from harness.browser.forms import PageState
from harness.browser.navigation import go_to
from harness.browser.network import status_failure
from harness.browser.scene import Scene
from harness.browser.storage import session_script
from harness.recovery.failure import Failure

GRACE = 0.1
"""Seconds after its limit at which a call that Playwright did not end is ended from outside."""


@dataclass(frozen=True, slots=True)
class Return:
    """What the way back needs: the attempt that bounds it, and the scene by which a failure is named."""

    attempt: Attempt
    scene: Callable[[float], Scene]

    async def to_url(self, url: str, script: str | None) -> Failure | None:
        """Open a URL in the current page, with a script that runs before its own; why it could not be opened."""
        scene = replace(self.scene(self.attempt.left()), opens=True, what=f"return to {url}")
        try:
            async with asyncio.timeout(self.attempt.left() + GRACE):
                return await self._open(url, None, script)
        except (PlaywrightError, TimeoutError) as error:
            return await failure_of(error, scene)

    async def to_checkpoint(self, saved: Checkpoint, barred: str | None) -> tuple[str, ...] | Failure:
        """Open the pages in their order, fill them, compare. What differs, or why there is no page.

        `barred`: why no field must be filled again; one that would have to be is a failure.
        """
        within, what = self.attempt.left(), f"return to {saved.url}"
        scene = self.scene(within)
        try:
            async with asyncio.timeout(within + GRACE):
                for number, page in enumerate(saved.pages):
                    what = f"return to {page.url}"
                    failure = await self._reopen(number, page)
                    if failure is not None:
                        return failure
                if saved.current < len(self._pages):  # a page may have closed itself
                    await self._turn_to(self._pages[saved.current])
                differs = await settle(self.attempt.tab, saved, self.attempt.clock, fills=barred is None)
                if barred is not None and (places := await unlike(self.attempt.tab, saved, self.attempt.clock)):
                    message = f"{', '.join(places)} would have to be filled again, and {barred}"
                    return Failure("OUTCOME_UNKNOWN", message, details={"url": saved.url})
                return differs
        except (PlaywrightError, TimeoutError) as error:
            here = replace(self.scene(within), until=scene.until)  # the page is another by now, the limit is not
            return await failure_of(error, replace(here, opens=True, what=what))

    @property
    def _pages(self) -> list[Page]:
        return self.attempt.tab.context.pages

    async def _reopen(self, number: int, page: PageState) -> Failure | None:
        """One page; it is there already when another one has opened it again."""
        there = number < len(self._pages)
        await self._turn_to(self._pages[number] if there else await self.attempt.tab.context.new_page())
        if not page.url.startswith(("http:", "https:")):
            return None
        return await self._open(page.url, page.status, session_script(page.origin, page.session))

    async def _turn_to(self, page: Page) -> None:
        if page is not self.attempt.page:
            await self.attempt.tab.switch(page)
            await page.bring_to_front()

    async def _open(self, url: str, shown: int | None, script: str | None) -> Failure | None:
        """Open; an error page is no failure when it was one, with the same status, before."""
        if script is not None:
            async with await self.attempt.page.add_init_script(script):  # for this time only
                return await self._open(url, shown, None)
        response = await go_to(self.attempt, url)
        if response is None or response.status == shown:
            return None
        return status_failure(response.status, response.url, response.headers, self.attempt.clock.wall())
