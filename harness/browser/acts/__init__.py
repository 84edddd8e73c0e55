"""The acts: one small coroutine each, from step model to Playwright call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser.acts.accessibility import accessibility
from harness.browser.acts.api import api
from harness.browser.acts.attempt import NOT_ENDED, ActContext
from harness.browser.acts.emulation import change
from harness.browser.acts.fields import clear, focus, select, type_text
from harness.browser.acts.files import download, upload
from harness.browser.acts.history import go
from harness.browser.acts.navigation import dialog, is_at, open_url, screenshot, switch_page
from harness.browser.acts.page_tools import call_tool
from harness.browser.acts.pointer import act_to_the_end, check, click, closed_itself, drag, hover, tap
from harness.browser.failures.liveness import PROBE_SECONDS
from harness.browser.failures.scene import UnseenError, wanted_text
from harness.browser.isolated import script
from harness.browser.queries import shown_text
from harness.criteria import PageQuery, fold
from harness.recovery.failure import Failed, Failure
from harness.resilience import poll_until
from harness.spec import steps
from harness.spec.page_steps import Back, Forward, Reload, Set, Wait
from harness.spec.step_base import StepBase

Details = Mapping[str, Any]
Act = Callable[[ActContext, Any], Awaitable[Details]]
NAVIGATION_START = 0.1
"""Seconds within which the request of a submitted form appears."""
_SUBMIT = """
e => {
  const form = e.form || e.closest('form');
  if (!form) throw new Error('Element is not an element of a form');
  form.requestSubmit();
}
"""
_IS_BUTTON = script(
    "is_button",
    "([e]) => e.matches('button:not([type=button]):not([type=reset]), input[type=submit], input[type=image]')",
)
_FOCUS = script("focus", "() => window.focus()")
_SCROLL_PAGE = script(
    "scroll_page",
    "([root], [y, x]) => window.scrollBy({top: y ?? (x === null ? root.scrollHeight : 0), left: x ?? 0, "
    "behavior: 'instant'})",
)
_SCROLL_ELEMENT = script(
    "scroll_element", "([e], [y, x]) => e.scrollBy({top: y ?? 0, left: x ?? 0, behavior: 'instant'})"
)
_FIND_LIST = script(
    "find_list",
    """
([e], [way, anew]) => {
  const across = way !== 'down', length = across ? 'clientWidth' : 'clientHeight';
  const content = across ? 'scrollWidth' : 'scrollHeight', side = across ? 'scrollLeft' : 'scrollTop';
  const root = document.scrollingElement || document.documentElement;
  const overflow = e => getComputedStyle(e)[across ? 'overflowX' : 'overflowY'];
  const scrolls = e => e[content] > e[length] && (e === root || ['auto', 'scroll'].includes(overflow(e)));
  const area = e => e.clientWidth * e.clientHeight, named = e === document.documentElement ? root : e;
  const inside = () => [...named.querySelectorAll('*')].filter(scrolls).sort((a, b) => area(b) - area(a))[0];
  const box = scrolls(named) ? named : inside() || named;
  const scroll = to => {
    const before = box[side];
    box.scrollTo({[across ? 'left' : 'top']: to, behavior: 'instant'});
    return box[side] !== before;
  };
  if (anew) scroll(way === 'left' ? box[content] : 0);
  const drawn = anew ? performance.now() + 250 : 0, step = way === 'left' ? -1 : 1;
  globalThis.list = {box, drawn, on: () => scroll(box[side] + step * box[length])};
}
""",
)
"""Find what is scrolled: an element, or the largest list in it. Perhaps scroll it back to its start."""
_LOOK_ON = script(
    "look_on",
    """
elements => {
  const list = globalThis.list;
  if (elements.length) return 'found';
  if (!list?.box.isConnected) return 'gone';
  if (performance.now() < list.drawn) return 'drawing';
  if (!list.on()) return 'end';
  list.drawn = performance.now() + 250;  // in case the browser draws no frame
  requestAnimationFrame(() => setTimeout(() => { list.drawn = 0; }));
  return 'moved';
}
""",
)
"""Whether an element is there; if not, and what the list shows has been drawn, scroll on by that much."""
_PAUSES = {"moved": 0.01, "drawing": 0.003, "end": 0.1, "gone": 0.1}
_LATE_SECONDS = 0.4
"""Seconds that a list may take to fetch the rows that have come into view, when it is looked through again."""


async def press(attempt: ActContext, step: steps.Press) -> Details:
    """Press a key on an element, which gets the focus; else on the focused element, in a frame if one is named.

    A chord that copies or pastes uses the clipboard of the task.
    """
    tab = attempt.tab
    async with attempt.request.clipboard.used_by(step.value, tab.control, tab.pasting):
        if step.selector is not None:
            target = attempt.locator(step.selector, step.frame)
            await act_to_the_end(attempt, target, lambda ms: target.press(step.value, timeout=ms))
            return {}
        if step.frame is not None:
            root = attempt.locator(":root", step.frame)
            await attempt.act(root, lambda ms: _FOCUS.of_one(root, None, ms / 1000))
        try:
            await attempt.page.keyboard.press(step.value)
        except PlaywrightError:
            if not closed_itself(attempt):
                raise
        if step.value == "Enter":  # it may submit a form, whose answer is judged with this step
            await _committed(attempt)
        return {}


async def submit(attempt: ActContext, step: steps.Submit) -> Details:
    """Click a submit button; for any other element submit its form, after the browser's own validation."""
    target = attempt.locator(step.selector, step.frame)
    if await attempt.answer(_IS_BUTTON, target):
        await act_to_the_end(attempt, target, lambda ms: target.click(timeout=ms))
        return {}
    await attempt.act(target, lambda ms: target.evaluate(_SUBMIT, timeout=ms))
    await _committed(attempt)
    return {}


