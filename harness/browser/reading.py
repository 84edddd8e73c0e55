"""Reads the page as agents see it, and finds out what the refs of their ARIA snapshot mean by now."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page

from harness.browser.acts.files import free_path
from harness.browser.checkpoint import open_pages
from harness.browser.context import Tab
from harness.browser.isolated import script
from harness.browser.locating import in_playwright
from harness.browser.queries import read_between_pages
from harness.criteria import PageQuery
from harness.masking import MARK
from harness.model.ports import Observation
from harness.model.snapshot import IN_FRAME, REF_ENGINE, PageElement, elements
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock, Deadline, poll_until
from harness.spec.names import well_formed
from harness.spec.selectors import readable_selector


async def look(tab: Tab, folder: Path, until: Deadline, clock: Clock, *, screenshot: bool) -> Observation:
    """Read the page for an agent, once no navigation is under way and its scripts have the data that they asked for.

    Each `[ref=e12]` of the ARIA snapshot works as the selector `aria-ref=e12`, those of frames (`f1e2`) too. The caller
    limits the time. Raises Playwright's errors.
    """
    await tab.watch.frame.settled()
    await tab.page.wait_for_load_state("domcontentloaded", timeout=0)
    aria = await _still_snapshot(tab, until, clock)
    title = await read_between_pages(tab.page, PageQuery("title"), clock, until.left(clock.now()))
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


_FILLED_SECONDS = 1.0
"""How long a look waits for a page to be complete; a page may also change all the time, or ask for data for ever."""
_STILL_SECONDS = 0.1
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
        return _without_passwords(seen, await _passwords(tab.page, left)) if "textbox" in seen else seen

    complete = tab.watch.frame.navigation is None and has_all()
    seen, end = await snapshot(), Deadline.after(_FILLED_SECONDS, clock.now())
    while not complete and (left := end.left(clock.now())) > 0:
        await poll_until(clock, has_all, interval=0.02, within=left)
        await clock.sleep(_STILL_SECONDS)
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


def _without_passwords(snapshot: str, passwords: Iterable[str]) -> str:
    """The snapshot, which no longer shows what password fields contain: no model and no recording needs it. Pure."""
    plain = {" ".join(each.split()) for each in passwords} - {""}
    quoted = {'"' + each.replace("\\", "\\\\").replace('"', '\\"') + '"' for each in plain}
    ends = sorted((f": {each}" for each in plain | quoted), key=len, reverse=True)

    def hidden(line: str) -> str:
        end = next(filter(line.endswith, ends), None) if _FIELD_LINE.match(line) else None
        return line if end is None else f"{line.removesuffix(end)}: {MARK}"

    return "\n".join(map(hidden, snapshot.split("\n"))) if plain else snapshot


async def _picture(tab: Tab, folder: Path, seconds: float) -> bytes:
    path = free_path(folder, "observation.png")
    try:
        await tab.picture(path, seconds)
        return await asyncio.to_thread(path.read_bytes)
    finally:
        await asyncio.to_thread(path.unlink, missing_ok=True)


# The refs of a page's ARIA snapshot: whether they still mean the same element, and selectors that last.

_REF_SECONDS = 2.0
"""Seconds for all questions about the refs of one step; a page that takes longer gives no selectors."""
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
        async with asyncio.timeout(_REF_SECONDS):
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
    if named is not None and f"[ref={ref}]" not in await page.aria_snapshot(mode="ai", timeout=1000 * _REF_SECONDS):
        raise _stale(ref, element, "has become another element")


def _stale(ref: str, element: PageElement | None, what: str) -> Failed:
    was = f"{element} when the page was read" if element else "not on the page that was read"
    return Failed(Failure("AGENT_STALE_REF", f"{ref}, which was {was}, {what}", f"{REF_ENGINE}{ref}"))


async def _count(page: Page, selector: str) -> int:
    """The number of matches; 0 if the selector leads into a frame that is gone."""
    try:
        return await page.locator(in_playwright(page, selector)).count()
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
    if named is not None and (alone := await _alone(page, ref, frames, named)):
        return alone
    found = found or await _normalized(page, ref)
    if found is None:
        return None
    frames, _, own = found.rpartition(IN_FRAME)
    return await _alone(page, ref, frames, own)


async def _alone(page: Page, ref: str, frames: str, selector: str) -> str | None:
    """The selector with its frames, if it matches the element with this ref, and no other."""
    whole = f"{frames}{IN_FRAME}{selector}" if frames else selector
    return whole if await _count(page, whole) == 1 and await _count(page, _and(ref, selector)) == 1 else None


async def _normalized(page: Page, ref: str) -> str | None:
    """The selector that Playwright would record for the element; None if it finds none."""
    with contextlib.suppress(PlaywrightError):
        shown = repr(await page.locator(REF_ENGINE + ref).normalize())  # nothing else of a locator tells its selector
        return readable_selector(str(ast.literal_eval(shown.partition("> selector=")[2].removesuffix(">"))))
    return None
