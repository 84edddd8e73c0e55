"""The acts of the pointer: `click`, `tap`, `hover`, `check`, `uncheck`, `drag`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser.acts.attempt import ActContext
from harness.browser.bounded import bounded
from harness.browser.failures.liveness import PROBE_SECONDS
from harness.browser.failures.scene import CallLog
from harness.browser.queries import LEAST_SECONDS
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure
from harness.resilience import poll_until
from harness.spec.names import seconds
from harness.spec.step_keys import Point
from harness.spec.steps import Check, Click, Drag, Hover, Tap, Uncheck

_POLL = 0.05
"""Seconds between two looks at the state of a box."""
_UNCHANGED = "did not change its state"
"""Playwright's words for a box that a click did not change at once: a script may do that later."""
_NO_TOUCH = "does not support tap"
_DRAG_MOVES = 10
"""The number of pointer moves of a drag: sortable lists and sliders follow single moves, and miss a leap."""


async def click(attempt: ActContext, step: Click) -> Mapping[str, Any]:
    target = attempt.locator(step.selector, step.frame)

    def call(ms: int) -> Awaitable[None]:
        return target.click(timeout=ms, button=step.button, click_count=step.count, **_how(step))

    await act_to_the_end(attempt, target, call)
    return {}


async def tap(attempt: ActContext, step: Tap) -> Mapping[str, Any]:
    target = attempt.locator(step.selector, step.frame)
    try:
        await act_to_the_end(attempt, target, lambda ms: target.tap(timeout=ms, **_how(step)))
    except PlaywrightError as error:
        if _NO_TOUCH not in error.message:
            raise
        advice = "Name a `device` with a touch screen in `browser`, such as `iPhone 13`, or write `click`."
        raise Failed(Failure("INVALID_INPUT", "the browser has no touch screen", advice=advice)) from error
    return {}


def _how(step: Click | Tap) -> dict[str, Any]:
    return {"force": step.force, "modifiers": list(step.modifiers), "position": _position(step.position)}


def _position(point: Point | None) -> Any:
    return None if point is None else {"x": point.x, "y": point.y}


async def act_to_the_end(attempt: ActContext, target: Locator, call: Callable[[int], Awaitable[object]]) -> None:
    """`attempt.act`, where a popup that closes itself when it is acted on counts as success."""
    try:
        await attempt.act(target, call)
    except PlaywrightError as error:
        if not closed_itself(attempt) or CallLog.of(error.message).effect is Effect.NONE:
            raise


def closed_itself(attempt: ActContext) -> bool:
    """Return whether the page was closed while the browser and another page still exist."""
    browser = attempt.tab.context.browser
    left = browser is not None and browser.is_connected() and attempt.tab.context.pages
    return attempt.page.is_closed() and bool(left)


async def hover(attempt: ActContext, step: Hover) -> Mapping[str, Any]:
    target = attempt.locator(step.selector, step.frame)
    await attempt.act(target, lambda ms: target.hover(timeout=ms, force=step.force))
    return {}


async def check(attempt: ActContext, step: Check | Uncheck) -> Mapping[str, Any]:
    """Tick or untick a box. If the click does not change it at once, wait for its state, and do not click again."""
    target, wanted = attempt.locator(step.selector, step.frame), isinstance(step, Check)
    try:
        await act_to_the_end(attempt, target, lambda ms: target.set_checked(wanted, timeout=ms, force=step.force))
    except PlaywrightError as error:
        if _UNCHANGED not in error.message:
            raise
        if not await _comes_to_be(attempt, target, wanted):
            state = "unchecked" if wanted else "checked"
            message = f"{step.selector} was clicked, and is still {state}"
            raise Failed(Failure("ACTION_FAILED", message, effect=Effect.DONE)) from error
    return {}


async def _comes_to_be(attempt: ActContext, target: Locator, wanted: bool) -> bool:
    """Wait until the box has the state."""

    async def has_state() -> bool:
        try:
            return await target.is_checked(timeout=attempt.ms()) is wanted
        except PlaywrightError:
            return False

    return await poll_until(attempt.clock, has_state, _POLL, min(attempt.patience, attempt.left() - PROBE_SECONDS))


async def drag(attempt: ActContext, step: Drag) -> Mapping[str, Any]:
    """Press on one element, move to the other one, release. Both must exist before anything is pressed.

    A drag is not tried twice, and it keeps time for the release.
    """
    source, at = attempt.locator(step.selector, step.frame), _position(step.position)
    await attempt.act(source, lambda ms: source.hover(timeout=ms, force=step.force, trial=True, position=at))
    if step.value is None:
        await _drag_by(attempt, step, source)
        return {}
    place = attempt.locator(step.value, step.frame)
    await _one_place(attempt, step, place)
    ms = 1000 * max(LEAST_SECONDS, attempt.left() - PROBE_SECONDS)
    try:
        await source.drag_to(
            place,
            timeout=ms,
            force=step.force,
            steps=_DRAG_MOVES,
            source_position=at,
            target_position=_position(step.drop_position),
        )
    except PlaywrightError as error:
        await bounded(attempt.page.mouse.up(), PROBE_SECONDS, None)  # so that the next act does not go on dragging
        seen = not isinstance(error, PlaywrightTimeoutError) or await bounded(place.is_visible(), PROBE_SECONDS, True)
        if seen:  # also if the page does not answer, since that is another failure
            raise
        message = f"{step.value}, the drop target of {step.selector}, is not visible"
        raise Failed(
            Failure("ACTION_FAILED", message, details={"place": step.value}, effect=Effect.POSSIBLE)
        ) from error
    return {}


async def _drag_by(attempt: ActContext, step: Drag, source: Locator) -> None:
    """Press on the element, move by a distance, release. Once it is pressed nothing is waited for."""
    assert step.by is not None
    await attempt.act(source, lambda ms: source.hover(timeout=ms, force=step.force, position=_position(step.position)))
    box = await source.bounding_box(timeout=attempt.ms())
    if box is None:
        raise PlaywrightError(f"{step.selector} is not visible")
    at = step.position or Point(x=box["width"] / 2, y=box["height"] / 2)
    x, y, mouse = box["x"] + at.x, box["y"] + at.y, attempt.page.mouse
    try:
        await mouse.move(x, y)
        await mouse.down()
        await mouse.move(x + step.by.x, y + step.by.y, steps=_DRAG_MOVES)
    finally:
        await bounded(mouse.up(), PROBE_SECONDS, None)


async def _one_place(attempt: ActContext, step: Drag, place: Locator) -> None:
    """Wait for the element to drop on. `fallback_selectors` do not apply to it, so it has failures of its own."""
    patience = min(attempt.patience, attempt.left())
    try:
        await place.first.wait_for(state="attached", timeout=max(1.0, 1000 * patience))
    except PlaywrightTimeoutError as error:
        message = (
            f"no element matches {step.value}, the drop target of {step.selector} (looked for {seconds(patience)})"
        )
        raise Failed(Failure("ACTION_FAILED", message, details={"place": step.value})) from error
    count = await place.count()
    if count > 1:
        message = f"{step.value}, the drop target of {step.selector}, matches {count} elements"
        raise Failed(Failure("INVALID_INPUT", message, details={"place": step.value, "count": count}))
