"""Looking at the page: the page functions of the assertion language, and `text`."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator, Page

from harness.browser.attempt import LEAST_SECONDS
from harness.browser.isolated import script
from harness.resilience import Clock, Deadline

_READ = script(
    "read",
    """
(matches, [what, name]) => {
  const first = matches[0];
  const field = e => ['INPUT', 'TEXTAREA', 'SELECT'].includes(e.tagName);
  switch (what) {
    case 'visible': return matches.some(e => {
      const box = e.getBoundingClientRect();
      return box.width > 0 && box.height > 0 && e.checkVisibility({visibilityProperty: true});
    });
    case 'text': return first ? (field(first) ? first.value : first.innerText ?? first.textContent) : null;
    case 'value': return first ? (field(first) ? first.value : first.getAttribute('value')) : null;
    case 'attr': return first ? first.getAttribute(name) : null;
    case 'count': return matches.length;
    case 'exists': return matches.length > 0;
  }
}
""",
)
_FIELD = ":scope:is(input, textarea, select)"
_NO_FIELD = ":scope:not(input, textarea, select)"
_REPLACED = re.compile(r"Execution context was destroyed|page is navigating")
ELEMENT_FUNCTIONS = frozenset({"exists", "text", "value", "attr", "count", "visible"})


async def read_page(page: Page, function: str, selector: str | None, name: str | None) -> Any:
    """One page function, now.

    A missing element is None (`count` 0, `exists` false). Raises what Playwright raises.
    """
    if function == "url":
        return page.url
    if function == "title":
        return await page.title()
    if function not in ELEMENT_FUNCTIONS or selector is None:
        raise ValueError(f"no such page function: {function}")
    return await _READ.of_all(page.locator(selector), [function, name])


async def read_between_pages(page: Page, function: str, selector: str | None, name: str | None, clock: Clock) -> Any:
    """`read_page`; a page that is just being replaced cannot be read: the new one is."""
    while True:
        try:
            return await read_page(page, function, selector, name)
        except PlaywrightError as error:
            if not _REPLACED.search(error.message):
                raise
            await clock.sleep(0.02)


async def text_of(locator: Locator, until: Deadline, clock: Clock) -> str:
    """Text of the first match, or the value of a field; waits for it until then.

    Asked by Playwright's own functions, two at a time; of what they cannot tell, by one of ours.
    """
    first = locator.first
    text, plain = await asyncio.gather(
        first.inner_text(timeout=_ms(until, clock)), first.locator(_NO_FIELD).count(), return_exceptions=True
    )
    if isinstance(text, BaseException):
        if not _is_drawing(text):
            raise text
    # What came while it was looked at, or is gone since, was no plain element then; and it was read.
    elif text and (plain == 1 or not await first.locator(_FIELD).count()):
        return text
    return str(await _READ.of_one(first, ["text", None], _ms(until, clock) / 1000))


def _ms(until: Deadline, clock: Clock) -> float:
    return 1000 * max(until.left(clock.now()), LEAST_SECONDS)


def _is_drawing(error: BaseException) -> bool:
    """SVG has no `innerText`, and Playwright says so."""
    return isinstance(error, PlaywrightError) and "not an HTMLElement" in error.message
