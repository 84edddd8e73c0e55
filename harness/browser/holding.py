"""Stops the pages of a context from sending, and finds out what they have sent before (docs/design/never-twice.md).

Being offline is applied by the browser's own process, also to a page that hangs; a request that a page begins then
fails, and nobody gets it. One that is under way goes on, and is known to have left.

The page does not notice it, except by its requests that fail: `navigator.onLine` stays true, no `offline` event comes.
So the evidence shows no "you are offline" that no user would have seen, and nothing is sent because of `online`.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING

from playwright.async_api import CDPSession
from playwright.async_api import Error as PlaywrightError

from harness.browser.offline import HOLD_EVENT, go_offline, go_online, is_offline
from harness.resilience import Clock, poll_until

if TYPE_CHECKING:
    from harness.browser.context import Tab
    from harness.browser.process import Chromium

_HELD = "held"
"""The reason to be offline that ends when the task goes on with the same pages."""
_CONFIRM_SECONDS = 0.25
"""Seconds that pages may take to say that they are offline; one that takes longer is busy with a script."""
_FREE_SECONDS = 0.5
"""Seconds that they may take once their scripts were ended."""
_FAIL_SECONDS = 0.5
"""Seconds within which a request that could not leave any more has failed."""

_ONLINE = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}


async def hold(tab: Tab, chromium: Chromium, clock: Clock) -> bool:
    """Stop the pages from sending; return whether everything that had left is known now. Bounded, never raises.

    A page that hangs has perhaps sent what it has not told: its script is ended, and then it tells.
    """
    if tab.held:
        return tab.told
    tab.held = True
    before = tab.watch.undecided()
    stopping = asyncio.ensure_future(_stopped(tab, chromium))
    await asyncio.wait({stopping}, timeout=_CONFIRM_SECONDS)
    if not stopping.done() and await chromium.answers(_FREE_SECONDS):  # what was asked of it before is in force
        await tab.end_scripts(_FREE_SECONDS)
        await asyncio.wait({stopping}, timeout=_FREE_SECONDS)
    known = tab.told = tab.watch.over = stopping.done() and stopping.result()
    stopping.cancel()
    if known:
        await poll_until(clock, lambda: tab.watch.undecided() <= before, 0.01, _FAIL_SECONDS)
        await tab.note_unreported(_FREE_SECONDS)
    return known


async def _stopped(tab: Tab, chromium: Chromium) -> bool:
    """Go offline; every page, frame and worker confirms that, after it has told what it sent before."""
    try:
        await asyncio.gather(_pages_stopped(tab), chromium.workers.set_offline(tab.watch, offline=True))
    except PlaywrightError:
        return False
    return True


async def _pages_stopped(tab: Tab) -> None:
    """A page gets the commands in this order, also one that hangs. Raises Playwright's errors."""
    pages = (tab.control, *tab.controls.values())
    if is_offline(tab.context):  # it is offline, and its pages know that
        pages = ()
    told = [_tell(each, held=True) for each in pages]
    online = [each.send("Network.overrideNetworkState", _ONLINE) for each in pages]
    going = asyncio.gather(*told, go_offline(tab.context, _HELD), *online, return_exceptions=True)
    if isinstance(problem := (await going)[len(pages)], BaseException):
        raise problem
    workers = [worker for page in tab.context.pages for worker in page.workers]
    asked = (worker.evaluate("0") for worker in workers)  # Playwright takes them offline with their page
    await asyncio.gather(*asked, return_exceptions=True)


async def _tell(control: CDPSession, *, held: bool) -> None:
    """Tell a page whether it is held, so that it notices neither. Raises Playwright's errors."""
    event = f"dispatchEvent(new CustomEvent('{HOLD_EVENT}', {{detail: {json.dumps(held)}}}))"
    await control.send("Runtime.evaluate", {"expression": event})


async def release(tab: Tab, chromium: Chromium) -> None:
    """Let the pages send again. Bounded, never raises: the next act finds out what is wrong with a page.

    All are told at once: a page that hangs does not answer, and a worker must not wait for it.
    """
    if not tab.held:
        return
    tab.held = tab.watch.over = False
    with suppress(PlaywrightError, TimeoutError):
        async with asyncio.timeout(_FREE_SECONDS):
            await asyncio.gather(go_online(tab.context, _HELD), chromium.workers.set_offline(tab.watch, offline=False))
            told = (_tell(each, held=False) for each in (tab.control, *tab.controls.values()))
            await asyncio.gather(*told, return_exceptions=True)
