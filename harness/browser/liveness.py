"""Who still answers: driver, browser, page, server. Looked at before anything else is blamed."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

from harness.browser.exchange import Exchange
from harness.browser.facts import answers
from harness.browser.scene import Scene, seconds
from harness.failure import Effect, Failure

PROBE_SECONDS = 0.25
_CRASHED = re.compile(r"\b(Target|Page) crashed\b")
_CLOSED = re.compile(
    r"Target page, context or browser has been closed|Playwright connection closed|Connection closed while reading"
)


def dead(text: str, scene: Scene) -> Failure | None:
    """Liveness before blame: crash, closed page, browser or driver gone; None when all live."""
    code, message = _dead_part(scene, text) or (None, "")
    if code is None:
        return None
    effect = Effect.POSSIBLE if scene.acts else Effect.NONE
    return Failure(code, message, details={"url": scene.page.url}, effect=effect, tainted=True)


def _dead_part(scene: Scene, text: str) -> tuple[str, str] | None:
    """Code and message; from the outermost process inwards."""
    if not scene.driver_alive():
        return "DRIVER_GONE", "Playwright's driver process is gone"
    if not scene.chromium.alive:
        return "BROWSER_CRASHED", "the browser is gone"
    if scene.watch.crashed or _CRASHED.search(text):
        return "PAGE_CRASHED", "the page's process crashed"
    if scene.page.is_closed() or _CLOSED.search(text):
        return "PAGE_CLOSED", "the page was closed"
    return None


async def unanswered(scene: Scene) -> Failure:
    """The outer deadline had to end the act: who does not answer? The session is tainted in any case."""
    page, browser = await who_answers(scene)
    failure = dead("", scene)
    if failure is not None:
        return failure
    effect = Effect.POSSIBLE if scene.acts else Effect.NONE
    if browser and scene.watch.blocked:
        return blocked(scene, effect)
    if not page:
        return hung(scene, browser)
    return replace(timed_out(scene), effect=effect, tainted=True)


def blocked(scene: Scene, effect: Effect) -> Failure:
    """Dialogs hold the page up."""
    message = f"an open dialog blocks the page: {scene.what}"
    details = {"url": scene.page.url}
    return Failure("DIALOG_BLOCKED", message, details=details, effect=effect, tainted=True)


def hung(scene: Scene, browser_answers: bool, effect: Effect | None = None) -> Failure:
    """The page does not answer, or not even the browser does."""
    code = "PAGE_UNRESPONSIVE" if browser_answers else "BROWSER_UNRESPONSIVE"
    who = "the page" if browser_answers else "the browser"
    if effect is None:
        effect = Effect.POSSIBLE if scene.acts else Effect.NONE
    message = f"{who} stopped answering: {scene.what} exceeded {seconds(scene.within)}"
    return Failure(code, message, details={"url": scene.page.url}, effect=effect, tainted=True)


def timed_out(scene: Scene) -> Failure:
    """`Step timeout: ...` (specs/003)."""
    return Failure(
        "STEP_TIMEOUT", f"Step timeout: {scene.what} exceeded {seconds(scene.within)}", details={"url": scene.page.url}
    )


async def who_answers(scene: Scene) -> tuple[bool, bool]:
    """Whether the page answers, and whether the browser does. A page that waits for a server counts as alive."""
    page, browser = await asyncio.gather(answers(scene.control, PROBE_SECONDS), scene.chromium.answers(PROBE_SECONDS))
    return page or (browser and scene.watch.unanswered is not None), browser


def no_answer(scene: Scene, navigation: Exchange, effect: Effect) -> Failure:
    """The server says nothing."""
    message = f"no answer from {navigation.url} in {seconds(scene.within)}"
    details = {"url": navigation.url, "method": navigation.method}
    return Failure("NET_TIMEOUT", message, details=details, effect=effect)
