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
_SCROLL_ON = script(
    "scroll_on",
    """
([e], right) => {
  const box = e === document.documentElement ? document.scrollingElement || e : e;
  const before = [box.scrollTop, box.scrollLeft];
  box.scrollBy({top: right ? 0 : box.clientHeight * 0.8, left: right ? box.clientWidth * 0.8 : 0, behavior: 'instant'});
  return box.scrollTop !== before[0] || box.scrollLeft !== before[1];
}
""",
)
_DRAWN_SECONDS = 0.02
"""Seconds in which a list draws the rows that have come into view."""
_LOADS_SECONDS = 0.1
"""Seconds between two looks whether a list that was scrolled has more."""


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
    """Scroll on until an element is in view; at the end of what there is, wait for more as for an element."""
    wanted, moved_at = attempt.locator(to, step.frame).filter(visible=True).first, attempt.clock.now()
    while not await wanted.count():
        pause = _LOADS_SECONDS
        if await attempt.answer(_SCROLL_ON, target, bool(step.right)):
            moved_at, pause = attempt.clock.now(), _DRAWN_SECONDS
        elif attempt.clock.now() - moved_at > min(attempt.patience, attempt.left()):
            message = f"no element matches {to}, up to the end of {step.selector or 'the page'}"
            raise Failed(Failure("ELEMENT_NOT_FOUND", message, to))
        await attempt.clock.sleep(min(pause, attempt.left()))
    await attempt.act(wanted, lambda ms: wanted.scroll_into_view_if_needed(timeout=ms))


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
