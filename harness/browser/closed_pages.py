"""A page that the site closed stays closed: the task goes on where a person would."""

from __future__ import annotations

from collections.abc import Mapping

from harness.browser.context import Tab
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure


async def leave_closed(tab: Tab) -> Mapping[str, str] | None:
    """If the site closed the current page, turn to its opener, else to the newest page; return both addresses.

    None: the page is open, or crashed, or no other page is left. Raises Playwright's errors.
    """
    closed = tab.page
    if not can_go_on(tab):
        return None
    opener = await closed.opener()
    pages = tab.context.pages
    page = opener if opener is not None and opener in pages else pages[-1]
    await tab.switch(page)
    return {"closed": closed.url, "went_on_at": page.url}


def can_go_on(tab: Tab) -> bool:
    """Return whether the current page was closed while others are open."""
    return tab.page.is_closed() and not tab.watch.crashed and bool(tab.context.pages)


def closed_before(failure: Failure, tab: Tab, *, reads: bool) -> bool:
    """Return whether a call failed only because the page was closed: it may be made on another one."""
    return failure.code == "PAGE_CLOSED" and (reads or failure.effect is Effect.NONE) and can_go_on(tab)
