"""Replaces a page that cannot be trusted, by the cheapest way that works (docs/decisions/006)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page

from harness.browser.acts.attempt import ActContext
from harness.browser.acts.navigation import go_to
from harness.browser.checkpoint import PageCheckpoint, PageState, differing_places, settle
from harness.browser.context import GRACE, ContextHandle
from harness.browser.emulation import UNCHANGED
from harness.browser.failures.classify import failure_of
from harness.browser.failures.scene import FailureContext
from harness.browser.network_errors import status_failure
from harness.browser.storage import read_storage, session_of, session_script
from harness.model.record import SAFE_METHODS
from harness.recovery.catalog import Effect, Family
from harness.recovery.failure import Failure
from harness.resilience import Clock, Deadline
from harness.spec.step_keys import ArrivalKeys, Until
from harness.spec.steps import Check, Select, Step, Type, Uncheck, Upload
from harness.values import replace

_STATE_SECONDS = 10.0
"""Seconds for reading the storage of a context that is to be replaced."""
_FREE_SECONDS = 0.5
"""Seconds that a page may take to answer once its script was ended."""
_REOPEN_SECONDS = 2.0
"""Seconds that a new page in the same context may take to appear."""
_FILLS = (Type, Select, Check, Uncheck, Upload)


class PageRecovery:
    """What a session remembers of its page, and the ways to recover one."""

    def __init__(
        self,
        handle: ContextHandle,
        clock: Clock,
        attempt: Callable[[FailureContext, float], ActContext],
        scene: Callable[[float], FailureContext],
    ) -> None:
        self._handle, self._clock, self._attempt, self._scene = handle, clock, attempt, scene
        self.url: str | None = None
        """The address of the page after the last passed step: a page that is opened again is opened there."""
        self.addresses: tuple[str, ...] = ()
        """That address, and that of the document shown there."""
        self._until: Until = "load"
        """When a page counts as opened: as the last `open` says."""
        self._shown: int | None = None
        """The status of that page, if the step that opened it wants an error."""
        self._filled = False
        self.posted = False
        """Whether the page is the answer to an unsafe request: to request its address again would give another page."""

    def passed(self, step: Step) -> None:
        """Remember the page after a passed step, and whether it now has state that a new page would lack."""
        tab = self._handle.tab
        if tab.page.url.startswith("http"):
            self.url, self.addresses = tab.page.url, tab.watch.addresses(tab.page)
        opened = tab.watch.frame.navigation
        if opened is not None:
            self.posted = opened.method not in SAFE_METHODS
            self._until = step.until if isinstance(step, ArrivalKeys) else "load"
            self._shown = opened.status if opened.wanted else None
        self._filled = isinstance(step, _FILLS) or (self._filled and opened is None)

    async def renew(self, failure: Failure, until: Deadline, barred: str | None) -> Failure | None:
        """Recover a page; returns the failure if there is none. `barred`: the reason not to request its URL."""
        with self._handle.ignore_requests():
            return await self._renewed(failure, until, barred)

    async def _renewed(self, failure: Failure, until: Deadline, barred: str | None) -> Failure | None:
        tab = self._handle.tab
        spent = tab.held and failure.effect is not Effect.NONE  # what its act has begun could still be sent later
        if failure.code == "PAGE_UNRESPONSIVE" and not spent and await tab.freed(_FREE_SECONDS):
            return None
        if barred is not None:
            return _replace_failure(failure, "OUTCOME_UNKNOWN", barred)
        if failure.circumstances.opened_before:
            return await self._asked_again(failure, until)
        if failure.code == "PAGE_CLOSED":  # the site closed it: only a page that was lost is opened again
            return None if self._handle.tab.context.pages else failure
        if failure.code == "PAGE_CRASHED" and await self._handle.chromium.answers(_FREE_SECONDS):
            return self._forgets(failure) or await self._reopened(failure, until)
        gone = self.posted or spent or failure.code == "PAGE_UNRESPONSIVE"
        return (self._forgets(failure) if gone else None) or await self._open_fresh_context(failure, until)

    async def _asked_again(self, failure: Failure, until: Deadline) -> Failure | None:
        """Request the page again that an earlier step opened; if it fails again, this may be repeated."""
        again = await self._way_back(until).to_url(str(failure.details["url"]), None)
        if again is None or again.family is not Family.NETWORK:
            return again
        return replace(again, details={**failure.details, **again.details}, tainted=True).also(failure.circumstances)

    def _forgets(self, failure: Failure) -> Failure | None:
        """The failure if a new page would lack what was typed into this one; None if nothing is lost."""
        if not (self._filled or self.posted):
            return None
        what = "the input typed into the page is lost" if self._filled else "the page is the response to a write"
        return _replace_failure(failure, failure.code, f"{what}, and there is no checkpoint")

    async def _reopened(self, failure: Failure, until: Deadline) -> Failure | None:
        """Open a new page in the same context, which has kept its storage."""
        try:
            async with asyncio.timeout(until.clip(_REOPEN_SECONDS, self._clock.now())):
                await self._handle.tab.reopen()
        except (PlaywrightError, TimeoutError):
            return await self._open_fresh_context(failure, until)
        return await self._way_back(until).to_url(self.url, None, self._shown) if self.url else None

    async def _open_fresh_context(self, failure: Failure, until: Deadline) -> Failure | None:
        """Open a new context with the storage of the old one."""
        tab, storage, script = self._handle.tab, None, None
        if await self._handle.chromium.answers(_FREE_SECONDS):
            within = until.clip(_STATE_SECONDS, self._clock.now())
            storage = await read_storage(tab.context, self._free_or_close, within, held_up=not tab.watch.frame.crashed)
            script = await session_of(tab.control)
        if isinstance(storage, Failure):
            return _replace_failure(failure, failure.code, f"{storage.message}, so a new page would be without it")
        prepared = tab.watch.dialog_answers.prepared
        failed = await self._handle.replace(storage.state if storage else None, until)
        if failed is None and self.url is not None:
            failed = await self._way_back(until).to_url(self.url, script, self._shown)
        self._filled = self.posted = False
        self._handle.tab.watch.dialog_answers.prepared = prepared
        return failed

    async def _free_or_close(self) -> None:
        """Make the page answer; close one that does not: it is given up, and its storage is read without it."""
        tab = self._handle.tab
        if not await tab.freed(_FREE_SECONDS):
            await tab.page.close()

    async def restore(
        self, saved: PageCheckpoint | None, until: Deadline, *, restart: bool, barred: str | None
    ) -> tuple[str, ...] | Failure:
        """Restore a checkpoint in a new context; returns the differences, or the failure if there is no page.

        `barred`: why no field must be filled again.
        """
        self._handle.tab.emulation.changes = saved.changes if saved else UNCHANGED
        failure = await self._handle.replace(saved.storage if saved else None, until, restart=restart)
        if failure is not None:
            return failure
        tab = self._handle.tab
        self.url = saved.url if saved and saved.url.startswith("http") else None
        self.addresses = saved.addresses if saved and self.url else ()
        self._filled, self.posted = saved is not None and any(page.fields for page in saved.pages), False
        tab.passwords = set(saved.passwords) if saved else set()
        if saved is None:
            return ()
        with self._handle.ignore_requests():
            differences = await self._way_back(until).to_checkpoint(saved, barred)
        self._handle.tab.watch.dialog_answers.prepared = saved.answers  # a dialog during the load is another one
        return differences

    def _way_back(self, until: Deadline) -> WayBack:
        within = until.left(self._clock.now())
        return WayBack(self._attempt(self._scene(within), within), self._scene, self._until)


# Restores in a fresh context: one URL, or all pages of a checkpoint.


class WayBack(Struct, frozen=True):
    """The needs of a restore: the attempt that limits it, and the context by which a failure is named."""

    attempt: ActContext
    scene: Callable[[float], FailureContext]
    until: Until = "load"

    async def to_url(self, url: str, script: str | None, shown: int | None = None) -> Failure | None:
        """Open a URL in the current page, with a script that runs before its own; returns the failure, if any.

        `shown`: the status of the error page that is to come again.
        """
        scene = replace(self.scene(self.attempt.left()), opens=True, what=f"return to {url}")
        try:
            async with asyncio.timeout(self.attempt.left() + GRACE):
                return await self._open(url, shown, script)
        except (PlaywrightError, TimeoutError) as error:
            return await failure_of(error, scene)

    async def to_checkpoint(self, saved: PageCheckpoint, barred: str | None) -> tuple[str, ...] | Failure:
        """Open the pages in order, fill them, and compare. Returns the differences, or the failure without a page.

        `barred`: why no field must be filled again; if one would have to be, that is a failure.
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
                if barred is not None and (
                    places := await differing_places(self.attempt.tab, saved, self.attempt.clock)
                ):
                    message = f"{', '.join(places)} would have to be filled again, but {barred}"
                    return Failure("OUTCOME_UNKNOWN", message, details={"url": saved.url})
                return differs
        except (PlaywrightError, TimeoutError) as error:
            here = replace(self.scene(within), until=scene.until)  # the page is new, the time limit is the same
            return await failure_of(error, replace(here, opens=True, what=what))

    @property
    def _pages(self) -> list[Page]:
        return self.attempt.tab.context.pages

    async def _reopen(self, number: int, page: PageState) -> Failure | None:
        """Open one page, unless another one has already opened it again."""
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
        """Open a URL; an error page with the same status as before is no failure."""
        if script is not None:
            async with await self.attempt.page.add_init_script(script):  # for this load only
                return await self._open(url, shown, None)
        response = await go_to(self.attempt, url, self.until)
        if response is None or response.status == shown:
            return None
        return status_failure(response.status, response.url, response.headers, self.attempt.clock.wall())


def _replace_failure(failure: Failure, code: str, why: str) -> Failure:
    """A failure with the evidence of the first one, and the reason why there is no page to go on with."""
    message, how = f"{failure.message}; {why}", failure.circumstances
    return Failure(code, message, failure.selector, failure.details, circumstances=how)
