"""Acts of the pointer: `click`, `hover`, `check`, `uncheck`, `drag`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser.acts.attempt import LEAST_SECONDS, ActContext
from harness.browser.failures.liveness import PROBE_SECONDS
from harness.browser.failures.scene import CallLog, seconds
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure
from harness.spec.steps import Check, Click, Drag, Hover, Uncheck

DRAG_MOVES = 10
"""Moves of the pointer on the way: sortable lists and sliders follow it, and do not notice a leap."""


async def click(attempt: ActContext, step: Click) -> Mapping[str, Any]:
    target = attempt.locator(step.selector, step.frame)
    await act_to_the_end(attempt, target, lambda ms: target.click(timeout=ms, force=step.force))
    return {}


async def act_to_the_end(attempt: ActContext, target: Locator, call: Callable[[int], Awaitable[object]]) -> None:
    """`attempt.act`; a popup that closes itself when it is acted on has done what it was to do."""
    try:
        await attempt.act(target, call)
    except PlaywrightError as error:
        if not _closed_by(attempt, CallLog.of(error.message)):
            raise


def _closed_by(attempt: ActContext, log: CallLog) -> bool:
    """Whether the page is gone since the act was performed, and the browser and another page are still there."""
    browser = attempt.tab.context.browser
    left = browser is not None and browser.is_connected() and attempt.tab.context.pages
    return attempt.page.is_closed() and bool(left) and log.effect is not Effect.NONE


async def hover(attempt: ActContext, step: Hover) -> Mapping[str, Any]:
    target = attempt.locator(step.selector, step.frame)
    await attempt.act(target, lambda ms: target.hover(timeout=ms, force=step.force))
    return {}


async def check(attempt: ActContext, step: Check) -> Mapping[str, Any]:
    target = attempt.locator(step.selector, step.frame)
    await attempt.act(target, lambda ms: target.check(timeout=ms, force=step.force))
    return {}


async def uncheck(attempt: ActContext, step: Uncheck) -> Mapping[str, Any]:
    target = attempt.locator(step.selector, step.frame)
    await attempt.act(target, lambda ms: target.uncheck(timeout=ms, force=step.force))
    return {}


async def drag(attempt: ActContext, step: Drag) -> Mapping[str, Any]:
    """Press on one element, move to the other one, let go. Both must be there before anything is pressed.

    A drag is not tried twice, and it leaves time to let go.
    """
    source, place = attempt.locator(step.selector, step.frame), attempt.locator(step.value, step.frame)
    await attempt.act(source, lambda ms: source.hover(timeout=ms, force=step.force, trial=True))
    await _one_place(attempt, step, place)
    ms = 1000 * max(LEAST_SECONDS, attempt.left() - PROBE_SECONDS)
    try:
        await source.drag_to(place, timeout=ms, force=step.force, steps=DRAG_MOVES)
    except PlaywrightError as error:
        await _let_go(attempt)
        if not isinstance(error, PlaywrightTimeoutError) or await _shown(place):
            raise
        message = f"{step.value}, on which {step.selector} is dropped, is not visible"
        raise Failed(
            Failure("ACTION_FAILED", message, details={"place": step.value}, effect=Effect.POSSIBLE)
        ) from error
    return {}


async def _one_place(attempt: ActContext, step: Drag, place: Locator) -> None:
    """Wait for the element to drop on. It is not what `fallback_selectors` stand in for: its failures are others."""
    patience = min(attempt.patience, attempt.left())
    try:
        await place.first.wait_for(state="attached", timeout=max(1.0, 1000 * patience))
    except PlaywrightTimeoutError as error:
        message = (
            f"no element matches {step.value}, on which {step.selector} is dropped (looked for {seconds(patience)})"
        )
        raise Failed(Failure("ACTION_FAILED", message, details={"place": step.value})) from error
    count = await place.count()
    if count > 1:
        message = f"{step.value}, on which {step.selector} is dropped, matches {count} elements"
        raise Failed(Failure("INVALID_INPUT", message, details={"place": step.value, "count": count}))


async def _shown(place: Locator) -> bool:
    """Whether it is visible; also when the page does not tell, for then that is not what is wrong."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return await place.is_visible()
    except (PlaywrightError, TimeoutError):
        return True


async def _let_go(attempt: ActContext) -> None:
    """A drag that broke off has left the button pressed; the next act must not drag on."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await attempt.page.mouse.up()
    except (PlaywrightError, TimeoutError):
        return  # what stops the pointer is told by the failure itself
