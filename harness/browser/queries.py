"""Asks the page: the page functions of the assertion language. Whatever looks at a page looks through these."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import FrameLocator, Locator, Page
from playwright.async_api import TimeoutError as PlaywrightTimeoutError
from playwright.async_api import expect as expect_of

from harness.browser.context import Tab
from harness.browser.failures.scene import UnseenError
from harness.browser.isolated import DISPLAYED, script
from harness.browser.locating import frames_of, in_playwright
from harness.criteria import STUCK_SECONDS, PageQuery, fold, pauses
from harness.criteria.syntax import ACCESSIBLE, SELECTOR_FUNCTIONS, STORED
from harness.resilience import Clock, Deadline
from harness.spec.names import well_formed
from harness.task_secrets import is_session_value, learn

LEAST_SECONDS = 0.02
"""The shortest timeout in seconds: Playwright reads a timeout of 0 as "for ever"."""
_ARRIVES_SECONDS = 1.0
"""How long a criterion waits for the rest of a document; one that never ends is judged by what has come of it."""
_ASKED = (
    DISPLAYED
    + """
  const first = matches[0], shown = matches.find(displayed);
  const text = () => shown ? textOf(shown) : null;
  const enabled = e => !e.matches(':disabled') && !e.closest('[aria-disabled=true]');
  const writable = e => e.isContentEditable || ['INPUT', 'TEXTAREA'].includes(e.tagName) || e.tagName === 'SELECT';
  const inView = e => {
    const box = e.getBoundingClientRect();
    let [left, top, right, bottom] = [box.left, box.top, box.right, box.bottom];
    const clip = (l, t, r, b) => {
      [left, top, right, bottom] = [Math.max(left, l), Math.max(top, t), Math.min(right, r), Math.min(bottom, b)];
    };
    clip(0, 0, innerWidth, innerHeight);
    for (let at = e.parentElement; at && at !== document.documentElement; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (at === document.body || style.overflow === 'visible') continue;
      const around = at.getBoundingClientRect();
      clip(around.left, around.top, around.right, around.bottom);
    }
    return right > left && bottom > top;
  };
  const states = e => ({
    checked: 'checked' in e ? e.checked : e.getAttribute('aria-checked') === 'true',
    enabled: enabled(e),
    editable: enabled(e) && writable(e) && !e.readOnly && e.getAttribute('aria-readonly') !== 'true',
    focused: e.getRootNode().activeElement === e,
    empty: field(e) ? !e.value : !e.textContent.trim(),
    in_viewport: inView(e),
  });
  const value = () => first ? (field(first) ? first.value : first.getAttribute('value')) : null;
"""
)
_READ = script(
    "read",
    "(matches, [what, name]) => {"
    + _ASKED
    + """
  switch (what) {
    case 'visible': return matches.some(visible) || (matches.length ? null : false);
    case 'text': return text();
    case 'text_content': return first ? first.textContent : null;
    case 'value': return first && first.type === 'password' ? {secret: value()} : value();
    case 'attr': return first ? first.getAttribute(name) : null;
    case 'count': return matches.length;
    case 'exists': return matches.length > 0;
    case 'shown': return matches.indexOf(shown);
    case 'texts': return matches.filter(displayed).map(textOf).slice(0, 10000);
  }
  if (!shown) return null;
  switch (what) {
    case 'class': return [...shown.classList];
    case 'css': return getComputedStyle(shown).getPropertyValue(name);
  }
  return states(shown)[what];
}
""",
)
_LOCAL_STORAGE = script("local_storage", "(_, name) => localStorage.getItem(name)")
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
  return {count: matches.length, visible: matches.some(visible), text: text(),
    text_content: first ? first.textContent : null, value: value(), field: !!first && field(first), attributes,
    texts: matches.filter(displayed).slice(0, 100).map(textOf), states: shown ? states(shown) : null};
}
""",
)
_NO_ELEMENT: dict[str, Any] = {
    "count": 0, "visible": False, "text": None, "text_content": None, "value": None, "field": False, "attributes": {},
    "texts": [], "states": None,
}  # fmt: skip
LARGEST = 2_000_000
"""Characters of a page's state, as JSON."""
_REPLACED = re.compile(r"Execution context was destroyed|page is navigating|Frame was detached")
_ABSENT: dict[str, Any] = {"exists": False, "count": 0, "visible": False, "texts": []}
"""The answers of the functions about elements if there is none; of all others it is None."""
_NO_NAME = "\u0001"
_SEEN = re.compile(r"\nActual value: (?P<value>.*?) *\n(?:Error: |Call log:)")
"""Playwright's words for the value that an assertion has seen last."""
_FRAME_SECONDS = 1.0
"""Seconds for one look into a frame, which may vanish meanwhile; then it is looked for again."""


async def _read_page(page: Page, query: PageQuery, seconds: float) -> Any:
    """Evaluate one page function now; a page that is busy is waited for, at most so many seconds.

    A missing element gives None (`count` 0, `exists` and `visible` false), and None is `visible` for one that is there
    and not to be seen. Raises Playwright's errors.
    """
    if query.function not in SELECTOR_FUNCTIONS:
        return await _read_whole(page, query, seconds)
    if query.selector is None:
        raise ValueError(f"`{query.function}` asks for an element")
    scope = await _scope(page, query.frame)
    if scope is None:
        return _ABSENT.get(query.function)
    seconds = seconds if query.frame is None else min(seconds, _FRAME_SECONDS)
    matches = scope.locator(in_playwright(page, query.selector))
    if query.function in ACCESSIBLE:
        return await _accessible(matches, query.function, seconds)
    return await _read_element(matches, query, seconds)


