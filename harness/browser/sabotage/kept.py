"""Faults done to what a browser keeps: cookies, localStorage, sessionStorage, IndexedDB."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, Frame, Page
from playwright.async_api import Error as PlaywrightError

from harness.model.ports import Strike
from harness.spec.faults import SessionExpired

_CLEAR = """
async () => {
  const databases = (await indexedDB.databases()).length;
  const had = localStorage.length + sessionStorage.length + databases;
  localStorage.clear();
  sessionStorage.clear();
  return had;
}
"""


async def expire_session(context: BrowserContext, strike: Strike) -> None:
    """Take away the cookies that a host is sent, or all."""
    fault = strike.fault
    assert isinstance(fault, SessionExpired)
    cookies = [each for each in await context.cookies() if sent_to(each.get("domain", ""), fault.host)]
    for each in cookies:
        await context.clear_cookies(name=each.get("name"), domain=each.get("domain"), path=each.get("path"))
    if cookies:
        strike.met()


def sent_to(domain: str, host: str | None) -> bool:
    """Whether a cookie of this domain is sent to the host; one of `.domain` is to those below it, too. Pure."""
    if host is None:
        return True
    bare, host = domain.lower().removeprefix("."), host.lower()
    return host == bare or (domain.startswith(".") and host.endswith(f".{bare}"))


async def clear_storage(context: BrowserContext, strike: Strike) -> None:
    """Empty the storages of every origin that a page, or a frame in it, is open at."""
    found = await asyncio.gather(*(_clear_page(page) for page in context.pages))
    if any(found):
        strike.met()


async def _clear_page(page: Page) -> bool:
    """Whether there was anything."""
    had = await asyncio.gather(*(_clear_frame(frame) for frame in page.frames))
    control = await page.context.new_cdp_session(page)
    for origin in {_origin(frame.url) for frame in page.frames if frame.url.startswith("http")}:
        await control.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "indexeddb"})
    await control.detach()
    return any(had)


async def _clear_frame(frame: Frame) -> int:
    """How much there was; a document without an origin of its own has nothing."""
    try:
        had: int = await frame.evaluate(_CLEAR)
    except PlaywrightError:
        return 0
    return had


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
