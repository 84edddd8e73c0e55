"""From a page that cannot be trusted to one that can, by the lowest rung that helps (findings/failures 3, R2 to R6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from playwright.async_api import Error as PlaywrightError

from harness.browser.attempt import Attempt
from harness.browser.checkpoint import Checkpoint
from harness.browser.lease import Lease
from harness.browser.renewal import Return
from harness.browser.scene import Scene
from harness.browser.storage import session_of, state_of
from harness.model.record import SAFE_METHODS
from harness.recovery.catalog import Family
from harness.recovery.failure import Failure
from harness.resilience import Clock, Deadline
from harness.spec.steps import Check, Select, Step, Type, Uncheck, Upload

STATE_SECONDS = 2.0
FREE_SECONDS = 0.5
"""How long a page may take to answer once its script was ended."""
REOPEN_SECONDS = 2.0
"""How long a new page in the same context may take to be there."""
_FILLS = (Type, Select, Check, Uncheck, Upload)


class Ladder:
    """What a session remembers of its page, and the ways back to one."""

    def __init__(
        self, lease: Lease, clock: Clock, attempt: Callable[[float], Attempt], scene: Callable[[float], Scene]
    ) -> None:
        self._lease = lease
        self._clock = clock
        self._attempt = attempt
        self._scene = scene
        self.url: str | None = None
        """Where the page was as the last step passed: a page that is opened again is opened there."""
        self.addresses: tuple[str, ...] = ()
        """That, and the address of the document shown there."""
        self._filled = False
        self._posted = False
        """The page is the answer to an unsafe request: to ask for its address gives another one."""

    def passed(self, step: Step) -> None:
        """A step passed: where its page is, and whether there is now something in it that a new page would not have."""
        tab = self._lease.tab
        if tab.page.url.startswith("http"):
            self.url, self.addresses = tab.page.url, tab.watch.addresses(tab.page)
        opened = tab.watch.navigation
        if opened is not None:
            self._posted = opened.method not in SAFE_METHODS
        self._filled = isinstance(step, _FILLS) or (self._filled and opened is None)

    async def renew(self, failure: Failure, until: Deadline, barred: str | None) -> Failure | None:
        """A page to go on with after this failure; why there is none. `barred`: why it must not be asked for again."""
        with self._lease.unnoted():
            return await self._renewed(failure, until, barred)

    async def _renewed(self, failure: Failure, until: Deadline, barred: str | None) -> Failure | None:
        if failure.code == "PAGE_UNRESPONSIVE" and await self._lease.tab.freed(FREE_SECONDS):
            return None
        if barred is not None:
            return Failure("OUTCOME_UNKNOWN", f"{failure.message}; {barred}", failure.selector, failure.details)
        if "opened_before" in failure.details:
            return await self._asked_again(failure, until)
        if failure.code in ("PAGE_CRASHED", "PAGE_CLOSED") and await self._lease.chromium.answers(FREE_SECONDS):
            return self._forgets(failure) or await self._reopened(until)
        gone = self._posted or failure.code == "PAGE_UNRESPONSIVE"
        return (self._forgets(failure) if gone else None) or await self._fresh(until)

    async def _asked_again(self, failure: Failure, until: Deadline) -> Failure | None:
        """The page that an earlier step has opened, asked for again; when it fails again, it may be once more."""
        again = await self._way_back(until).to_url(str(failure.details["url"]), None)
        if again is None or again.family is not Family.NETWORK:
            return again
        return replace(again, details={**failure.details, **again.details}, tainted=True)

    def _forgets(self, failure: Failure) -> Failure | None:
        """Why there is to be no other page: it would not have what was typed into this one."""
        if not (self._filled or self._posted):
            return None
        what = "what was typed into the page is lost with it" if self._filled else "the page is the answer to a write"
        why = f"{what}, and there is no checkpoint"
        return Failure(failure.code, f"{failure.message}; {why}", failure.selector, failure.details)

    async def _reopened(self, until: Deadline) -> Failure | None:
        """A new page in the same context, which has kept its storage."""
        try:
            async with asyncio.timeout(until.clip(REOPEN_SECONDS, self._clock.now())):
                await self._lease.tab.reopen()
        except (PlaywrightError, TimeoutError):
            return await self._fresh(until)
        return await self._way_back(until).to_url(self.url, None) if self.url else None

    async def _fresh(self, until: Deadline) -> Failure | None:
        """A new context with the storage of the old one."""
        tab = self._lease.tab
        answers = await self._lease.chromium.answers(FREE_SECONDS)
        state = await state_of(tab, until.clip(STATE_SECONDS, self._clock.now())) if answers else None
        script = await session_of(tab.control) if state else None
        prepared = tab.watch.prepared
        failure = await self._lease.replace(state, until)
        if failure is None and self.url is not None:
            failure = await self._way_back(until).to_url(self.url, script)
        self._filled = self._posted = False
        self._lease.tab.watch.answer_next(prepared)
        return failure

    async def restore(
        self, saved: Checkpoint | None, until: Deadline, *, restart: bool, barred: str | None
    ) -> tuple[str, ...] | Failure:
        """Back to a checkpoint in a fresh context; what differs afterwards, or why there is no page.

        `barred`: why no field must be filled again.
        """
        failure = await self._lease.replace(saved.storage if saved else None, until, restart=restart)
        if failure is not None:
            return failure
        tab = self._lease.tab
        self.url = saved.url if saved and saved.url.startswith("http") else None
        self.addresses = saved.addresses if saved and self.url else ()
        self._filled, self._posted = saved is not None and any(page.fields for page in saved.pages), False
        tab.passwords = set(saved.passwords) if saved else set()
        if saved is None:
            return ()
        with self._lease.unnoted():
            differences = await self._way_back(until).to_checkpoint(saved, barred)
        self._lease.tab.watch.answer_next(saved.answer)  # only now: a page's dialog as it loads is not the one meant
        return differences

    def _way_back(self, until: Deadline) -> Return:
        return Return(self._attempt(until.left(self._clock.now())), self._scene)
