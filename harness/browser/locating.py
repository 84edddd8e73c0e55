"""Finds elements by the selectors of a task, which say more than Playwright's own (harness.spec.selectors)."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from playwright.async_api import BrowserContext, Frame, FrameLocator, Locator, Page

from harness.spec.selectors import TEST_ID, playwright_selector

_INSIDE = ">>>"
_test_ids: WeakKeyDictionary[BrowserContext, str] = WeakKeyDictionary()
"""The attribute that `testid=` looks at, of each context whose task names one."""


def look_for_test_id(context: BrowserContext, attribute: str | None) -> None:
    """Make `testid=` look at this attribute on the pages of a context; None: at `data-testid`."""
    if attribute is not None:
        _test_ids[context] = attribute


def locate(page: Page, selector: str, frame: str | None) -> Locator:
    """The locator of a selector, in a frame if one is named."""
    scope: Page | FrameLocator = page
    for part in frames_of(frame):
        scope = scope.frame_locator(in_playwright(page, part))
    return scope.locator(in_playwright(page, selector))


def in_playwright(page: Page | Frame, selector: str) -> str:
    """The selector as Playwright takes it on this page."""
    context = (page.page if isinstance(page, Frame) else page).context
    return playwright_selector(selector, _test_ids.get(context, TEST_ID))


def frames_of(frame: str | None) -> list[str]:
    """The selectors from the outermost iframe inwards; `#outer >>> #inner` is one inside the other."""
    return [] if frame is None else [part.strip() for part in frame.split(_INSIDE)]
