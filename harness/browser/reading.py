"""Reads the page: the page functions of the assertion language, and `text`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator, Page
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser.acts.attempt import LEAST_SECONDS
from harness.browser.acts.files import free_path
from harness.browser.checkpoint import open_pages
from harness.browser.context import Tab
from harness.browser.isolated import script
from harness.model.ports import Observation
from harness.resilience import Clock, Deadline, poll_until
from harness.spec.names import well_formed
from harness.spec.references import HIDDEN

# The page as an agent sees it.


async def look(tab: Tab, folder: Path, until: Deadline, clock: Clock, *, screenshot: bool) -> Observation:
    """Read the page for an agent, once no navigation is under way and its scripts have the data that they asked for.

    Each `[ref=e12]` of the ARIA snapshot works as the selector `aria-ref=e12`, those of frames (`f1e2`) too. The caller
    limits the time. Raises Playwright's errors.
    """
    await tab.watch.settled()
    await tab.page.wait_for_load_state("domcontentloaded", timeout=0)
    aria = await _still_snapshot(tab, until, clock)
    title = await read_between_pages(tab.page, "title", None, None, clock)
    pages, current = open_pages(tab)
    return Observation(
        url=tab.page.url,
        title=title,
        aria=aria,
        pages=tuple(page.url for page in pages),
        page=current,
        dialogs=tuple(each.as_json() for each in tab.watch.dialogs),
        screenshot=await _picture(tab, folder, until.left(clock.now())) if screenshot else None,
    )


ARRIVES_SECONDS = 1.0
"""How long a criterion waits for the rest of a document; one that never ends is judged by what has come of it."""
FILLED_SECONDS = 1.0
"""How long a look waits for a page to be complete; a page may also change all the time, or ask for data for ever."""
STILL_SECONDS = 0.1
"""A page that looks the same after this time, and waits for nothing, is complete."""
_FILLS = frozenset({"fetch", "xhr", "stylesheet", "script"})
"""What a page waits for; without styles, a snapshot also has what they hide."""


async def _still_snapshot(tab: Tab, until: Deadline, clock: Clock) -> str:
    """The snapshot of the page; of one that has just come or waits for data, once it no longer changes.

    Half a page would lead an agent astray, and make what it asks a model differ from run to run.
    """

    def has_all() -> bool:
        return not any(request.resource_type in _FILLS for request in tab.watch.loading)

    async def snapshot() -> str:
        left = until.left(clock.now())
        seen = well_formed(await tab.page.aria_snapshot(mode="ai", timeout=max(1.0, 1000 * left)))
        return without_passwords(seen, await _passwords(tab.page, left)) if "textbox" in seen else seen

    complete = tab.watch.navigation is None and has_all()
    seen, end = await snapshot(), Deadline.after(FILLED_SECONDS, clock.now())
    while not complete and (left := end.left(clock.now())) > 0:
        await poll_until(clock, has_all, interval=0.02, within=left)
        await clock.sleep(STILL_SECONDS)
        before, seen = seen, await snapshot()
        complete = seen == before and has_all()
    return seen


_VALUES = script("passwords", "matches => matches.map(field => field.value)")
_FIELD_LINE = re.compile(r"\s*- '?text(?:box)?\b")
"""A line of a snapshot with what a field contains; of a field with a placeholder, this is a line of its own."""


async def _passwords(page: Page, seconds: float) -> frozenset[str]:
    """What the password fields of a page and its frames contain. Raises Playwright's errors."""
    found: set[str] = set()
    for frame in page.frames:
        try:
            found.update(await _VALUES.of_all(frame.locator("input[type=password]"), None, seconds))
        except PlaywrightError:
            if not frame.is_detached():
                raise
    return frozenset(found)


def without_passwords(snapshot: str, passwords: Iterable[str]) -> str:
    """The snapshot, which no longer shows what password fields contain: no model and no recording needs it. Pure."""
    plain = {" ".join(each.split()) for each in passwords} - {""}
    quoted = {'"' + each.replace("\\", "\\\\").replace('"', '\\"') + '"' for each in plain}
    ends = sorted((f": {each}" for each in plain | quoted), key=len, reverse=True)

    def hidden(line: str) -> str:
        end = next(filter(line.endswith, ends), None) if _FIELD_LINE.match(line) else None
        return line if end is None else f"{line.removesuffix(end)}: {HIDDEN}"

    return "\n".join(map(hidden, snapshot.split("\n"))) if plain else snapshot


async def _picture(tab: Tab, folder: Path, seconds: float) -> bytes:
    path = free_path(folder, "observation.png")
    try:
        await tab.picture(path, seconds)
        return await asyncio.to_thread(path.read_bytes)
    finally:
        await asyncio.to_thread(path.unlink, missing_ok=True)


