"""Stops the pages of a context from sending, and finds out what they have sent before (docs/design/never-twice.md).

Being offline is applied by the browser's own process, also to a page that hangs; a request that a page begins then
fails, and nobody gets it. One that is under way goes on, and is known to have left.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from playwright.async_api import Error as PlaywrightError

from harness.browser.offline import go_offline, go_online
from harness.resilience import Clock, poll_until

if TYPE_CHECKING:
    from harness.browser.context import Tab
    from harness.browser.process import Chromium

HELD = "held"
"""The reason to be offline that ends when the task goes on with the same pages."""
CONFIRM_SECONDS = 0.25
"""Seconds that pages may take to say that they are offline; one that takes longer is busy with a script."""
FREE_SECONDS = 0.5
"""Seconds that they may take once their scripts were ended."""
FAIL_SECONDS = 0.5
"""Seconds within which a request that could not leave any more has failed."""


async def hold(tab: Tab, chromium: Chromium, clock: Clock) -> bool:
    """Stop the pages from sending; return whether everything that had left is known now. Bounded, never raises.

    A page that hangs has perhaps sent what it has not told: its script is ended, and then it tells.
    """
    if tab.held:
        return tab.told
    tab.held = True
    before = tab.watch.undecided()
    stopping = asyncio.ensure_future(_stopped(tab, chromium))
    await asyncio.wait({stopping}, timeout=CONFIRM_SECONDS)
    if not stopping.done() and await chromium.answers(FREE_SECONDS):  # what was asked of it before is in force
        await tab.end_scripts(FREE_SECONDS)
        await asyncio.wait({stopping}, timeout=FREE_SECONDS)
    known = tab.told = tab.watch.over = stopping.done() and stopping.result()
    stopping.cancel()
    if known:
        await poll_until(clock, lambda: tab.watch.undecided() <= before, 0.01, FAIL_SECONDS)
        await tab.note_unreported(FREE_SECONDS)
    return known


async def _stopped(tab: Tab, chromium: Chromium) -> bool:
    """Go offline; every page, frame and worker confirms that, after it has told what it sent before."""
    try:
        await asyncio.gather(_pages_stopped(tab), chromium.workers.set_offline(tab.watch, offline=True))
    except PlaywrightError:
        return False
    return True


async def _pages_stopped(tab: Tab) -> None:
    """Raises Playwright's errors."""
    await go_offline(tab.context, HELD)
    workers = [worker for page in tab.context.pages for worker in page.workers]
    told = (worker.evaluate("0") for worker in workers)  # Playwright takes them offline with their page
    await asyncio.gather(*told, return_exceptions=True)


async def release(tab: Tab, chromium: Chromium) -> None:
    """Let the pages send again. Bounded, never raises: the next act finds out what is wrong with a page.

    All are told at once: a page that hangs does not answer, and a worker must not wait for it.
    """
    if not tab.held:
        return
    tab.held = tab.watch.over = False
    with suppress(PlaywrightError, TimeoutError):
        async with asyncio.timeout(FREE_SECONDS):
            await asyncio.gather(go_online(tab.context, HELD), chromium.workers.set_offline(tab.watch, offline=False))
