"""The page as an agent sees it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from harness.browser.checkpoint import open_pages
from harness.browser.reading import read_between_pages
from harness.browser.tab import Tab
from harness.browser.transfer import free_path
from harness.model.ports import Observation
from harness.resilience import Clock, Deadline


async def look(tab: Tab, folder: Path, until: Deadline, clock: Clock, *, screenshot: bool) -> Observation:
    """What is there, once no navigation is under way.

    Each `[ref=e12]` of the ARIA snapshot works as the selector `aria-ref=e12`, those of frames (`f1e2`) too.
    The caller bounds it. Raises what Playwright raises.
    """
    await tab.watch.settled()
    await tab.page.wait_for_load_state("domcontentloaded", timeout=0)
    aria = await tab.page.aria_snapshot(mode="ai", timeout=max(1.0, 1000 * until.left(clock.now())))
    title = await read_between_pages(tab.page, "title", None, None, clock)
    pages, current = open_pages(tab)
    return Observation(
        url=tab.page.url,
        title=title,
        aria=aria,
        pages=tuple(page.url for page in pages),
        page=current,
        dialogs=tuple(tab.watch.dialogs),
        screenshot=await _picture(tab, folder, until.left(clock.now())) if screenshot else None,
    )


async def _picture(tab: Tab, folder: Path, seconds: float) -> bytes:
    path = free_path(folder, "observation.png")
    try:
        await tab.picture(path, seconds)
        return await asyncio.to_thread(path.read_bytes)
    finally:
        await asyncio.to_thread(path.unlink, missing_ok=True)