async def _committed(attempt: ActContext) -> None:
    """Wait for the navigation that a submitted form starts, if it starts one."""
    await poll_until(attempt.clock, lambda: attempt.tab.watch.frame.navigation is not None, 0.01, NAVIGATION_START)
    try:
        async with asyncio.timeout(attempt.left()):
            await attempt.tab.watch.frame.settled()
    except TimeoutError as error:
        raise PlaywrightTimeoutError(NOT_ENDED) from error


async def scroll(attempt: ActContext, step: steps.Scroll) -> Details:
    """Scroll the page (or a frame) by pixels or to its end; or an element into view, or its content by pixels."""
    target, by = attempt.locator(step.selector or ":root", step.frame).first, [step.value, step.right]
    if step.to is not None:
        await _scroll_to(attempt, step, step.to, target)
        return {}
    if step.selector is None:
        await attempt.act(target, lambda ms: _SCROLL_PAGE.of_one(target, by, ms / 1000))
        return {}
    await attempt.act(target, lambda ms: target.scroll_into_view_if_needed(timeout=ms))
    if by != [None, None]:
        await attempt.act(target, lambda ms: _SCROLL_ELEMENT.of_one(target, by, ms / 1000))
    return {}


async def _scroll_to(attempt: ActContext, step: steps.Scroll, to: str, target: Locator) -> None:
    """Scroll on until an element is in view; at the end of what there is, wait for more as for an element.

    A list is looked through as fast as it draws. What it fetches may come too late for that, or have been before the
    place where it was: so it is looked through once more, from its start and slowly, as long as there is time.
    """
    wanted = attempt.locator(to, step.frame).filter(visible=True)
    way = "down" if not step.right else "right" if step.right > 0 else "left"
    for anew in (False, True):
        await attempt.answer(_FIND_LIST, target, [way, anew])
        if await _comes_into_view(attempt, target, wanted, way, slowly=anew):
            await attempt.act(wanted.first, lambda ms: wanted.first.scroll_into_view_if_needed(timeout=ms))
            return
    message = f"no element matches {to}, up to the end of {step.selector or 'the page'}"
    raise Failed(Failure("ELEMENT_NOT_FOUND", message, to))


async def _comes_into_view(attempt: ActContext, target: Locator, wanted: Locator, way: str, *, slowly: bool) -> bool:
    """Scroll until an element is there; False at the end, or `slowly` when the time is nearly over."""
    clock = attempt.clock
    moved_at = clock.now()
    while (told := await _LOOK_ON.of_all(wanted, None, attempt.left())) != "found":
        if told == "moved":
            moved_at = clock.now()
        ended = told == "end" and (slowly or clock.now() - moved_at > min(attempt.patience, attempt.left()))
        if ended or (slowly and attempt.left() <= PROBE_SECONDS + _LATE_SECONDS):
            return False
        await clock.sleep(min(_LATE_SECONDS if slowly else _PAUSES[told], attempt.left()))
        if told == "gone":
            await attempt.answer(_FIND_LIST, target, [way, False])
    return True


async def wait(attempt: ActContext, step: Wait) -> Details:
    """Wait for some seconds, until a match is visible, or until the first one that is displayed has the text."""
    if step.url is not None or step.state is not None:
        await _wait_for_page(attempt, step)
        return {}
    if step.selector is None:
        seconds = float(step.value or 0)
        late = seconds > attempt.left()
        await attempt.clock.sleep(min(seconds, attempt.left()))
        if late:
            raise PlaywrightTimeoutError("the step's time is over")
        return {}
    wanted = wanted_text(step)
    if wanted is None:
        target = attempt.locator(step.selector, step.frame).filter(visible=True).first
        await target.wait_for(state="attached", timeout=attempt.ms())
        return {}
    folded, query = fold(wanted), PageQuery("text", step.selector, None, step.frame)
    shown = await shown_text(attempt.tab, query, lambda text: folded in fold(text), attempt.deadline, attempt.clock)
    if shown is None:
        raise UnseenError(f"{step.selector} did not show the text")
    return {}


async def _wait_for_page(attempt: ActContext, step: Wait) -> None:
    """Wait until the page has a URL, or has loaded so far."""
    if step.state is not None:
        await attempt.page.wait_for_load_state(step.state, timeout=attempt.ms())
        return
    url = str(step.url)
    if not await poll_until(attempt.clock, lambda: is_at(attempt, attempt.page, url), 0.02, attempt.left()):
        message = f"Step timeout: wait for the URL {url}; the page is at {attempt.page.url}"
        raise Failed(Failure("STEP_TIMEOUT", message, details={"url": attempt.page.url, "wanted": url}))


ACTIONS: dict[type[StepBase], Act] = {
    steps.Accessibility: accessibility,
    steps.Open: open_url,
    steps.Click: click,
    steps.Tap: tap,
    steps.Clear: clear,
    steps.Focus: focus,
    steps.Blur: focus,
    steps.Type: type_text,
    steps.Select: select,
    steps.Submit: submit,
    steps.Press: press,
    steps.Hover: hover,
    steps.Check: check,
    steps.Uncheck: check,
    steps.Drag: drag,
    steps.Scroll: scroll,
    Wait: wait,
    Back: go,
    Forward: go,
    Reload: go,
    Set: change,
    steps.Upload: upload,
    steps.Download: download,
    steps.Api: api,
    steps.SwitchPage: switch_page,
    steps.Dialog: dialog,
    steps.Screenshot: screenshot,
    steps.Tool: call_tool,
}