_ASKED = """
  const first = matches[0];
  const field = e => ['INPUT', 'TEXTAREA', 'SELECT'].includes(e.tagName);
  const visible = () => matches.some(e => {
    const box = e.getBoundingClientRect();
    return box.width > 0 && box.height > 0 && e.checkVisibility({visibilityProperty: true});
  });
  const text = () => first ? (field(first) ? first.value : first.innerText ?? first.textContent) : null;
  const value = () => first ? (field(first) ? first.value : first.getAttribute('value')) : null;
"""
_READ = script(
    "read",
    "(matches, [what, name]) => {"
    + _ASKED
    + """
  switch (what) {
    case 'visible': return visible();
    case 'text': return text();
    case 'value': return value();
    case 'attr': return first ? first.getAttribute(name) : null;
    case 'count': return matches.length;
    case 'exists': return matches.length > 0;
  }
}
""",
)
_STATE = script(
    "state",
    "matches => {"
    + _ASKED
    + """
  const attributes = {};
  for (const name of first?.getAttributeNames() ?? []) {
    const found = first.getAttribute(name);
    if (found !== null) attributes[name] = found;
  }
  return {count: matches.length, visible: visible(), text: text(), value: value(), field: !!first && field(first),
    attributes};
}
""",
)
LARGEST = 2_000_000
"""Characters of a page's state, as JSON."""
_FIELD = ":scope:is(input, textarea, select)"
_NO_FIELD = ":scope:not(input, textarea, select)"
_REPLACED = re.compile(r"Execution context was destroyed|page is navigating")
ELEMENT_FUNCTIONS = frozenset({"exists", "text", "value", "attr", "count", "visible"})


async def arrived(page: Page) -> None:
    """Wait until the document is whole, for `ARRIVES_SECONDS` at most.

    A click is over as soon as the page to which it leads begins to come, and what is at the end of it would be missing.
    """
    with contextlib.suppress(PlaywrightTimeoutError):
        await page.wait_for_load_state("domcontentloaded", timeout=ARRIVES_SECONDS * 1000)


async def read_page(page: Page, function: str, selector: str | None, name: str | None) -> Any:
    """Evaluate one page function now.

    A missing element gives None (`count` 0, `exists` false). Raises Playwright's errors.
    """
    if function == "url":
        return page.url
    if function == "title":
        return well_formed(await page.title())
    if function not in ELEMENT_FUNCTIONS or selector is None:
        raise ValueError(f"no such page function: {function}")
    return await _READ.of_all(page.locator(selector), [function, name])


async def read_between_pages(page: Page, function: str, selector: str | None, name: str | None, clock: Clock) -> Any:
    """`read_page`; while the page is being replaced it cannot be read, so the new one is."""
    while True:
        try:
            return await read_page(page, function, selector, name)
        except PlaywrightError as error:
            if not _REPLACED.search(error.message):
                raise
            await clock.sleep(0.02)


async def page_state(page: Page, selectors: Iterable[str]) -> dict[str, Any]:
    """The answers of every page function now: `url`, `title`, and in `elements` the matches of each selector.

    A selector that Playwright refuses is left out. Raises Playwright's errors, and ValueError for a page that is too
    large.
    """
    elements = []
    for each in selectors:
        with contextlib.suppress(PlaywrightError):
            elements.append({"selector": each, **await _STATE.of_all(page.locator(each))})
    state = {"version": 2, "url": page.url, "title": well_formed(await page.title()), "elements": elements}
    if len(json.dumps(state)) > LARGEST:
        raise ValueError(f"what criteria look at has more than {LARGEST} characters")
    return state


async def text_of(locator: Locator, until: Deadline, clock: Clock) -> str:
    """The text of the first match, or the value of a field; waits for it until then.

    Playwright's own functions are asked, two at a time; where they cannot tell, a script of ours is.
    """
    first = locator.first
    text, plain = await asyncio.gather(
        first.inner_text(timeout=_ms(until, clock)), first.locator(_NO_FIELD).count(), return_exceptions=True
    )
    if isinstance(text, BaseException):
        if not _is_drawing(text):
            raise text
    # An element that appeared or vanished meanwhile was not a plain element at that time, and was read.
    elif text and (plain == 1 or not await first.locator(_FIELD).count()):
        return well_formed(text)
    return str(await _READ.of_one(first, ["text", None], _ms(until, clock) / 1000))


def _ms(until: Deadline, clock: Clock) -> float:
    return 1000 * max(until.left(clock.now()), LEAST_SECONDS)


def _is_drawing(error: BaseException) -> bool:
    """Return whether an element is SVG, which has no `innerText`; Playwright reports that."""
    return isinstance(error, PlaywrightError) and "not an HTMLElement" in error.message