async def _read_whole(page: Page, query: PageQuery, seconds: float) -> Any:
    """Evaluate a function that asks for no element."""
    if query.function == "url":
        return page.url
    if query.function == "title":
        return well_formed(await page.title())
    if query.function in STORED and query.name is not None:
        return await _stored(page, query.function, query.name, seconds)
    raise ValueError(f"no such page function: {query.function}")


async def _read_element(matches: Locator, query: PageQuery, seconds: float) -> Any:
    found = await _READ.of_all(matches, [query.function, query.name], seconds)
    if isinstance(found, dict):
        found = found["secret"]
        learn(found)
    if isinstance(found, list):
        return [fold(well_formed(each)) for each in found]
    return well_formed(found) if isinstance(found, str) else found


async def _accessible(matches: Locator, function: str, seconds: float) -> str | None:
    """The role, accessible name or the like of the first displayed match, as Playwright's selectors have them.

    Only its assertions tell these: of one that fails at once, the value that was seen.
    """
    shown, wrong = await _READ.of_all(matches, ["shown", None], seconds), ""
    while shown >= 0:
        ask = getattr(expect_of(matches.nth(shown)), f"to_have_{function}")
        try:
            await ask(wrong or _NO_NAME, timeout=1)
        except AssertionError as error:
            told = _SEEN.search(str(error))
            seen = told["value"].strip() if told else "None"
        else:
            seen = wrong
        before, shown = shown, await _READ.of_all(matches, ["shown", None], seconds)
        if shown == before and (seen != "None" or wrong == seen):
            return well_formed(seen)
        wrong = "None" if seen == "None" else ""  # there was no look, or it is its name
    return None


async def _stored(page: Page, function: str, name: str, seconds: float) -> str | None:
    """What the site of the page keeps in the browser under a name; a session's value is learnt as a secret."""
    if function == "local_storage":
        found = await _LOCAL_STORAGE.of_one(page.locator(":root"), name, seconds)
    else:
        found = next((each["value"] for each in await page.context.cookies(page.url) if each["name"] == name), None)
    if isinstance(found, str) and is_session_value(found):
        learn(found)
    return well_formed(found) if isinstance(found, str) else None


async def _scope(page: Page, frame: str | None) -> Page | FrameLocator | None:
    """The page, or the frame; None if there is no such frame."""
    scope: Page | FrameLocator = page
    for part in frames_of(frame):
        frames = scope.locator(in_playwright(page, part))
        if not await frames.count():
            return None
        scope = frames.content_frame
    return scope


async def read_between_pages(page: Page, query: PageQuery, clock: Clock, seconds: float) -> Any:
    """`_read_page`; while the page or the frame is being replaced it cannot be read, so the new one is."""
    until = Deadline.after(seconds, clock.now())
    while True:
        try:
            return await _read_page(page, query, max(until.left(clock.now()), LEAST_SECONDS))
        except PlaywrightError as error:
            vanished = query.frame is not None and isinstance(error, PlaywrightTimeoutError)
            if not (vanished or _REPLACED.search(error.message)) or not until.left(clock.now()):
                raise
            await clock.sleep(0.02)


async def shown_text(
    tab: Tab,
    query: PageQuery,
    accepts: Callable[[str], bool],
    until: Deadline,
    clock: Clock,
    patience: float = math.inf,
) -> str | None:
    """The text of the first match that is displayed, once there is one that is accepted; None after `patience`.

    A look at a page that is busy takes as long as the page, but not longer than `until`. Raises UnseenError if the time
    is over and the page had answered lately, else Playwright's error.
    """
    end = min(until.at, clock.now() + patience)
    answered, waits = -math.inf, pauses()
    while True:
        began = clock.now()
        try:
            text = await look_at(tab, query, until.left(began), clock)
        except PlaywrightTimeoutError as error:
            if clock.now() - answered < STUCK_SECONDS:
                raise UnseenError(error.message) from error
            raise
        answered = clock.now()
        if text is not None and accepts(text):
            return str(text)
        if began >= end:
            return None
        await clock.sleep(max(0.0, min(next(waits), end - clock.now())))


async def look_at(tab: Tab, query: PageQuery, seconds: float, clock: Clock) -> Any:
    """One look at the page, once what arrives of it is there. Raises Playwright's errors.

    A click is over as soon as the page to which it leads begins to come, and what is at the end of it would be missing.
    """
    if tab.watch.arriving:
        with contextlib.suppress(PlaywrightTimeoutError):
            await tab.page.wait_for_load_state("domcontentloaded", timeout=_ARRIVES_SECONDS * 1000)
    return await read_between_pages(tab.page, query, clock, seconds)


async def page_state(page: Page, selectors: Iterable[tuple[str, str | None]]) -> dict[str, Any]:
    """The answers of every page function now: `url`, `title`, and in `elements` the matches of each selector.

    A selector is named with its frame. One that Playwright refuses is left out. Raises Playwright's errors, and
    ValueError for a page that is too large.
    """
    elements = []
    for selector, frame in selectors:
        with contextlib.suppress(PlaywrightError):
            scope = await _scope(page, frame)
            found = _NO_ELEMENT if scope is None else await _STATE.of_all(scope.locator(in_playwright(page, selector)))
            elements.append({"selector": selector, "frame": frame, **found})
    state = {"version": 3, "url": page.url, "title": well_formed(await page.title()), "elements": elements}
    if len(json.dumps(state)) > LARGEST:
        raise ValueError(f"what criteria look at has more than {LARGEST} characters")
    return state
