"""The acts: one small coroutine each, from step model to Playwright call."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser.api import api
from harness.browser.attempt import Attempt
from harness.browser.liveness import PROBE_SECONDS
from harness.browser.navigation import open_url
from harness.browser.scene import wanted_text
from harness.browser.transfer import download, upload
from harness.failure import Failed, Failure
from harness.spec.steps import (
    Api,
    Check,
    Click,
    Download,
    Open,
    Press,
    Scroll,
    Select,
    StepBase,
    Submit,
    Type,
    Upload,
    Wait,
)

Details = Mapping[str, Any]
Act = Callable[[Attempt, Any], Awaitable[Details]]
NAVIGATION_START = 0.1
"""Seconds in which a submitted form's request shows."""
_SUBMIT = """
e => {
  const form = e.form || e.closest('form');
  if (!form) throw new Error('Element is not an element of a form');
  form.requestSubmit();
}
"""
_EMPTIED = """
() => {
  const field = document.activeElement;
  return ['date', 'time', 'datetime-local', 'month', 'week'].includes(field?.type) && field.value === '';
}
"""
_IS_BUTTON = "e => e.matches('button:not([type=button]):not([type=reset]), input[type=submit], input[type=image]')"


async def click(attempt: Attempt, step: Click) -> Details:
    target = attempt.locator(step.selector, step.frame)
    await attempt.act(lambda ms: target.click(timeout=ms, force=step.force))
    return {}


async def type_text(attempt: Attempt, step: Type) -> Details:
    target = attempt.locator(step.selector, step.frame)
    await attempt.act(lambda ms: target.fill(str(step.value), timeout=ms, force=step.force))
    if str(step.value).strip() and await _emptied(attempt):
        raise Failed(Failure("INVALID_INPUT", f"{step.selector} does not take {str(step.value)!r}"))
    return {}


async def _emptied(attempt: Attempt) -> bool:
    """Date fields and the like drop what they cannot read, and say nothing."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return bool(await attempt.page.evaluate(_EMPTIED))
    except (PlaywrightError, TimeoutError):  # typing made the page go on: the field is no more
        return False


async def select(attempt: Attempt, step: Select) -> Details:
    wanted = step.value if isinstance(step.value, list) else [str(step.value)]
    target = attempt.locator(step.selector, step.frame)
    await attempt.act(lambda ms: target.select_option(wanted, timeout=ms, force=step.force))
    return {}


async def press(attempt: Attempt, step: Press) -> Details:
    if step.selector is None:
        await attempt.page.keyboard.press(step.value)
        return {}
    target = attempt.locator(step.selector, step.frame)
    await attempt.act(lambda ms: target.press(step.value, timeout=ms))
    return {}


async def check(attempt: Attempt, step: Check) -> Details:
    target = attempt.locator(step.selector, step.frame)
    await attempt.act(lambda ms: target.check(timeout=ms, force=step.force))
    return {}


async def submit(attempt: Attempt, step: Submit) -> Details:
    """A submit button is clicked; of anything else the form is submitted, after the browser's own validation."""
    target = attempt.locator(step.selector, step.frame)
    if await _is_button(attempt, target):
        await attempt.act(lambda ms: target.click(timeout=ms))
        return {}
    await attempt.act(lambda ms: target.evaluate(_SUBMIT, timeout=ms))
    await _committed(attempt)
    return {}


async def _is_button(attempt: Attempt, target: Locator) -> bool:
    answer: list[bool] = []

    async def ask(ms: float) -> None:
        answer.append(await target.evaluate(_IS_BUTTON, timeout=ms))

    await attempt.act(ask)
    return answer[0]


async def _committed(attempt: Attempt) -> None:
    """Wait for the navigation that a submitted form starts, when it starts one."""
    until = attempt.clock.now() + NAVIGATION_START
    while attempt.tab.watch.navigation is None and attempt.clock.now() < until:
        await attempt.clock.sleep(0.01)
    await attempt.tab.watch.settled()


async def scroll(attempt: Attempt, step: Scroll) -> Details:
    if step.selector is not None:
        target = attempt.locator(step.selector, step.frame).first
        await attempt.act(lambda ms: target.scroll_into_view_if_needed(timeout=ms))
        return {}
    distance = "document.documentElement.scrollHeight" if step.value is None else step.value
    await attempt.page.evaluate(f"window.scrollBy(0, {distance})")
    return {}


async def wait(attempt: Attempt, step: Wait) -> Details:
    """Seconds, or any match that is visible and has the text."""
    if step.selector is None:
        seconds = float(step.value or 0)
        late = seconds > attempt.left()
        await attempt.clock.sleep(min(seconds, attempt.left()))
        if late:
            raise PlaywrightTimeoutError("the step's time is over")
        return {}
    wanted = wanted_text(step)
    text = None if wanted is None else re.compile(re.escape(wanted))
    target = attempt.locator(step.selector, step.frame).filter(visible=True, has_text=text).first
    await target.wait_for(state="attached", timeout=attempt.ms())
    return {}


ACTIONS: dict[type[StepBase], Act] = {
    Open: open_url,
    Click: click,
    Type: type_text,
    Select: select,
    Submit: submit,
    Press: press,
    Check: check,
    Scroll: scroll,
    Wait: wait,
    Upload: upload,
    Download: download,
    Api: api,
}
