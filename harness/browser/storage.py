"""What a context remembers, taken while it can still give it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from playwright.async_api import BrowserContext, CDPSession, Cookie, StorageState, StorageStateCookie
from playwright.async_api import Error as PlaywrightError

from harness.browser.isolated import ask
from harness.browser.tab import Tab

PROBE_SECONDS = 0.25
_DATABASES = "Unable to serialize IndexedDB"
_FILL_SESSION = """
(([origin, entries]) => {
  if (window !== top || location.origin !== origin || sessionStorage.length) return;
  for (const [name, value] of Object.entries(entries)) sessionStorage.setItem(name, value);
})
"""
_NOT_PUT = "Unable to restore IndexedDB"


async def whole_storage(context: BrowserContext) -> tuple[StorageState, tuple[str, ...]]:
    """Cookies, localStorage and IndexedDB of every origin; and what could not be had, a line each.

    Waits for the pages; the caller bounds it. An origin that no page is open at costs a hidden page.
    """
    try:
        return await context.storage_state(indexed_db=True), ()
    except PlaywrightError as error:
        if _DATABASES not in error.message:
            raise
        why = error.message[error.message.index(_DATABASES) :].splitlines()[0]
        return await context.storage_state(), (f"IndexedDB: was not saved ({why})",)


def without_databases(state: StorageState) -> StorageState:
    """The same without IndexedDB. Pure."""
    return {
        "cookies": state["cookies"],
        "origins": [{"origin": each["origin"], "localStorage": each["localStorage"]} for each in state["origins"]],
    }


async def put_databases(context: BrowserContext, state: StorageState) -> None:
    """Put IndexedDB back into a context that has all the rest; one that cannot be put back stays out.

    Not part of the context's making: an error there is taken for one of the browser.
    """
    origins: Sequence[Mapping[str, Any]] = state["origins"]
    if not any(each.get("indexedDB") for each in origins):
        return
    try:
        await context.set_storage_state(state)
    except PlaywrightError as error:
        if _NOT_PUT not in error.message:
            raise


async def state_of(tab: Tab, seconds: float) -> StorageState | None:
    """All that is stored; cookies alone when a page does not answer; None when nothing does."""
    try:
        async with asyncio.timeout(seconds):
            if tab.watch.crashed or await tab.freed(PROBE_SECONDS):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds / 2):
                        return (await whole_storage(tab.context))[0]
            return {"cookies": [_stored(cookie) for cookie in await tab.context.cookies()], "origins": []}
    except (PlaywrightError, TimeoutError):
        return None


async def session_of(control: CDPSession) -> str | None:
    """A script that puts the page's sessionStorage back (`session_script`); None when the page does not give it."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            origin, entries = await ask(control, "() => [location.origin, {...sessionStorage}]")
    except (PlaywrightError, TimeoutError):
        return None
    return session_script(origin, entries)


def session_script(origin: str, entries: Mapping[str, str]) -> str | None:
    """A script that fills an empty sessionStorage before those of the page run; None when there is nothing to fill."""
    return f"{_FILL_SESSION}({json.dumps([origin, dict(entries)])})" if entries else None


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
