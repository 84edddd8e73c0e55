"""What a context remembers, taken while it can still give it."""

from __future__ import annotations

import asyncio

from playwright.async_api import Cookie, StorageState, StorageStateCookie
from playwright.async_api import Error as PlaywrightError

from harness.browser.tab import Tab

PROBE_SECONDS = 0.25


async def state_of(tab: Tab, seconds: float) -> StorageState | None:
    """Cookies and localStorage; cookies alone when the page does not answer; None when nothing does."""
    try:
        async with asyncio.timeout(seconds):
            if tab.watch.crashed or await tab.freed(PROBE_SECONDS):
                return await tab.context.storage_state()
            return {"cookies": [_stored(cookie) for cookie in await tab.context.cookies()], "origins": []}
    except (PlaywrightError, TimeoutError):
        return None


def _stored(cookie: Cookie) -> StorageStateCookie:
    return {
        "name": cookie["name"],
        "value": cookie["value"],
        "domain": cookie["domain"],
        "path": cookie["path"],
        "expires": cookie["expires"],
        "httpOnly": cookie["httpOnly"],
        "secure": cookie["secure"],
        "sameSite": cookie["sameSite"],
    }
