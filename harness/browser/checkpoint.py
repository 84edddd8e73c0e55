"""The browser's side of a checkpoint: taken from the open pages, and put back into others (docs/design/checkpoints.md).

Lives in memory only. Not kept: a page's history, its opener, what only its scripts know, frames of other origins.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page, StorageState

from harness.browser.context import Tab, whole_storage
from harness.browser.dialogs import DialogAnswer
from harness.browser.form_state import (
    FormField,
    PageState,
    fill,
    page_differences,
    read_state,
    same,
    storage_differences,
)
from harness.resilience import Clock

FILE_BYTES = 20 * 2**20
"""Chosen files of all pages together; what is beyond is not kept, and named afterwards."""
FILLS = 2
"""How often one field is filled: a script may have put it back once, not for ever."""
SETTLE_SECONDS = 1.0
"""How long the pages' scripts may take to come to the saved state."""
PAUSE_SECONDS = 0.05
_REPLACED = re.compile(
    r"Execution context was destroyed|page is navigating|Cannot find context with specified id"
    r"|Inspected target navigated or closed|No frame for given id"
)


@dataclass(frozen=True, slots=True)
class PageCheckpoint:
    """What a session can go back to (ports.Saved)."""

    storage: StorageState = field(repr=False)
    pages: tuple[PageState, ...]
    current: int
    """Place of the current page among `pages`."""
    passwords: frozenset[str] = frozenset()
    """Hosts on which a password had been typed."""
    unsaved: tuple[str, ...] = ()
    """What the browser could not give, a line each."""
    answer: DialogAnswer | None = None
    """The answer to the next dialog, when a step has prepared one."""
    addresses: tuple[str, ...] = ()
    """The addresses of the pages and of their documents."""

    @property
    def url(self) -> str:
        return self.pages[self.current].url

    def differences(self, now: PageCheckpoint) -> tuple[str, ...]:
        """What is not as it was saved, a line each."""
        lines = [*storage_differences(self.storage, now.storage), *page_differences(self.pages, now.pages)]
        if self.current != now.current:
            lines.append(f"current page: was page {self.current + 1}, is page {now.current + 1}")
        return (*self.unsaved, *lines)


async def take(tab: Tab, clock: Clock, room: int = FILE_BYTES) -> PageCheckpoint:
    """The state now, once no navigation is under way. The caller bounds it. Raises what Playwright raises."""
    await tab.watch.settled()
    pages, current = open_pages(tab)
    (storage, unsaved), states = await asyncio.gather(whole_storage(tab.context), _states(tab, pages, clock, room))
    addresses = tuple(address for page in pages for address in tab.watch.addresses(page))
    answer = tab.watch.prepared
    return PageCheckpoint(storage, states, current, frozenset(tab.passwords), unsaved, answer, addresses)


def open_pages(tab: Tab) -> tuple[list[Page], int]:
    """The open pages, and the place of the current one. Raises what Playwright would, when that was closed."""
    pages = tab.context.pages
    if tab.page not in pages:
        raise PlaywrightError("the page was closed")
    return pages, pages.index(tab.page)


async def _states(tab: Tab, pages: Sequence[Page], clock: Clock, room: int) -> tuple[PageState, ...]:
    states: list[PageState] = []
    for page in pages:
        state, room = await _state(tab, page, clock, room)
        states.append(state)
    return tuple(states)


async def _state(tab: Tab, page: Page, clock: Clock, room: int) -> tuple[PageState, int]:
    """A page that is just being replaced cannot be read: the new one is."""
    while True:
        try:
            await page.wait_for_load_state("domcontentloaded", timeout=0)
            return await read_state(await tab.control_of(page), room)
        except PlaywrightError as error:
            if not _REPLACED.search(error.message):
                raise
            await clock.sleep(PAUSE_SECONDS / 2)


async def settle(tab: Tab, saved: PageCheckpoint, clock: Clock, *, fills: bool = True) -> tuple[str, ...]:
    """Fill what differs, and wait a little for the scripts to follow. Returns what differs in the end.

    `fills`: else only wait, since to fill a field may write. The caller bounds it. Raises what Playwright raises.
    """
    filled: Counter[tuple[int, str]] = Counter()
    limit = clock.now() + SETTLE_SECONDS
    while True:
        now = await take(tab, clock, room=0)
        lines = saved.differences(now)
        if len(lines) == len(saved.unsaved) or clock.now() >= limit:
            return lines
        if not (fills and await _refill(tab, saved, now, filled)):
            await clock.sleep(PAUSE_SECONDS)


async def unlike(tab: Tab, saved: PageCheckpoint, clock: Clock) -> tuple[str, ...]:
    """The places of the fields that are there and hold something else than was saved. Raises what Playwright raises."""
    now = await take(tab, clock, room=0)
    pages = zip(saved.pages, now.pages, strict=False)
    return tuple(each.place for wanted, found in pages for each in _unlike(wanted, found))


def _unlike(wanted: PageState, found: PageState) -> list[FormField]:
    known = {each.place: each for each in found.fields}
    return [each for each in wanted.fields if each.place in known and not same(each, known[each.place])]


async def _refill(tab: Tab, saved: PageCheckpoint, now: PageCheckpoint, fills: Counter[tuple[int, str]]) -> bool:
    """Put back the fields that differ, page by page. Whether there was one that could be filled."""
    done = False
    for number, (page, wanted, found) in enumerate(zip(tab.context.pages, saved.pages, now.pages, strict=False)):
        fields = [each for each in _unlike(wanted, found) if fills[number, each.place] < FILLS]
        if fields or wanted.scroll != found.scroll:
            filled = await fill(await tab.control_of(page), fields, wanted.scroll)
            fills.update((number, place) for place in filled)
            done = done or bool(filled)
    return done
