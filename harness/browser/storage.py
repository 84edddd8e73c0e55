"""The storage of a browser context: cookies, localStorage and IndexedDB; read, handed on, and put back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from playwright.async_api import BrowserContext, CDPSession, StorageState
from playwright.async_api import Error as PlaywrightError

from harness.browser.bounded import bounded
from harness.browser.isolated import ask
from harness.recovery.failure import Failure

_PROBE_SECONDS = 0.25
"""Seconds for the sessionStorage of a page, which is read without waiting for the page."""
_DATABASES = "Unable to serialize IndexedDB"
_NOT_PUT = "Unable to restore IndexedDB"
_FILL_SESSION = """
(([origin, entries]) => {
  if (window !== top || location.origin !== origin || sessionStorage.length) return;
  for (const [name, value] of Object.entries(entries)) sessionStorage.setItem(name, value);
})
"""


class Storage(Struct, frozen=True):
    """Cookies, localStorage and IndexedDB of every origin."""

    state: StorageState
    unsaved: tuple[str, ...] = ()
    """The parts that the browser could not give, a line each."""


async def whole_storage(context: BrowserContext) -> Storage:
    """Read everything. It waits for pages, of an origin without one for a hidden one. The caller limits the time."""
    try:
        return Storage(await context.storage_state(indexed_db=True))
    except PlaywrightError as error:
        if _DATABASES not in error.message:
            raise
        why = error.message[error.message.index(_DATABASES) :].splitlines()[0]
        return Storage(await context.storage_state(), (f"IndexedDB was not saved ({why})",))


async def read_storage(
    context: BrowserContext, free: Callable[[], Awaitable[object]], seconds: float, *, held_up: bool = False
) -> Storage | Failure:
    """Read everything, or say that it could not be read: a part of it in its place would log the next task out.

    `free` makes pages answer that hold the reading up. It ends what they do, so they first have half of the time for it
    themselves; unless they are known to be `held_up`.
    """
    why = f"not in {seconds:g} s"
    try:
        async with asyncio.timeout(seconds):
            if held_up:
                await free()
            reading = asyncio.ensure_future(whole_storage(context))
            try:
                done, _ = await asyncio.wait({reading}, timeout=seconds / 2)
                if not done:
                    await free()
                return await reading
            finally:
                reading.cancel()
    except TimeoutError:
        pass
    except PlaywrightError as error:
        why = (error.message.splitlines() or ["the browser is gone"])[0]
    return Failure("STORAGE_UNREADABLE", f"The browser's cookies, localStorage and IndexedDB could not be read: {why}")


def without_databases(state: StorageState) -> StorageState:
    """The same storage without IndexedDB. Pure."""
    return {
        "cookies": state["cookies"],
        "origins": [{"origin": each["origin"], "localStorage": each["localStorage"]} for each in state["origins"]],
    }


async def put_databases(context: BrowserContext, state: StorageState) -> None:
    """Restore IndexedDB in a context that has everything else; a database that cannot be restored is left out.

    This is not a part of making the context, where an error would look like one of the browser.
    """
    origins: Sequence[Mapping[str, Any]] = state["origins"]
    if not any(each.get("indexedDB") for each in origins):
        return
    try:
        await context.set_storage_state(state)
    except PlaywrightError as error:
        if _NOT_PUT not in error.message:
            raise


async def session_of(control: CDPSession) -> str | None:
    """A script that restores the page's sessionStorage (`session_script`); None if the page does not give it."""
    found = await bounded(ask(control, "() => [location.origin, {...sessionStorage}]"), _PROBE_SECONDS, None)
    return session_script(*found) if found else None


def session_script(origin: str, entries: Mapping[str, str]) -> str | None:
    """A script that fills an empty sessionStorage before the page's own scripts run; None without values."""
    return f"{_FILL_SESSION}({json.dumps([origin, dict(entries)])})" if entries else None
