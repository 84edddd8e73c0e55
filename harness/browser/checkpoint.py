"""The browser's side of a checkpoint: read from the open pages, and restored into others (docs/design/checkpoints.md).

It exists in memory only. Not saved are a page's history, its opener, the state of its scripts, and frames of other
origins.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page, StorageState

from harness.browser.context import Tab
from harness.browser.dialogs import DialogAnswer
from harness.browser.form_state import (
    FormField,
    PageState,
    fill,
    is_same_value,
    page_differences,
    read_state,
    storage_differences,
)
from harness.browser.storage import whole_storage
from harness.resilience import Clock

_FILE_BYTES = 20 * 2**20
"""Bytes of chosen files of all pages together; files beyond that are not saved, and named afterwards."""
_FILLS = 2
"""How many times one field is filled: a script may reset it once, not for ever."""
_SETTLE_SECONDS = 1.0
"""Seconds that the pages' scripts may take to reach the saved state."""
_PAUSE_SECONDS = 0.05
_REPLACED = re.compile(
    r"Execution context was destroyed|page is navigating|Cannot find context with specified id"
    r"|Inspected target navigated or closed|No frame for given id"
)


@dataclass(frozen=True, slots=True)
class PageCheckpoint:
    """The state that a session can go back to (ports.Saved)."""

    storage: StorageState = field(repr=False)
    pages: tuple[PageState, ...]
    current: int
    """The position of the current page in `pages`."""
    passwords: frozenset[str] = frozenset()
    """Hosts on which a password had been typed."""
    unsaved: tuple[str, ...] = ()
    """The parts that the browser could not give, a line each."""
    answers: tuple[DialogAnswer, ...] = ()
    """The answers to the next dialogs that steps have set."""
    addresses: tuple[str, ...] = ()
    """The addresses of the pages and of their documents."""
    posted: bool = False
    """Whether the current page was the answer to an unsafe request, which is not sent again."""

    @property
    def url(self) -> str:
        return self.pages[self.current].url

    def differences(self, now: PageCheckpoint) -> tuple[str, ...]:
        """The differences from what was saved, a line each."""
        lines = [*storage_differences(self.storage, now.storage), *page_differences(self.pages, now.pages)]
        if self.current != now.current:
            lines.append(f"current page: was page {self.current + 1}, is page {now.current + 1}")
        return (*self.unsaved, *lines)


async def take(tab: Tab, clock: Clock, room: int = _FILE_BYTES) -> PageCheckpoint:
    """Read the present state once no navigation is under way. The caller limits the time. Raises Playwright errors."""
    await tab.watch.settled()
    pages, current = open_pages(tab)
    storage, states = await asyncio.gather(whole_storage(tab.context), _states(tab, pages, clock, room))
    addresses = tuple(address for page in pages for address in tab.watch.addresses(page))
    answers, passwords = tab.watch.dialog_answers.prepared, frozenset(tab.passwords)
    return PageCheckpoint(storage.state, states, current, passwords, storage.unsaved, answers, addresses)


def open_pages(tab: Tab) -> tuple[list[Page], int]:
    """The open pages, and the position of the current one. Raises Playwright's error if the current one was closed."""
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
    """Read one page. A page that is just being replaced cannot be read, so the new one is."""
    while True:
        try:
            await page.wait_for_load_state("domcontentloaded", timeout=0)
            return await read_state(await tab.control_of(page), room)
        except PlaywrightError as error:
            if not _REPLACED.search(error.message):
                raise
            await clock.sleep(_PAUSE_SECONDS / 2)


async def settle(tab: Tab, saved: PageCheckpoint, clock: Clock, *, fills: bool = True) -> tuple[str, ...]:
    """Fill the fields that differ, and wait a moment for the scripts. Returns the differences that remain.

    Without `fills` it only waits, since filling a field may write. The caller limits the time. Raises Playwright's
    errors.
    """
    filled: Counter[tuple[int, str]] = Counter()
    limit = clock.now() + _SETTLE_SECONDS
    while True:
        now = await take(tab, clock, room=0)
        lines = saved.differences(now)
        if len(lines) == len(saved.unsaved) or clock.now() >= limit:
            return lines
        if not (fills and await _refill(tab, saved, now, filled)):
            await clock.sleep(_PAUSE_SECONDS)


async def differing_places(tab: Tab, saved: PageCheckpoint, clock: Clock) -> tuple[str, ...]:
    """The places of fields that exist and have another value than saved. Raises Playwright's errors."""
    now = await take(tab, clock, room=0)
    pages = zip(saved.pages, now.pages, strict=False)
    return tuple(each.place for wanted, found in pages for each in _differing_fields(wanted, found))


def _differing_fields(wanted: PageState, found: PageState) -> list[FormField]:
    known = {each.place: each for each in found.fields}
    return [each for each in wanted.fields if each.place in known and not is_same_value(each, known[each.place])]


async def _refill(tab: Tab, saved: PageCheckpoint, now: PageCheckpoint, fills: Counter[tuple[int, str]]) -> bool:
    """Fill the fields that differ, page by page. Returns whether there was one that could be filled."""
    done = False
    for number, (page, wanted, found) in enumerate(zip(tab.context.pages, saved.pages, now.pages, strict=False)):
        fields = [each for each in _differing_fields(wanted, found) if fills[number, each.place] < _FILLS]
        if fields or wanted.scroll != found.scroll:
            filled = await fill(await tab.control_of(page), fields, wanted.scroll)
            fills.update((number, place) for place in filled)
            done = done or bool(filled)
    return done
