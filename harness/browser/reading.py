"""Looking at the page: the page functions of the assertion language, and `text`."""

from __future__ import annotations

import re
from typing import Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator, Page

from harness.browser.attempt import LEAST_SECONDS
from harness.resilience import Clock, Deadline

_READ = """
(matches, [what, name]) => {
  const first = matches[0];
  const field = e => ['INPUT', 'TEXTAREA', 'SELECT'].includes(e.tagName);
  switch (what) {
    case 'exists': return matches.length > 0;
    case 'count': return matches.length;
    case 'visible': return matches.some(e => {
      const box = e.getBoundingClientRect();
      return box.width > 0 && box.height > 0 && e.checkVisibility({visibilityProperty: true});
    });
    case 'text': return first ? (field(first) ? first.value : first.innerText ?? first.textContent) : null;
    case 'value': return first ? (field(first) ? first.value : first.getAttribute('value')) : null;
    case 'attr': return first ? first.getAttribute(name) : null;
  }
}
"""
_TEXT_OF = "e => ['INPUT', 'TEXTAREA', 'SELECT'].includes(e.tagName) ? e.value : e.innerText ?? e.textContent"
_FIRST_TEXT = f"matches => matches.slice(0, 1).map({_TEXT_OF})"
_REPLACED = re.compile(r"Execution context was destroyed|page is navigating")
ELEMENT_FUNCTIONS = frozenset({"exists", "text", "value", "attr", "count", "visible"})


async def read_page(page: Page, function: str, selector: str | None, name: str | None) -> Any:
    """One page function, now: one call to the page. A missing element is None (`count` 0, `exists` false)."""
    if function == "url":
        return page.url
    if function == "title":
        return await page.title()
    if function not in ELEMENT_FUNCTIONS or selector is None:
        raise ValueError(f"no such page function: {function}")
    return await page.locator(selector).evaluate_all(_READ, [function, name])


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

    One call to the page when it is there, which is the rule; Playwright's own waiting costs three.
    """
    try:
        found = await locator.evaluate_all(_FIRST_TEXT)
    except PlaywrightError:
        found = []
    if found:
        return str(found[0])
    left = max(until.left(clock.now()), LEAST_SECONDS)
    return str(await locator.first.evaluate(_TEXT_OF, timeout=left * 1000))
