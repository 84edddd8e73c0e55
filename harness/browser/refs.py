"""The refs of a page's ARIA snapshot: whether they still mean the same element, and selectors that last."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import json
from collections.abc import Iterable

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator, Page

from harness.model.snapshot import IN_FRAME, REF_ENGINE, PageElement, elements
from harness.recovery.failure import Failed, Failure

SECONDS = 2.0
"""Seconds for all questions about the refs of one step; a page that takes longer gives no selectors."""
_SHOWN = "> selector="
_NO_ROLES = ("generic", "iframe", "text")
"""Roles of the snapshot that a selector cannot name."""


async def lasting_selectors(page: Page, refs: Iterable[str], seen: str) -> dict[str, str]:
    """Ref -> a selector that matches the same element, and no other. A ref for which none is found is left out.

    `seen` is the snapshot that gave the refs. Raises Failed if a ref means no element any more, or one with another
    role or name: whoever chose it has seen a page that is no longer there.
    """
    known = {each.ref: each for each in elements(seen)}
    found: dict[str, str] = {}
    try:
        async with asyncio.timeout(SECONDS):
            for ref in refs:
                await _check(page, ref, known.get(ref))
                if selector := await _lasting(page, ref, known.get(ref)):
                    found[ref] = selector
    except (TimeoutError, PlaywrightError):
        return found  # the act itself finds out what is wrong with the page
    return found


async def _check(page: Page, ref: str, element: PageElement | None) -> None:
    named = _by_role(element)
    if named is not None and await _count(page, _and(ref, named)) == 1:
        return
    if not await _count(page, REF_ENGINE + ref):
        raise _stale(ref, element, "is no longer on the page")
    # Playwright keeps a ref as long as role and name stay: a new snapshot has it if they do.
    if named is not None and f"[ref={ref}]" not in await page.aria_snapshot(mode="ai", timeout=1000 * SECONDS):
        raise _stale(ref, element, "has become another element")


def _stale(ref: str, element: PageElement | None, what: str) -> Failed:
    was = f"{element} when the page was read" if element else "not on the page that was read"
    return Failed(Failure("AGENT_STALE_REF", f"{ref}, which was {was}, {what}", f"{REF_ENGINE}{ref}"))


async def _count(page: Page, selector: str) -> int:
    """The number of matches; 0 if the selector leads into a frame that is gone."""
    try:
        return await page.locator(selector).count()
    except PlaywrightError as error:
        if "Invalid frame" in error.message:
            return 0
        raise


def _by_role(element: PageElement | None) -> str | None:
    if element is None or not element.name or element.role in _NO_ROLES:
        return None
    return f"role={element.role}[name={json.dumps(element.name, ensure_ascii=False)}]"


def _and(ref: str, selector: str) -> str:
    """A selector for the element with this ref, if it also matches the other selector in its frame."""
    return f"{REF_ENGINE}{ref} >> internal:and={json.dumps(selector, ensure_ascii=False)}"


async def _lasting(page: Page, ref: str, element: PageElement | None) -> str | None:
    """A selector that matches the element with this ref alone: its role and name, else what Playwright finds."""
    found: str | None = None
    if ref.startswith("f"):  # it is in a frame, or on a page that came after another one: Playwright knows which
        found = await _normalized(page, ref)
        if found is None:
            return None
    frames = found.rpartition(IN_FRAME)[0] if found else ""
    named = _by_role(element)
    if named is not None and await _is_alone(page, ref, frames, named):
        return f"{frames}{IN_FRAME}{named}" if frames else named
    found = found or await _normalized(page, ref)
    if found is None:
        return None
    frames, _, own = found.rpartition(IN_FRAME)
    return found if await _is_alone(page, ref, frames, own) else None


async def _is_alone(page: Page, ref: str, frames: str, selector: str) -> bool:
    whole = f"{frames}{IN_FRAME}{selector}" if frames else selector
    return await _count(page, whole) == 1 and await _count(page, _and(ref, selector)) == 1


async def _normalized(page: Page, ref: str) -> str | None:
    """The selector that Playwright would record for the element; None if it finds none."""
    with contextlib.suppress(PlaywrightError):
        return _selector_text(await page.locator(REF_ENGINE + ref).normalize())
    return None


def _selector_text(locator: Locator) -> str:
    """The selector of a locator, which Playwright shows only in its representation."""
    _, _, shown = repr(locator).partition(_SHOWN)
    return str(ast.literal_eval(shown.removesuffix(">")))
