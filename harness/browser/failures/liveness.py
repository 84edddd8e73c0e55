"""Who still answers: driver, browser, page, server. Looked at before anything else is blamed."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Any

from harness.browser.failures.scene import CallLog, FailureContext, answers, seconds
from harness.browser.page_events import RequestRecord
from harness.recovery.catalog import Effect
from harness.recovery.failure import Circumstances, Failure

PROBE_SECONDS = 0.25
ENDING_SECONDS = 0.4
"""A browser that ends in good order closes its pages first; so much later it is gone itself."""
DYING_SECONDS = 0.1
"""A driver that was killed may be there for a moment longer than its browsers."""
PROMPT = 0.75
"""A browser that answers after this share of the look is kept from it by a busy machine: so may its pages be."""
SECOND_LOOK = 1.0
"""Seconds for which page and browser are asked again on a machine that is too busy to tell."""
_CRASHED = re.compile(r"\b(Target|Page) crashed\b")
_CLOSED = re.compile(
    r"Target page, context or browser has been closed|Playwright connection closed|Connection closed while reading"
)


def dead(text: str, scene: FailureContext) -> Failure | None:
    """Liveness before blame: crash, closed page, browser or driver gone; None when all live."""
    code, message = _dead_part(scene, text) or (None, "")
    if code is None:
        return None
    effect, blame = _effect(scene, CallLog.of(text)), _blame(scene, code)
    return Failure(code, message, details={"url": scene.page.url}, effect=effect, tainted=True, circumstances=blame)


def _effect(scene: FailureContext, log: CallLog) -> Effect:
    """The effect of an act whose end nobody saw: none when its call log says that it was not begun."""
    if not scene.acts or log.untouched:
        return Effect.NONE
    return Effect.DONE if log.effect is Effect.DONE else Effect.POSSIBLE


def performed(scene: FailureContext, log: CallLog) -> Effect:
    """The effect of an act on a page that hangs: a script may submit a form, of which the log says nothing."""
    return Effect.POSSIBLE if scene.submits and log.found and not log.untouched else log.effect


async def lost(text: str, scene: FailureContext) -> Failure | None:
    """`dead`, and whether a page that was closed, or a browser that is gone, is all that is gone."""
    began, look = scene.clock.now(), scene.look
    while True:
        failure = dead(text, scene)
        if scene.clock.now() - began >= min(_patience(failure, scene), look):
            return failure
        await scene.clock.sleep(0.02)


def _patience(failure: Failure | None, scene: FailureContext) -> float:
    """For how many seconds more may turn out to be gone."""
    match failure and failure.code:
        case "PAGE_CLOSED" if not scene.page.context.pages:
            return ENDING_SECONDS
        case "BROWSER_CRASHED":
            return DYING_SECONDS
        case _:
            return 0.0


async def aborted(text: str, scene: FailureContext) -> Failure | None:
    """What ended a navigation that was broken off: the news of a crash or a closed page come a little later."""
    if "ERR_ABORTED" not in text:
        return None
    await answers(scene.control, scene.look)
    return await lost(text, scene)


def _blame(scene: FailureContext, code: str) -> Circumstances:
    """Whether a browser was ended for another task's sake, or with other tasks in it."""
    if code.startswith("PAGE_"):
        return Circumstances()
    by = scene.chromium.ended_by
    if by is not None and by != scene.world:
        return Circumstances(innocent=True)
    return Circumstances(shared=by is None and bool(scene.chromium.lost_many or scene.chromium.sessions > 1))


def _dead_part(scene: FailureContext, text: str) -> tuple[str, str] | None:
    """Code and message; from the outermost process inwards."""
    if not scene.driver_alive():
        return "DRIVER_GONE", "Playwright's driver process is gone or stopped"
    if not scene.chromium.alive:
        return "BROWSER_CRASHED", "the browser is gone"
    if scene.watch.crashed or _CRASHED.search(text):
        return "PAGE_CRASHED", "the page's process crashed"
    if scene.page.is_closed() or _CLOSED.search(text):
        return "PAGE_CLOSED", "the page was closed"
    return None


async def unanswered(scene: FailureContext) -> Failure:
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


def blocked(scene: FailureContext, effect: Effect) -> Failure:
    """Dialogs hold the page up."""
    message = f"an open dialog blocks the page: {scene.what}"
    details = {"url": scene.page.url}
    return Failure("DIALOG_BLOCKED", message, details=details, effect=effect, tainted=True)


def hung(scene: FailureContext, browser_answers: bool, effect: Effect | None = None) -> Failure:
    """The page does not answer, or not even the browser does."""
    code = "PAGE_UNRESPONSIVE" if browser_answers else "BROWSER_UNRESPONSIVE"
    who = "the page" if browser_answers else "the browser"
    if effect is None:
        effect = Effect.POSSIBLE if scene.acts else Effect.NONE
    message = f"{who} stopped answering: {scene.what} exceeded {seconds(scene.within)}"
    details: dict[str, Any] = {"url": scene.page.url}
    if browser_answers and scene.watch.pace.floods:
        counts = scene.watch.pace.counts
        listed = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        message = f"the page floods the browser ({listed} in a second): {scene.what} exceeded {seconds(scene.within)}"
        details["flood"] = counts
    blame = _blame(scene, code)
    return Failure(code, message, details=details, effect=effect, tainted=True, circumstances=blame)


def timed_out(scene: FailureContext) -> Failure:
    """`Step timeout: ...`."""
    return Failure(
        "STEP_TIMEOUT", f"Step timeout: {scene.what} exceeded {seconds(scene.within)}", details={"url": scene.page.url}
    )


async def who_answers(scene: FailureContext) -> tuple[bool, bool]:
    """Whether the page answers, and whether the browser does, for as long as can be afforded.

    A page that waits for a server counts as alive. Where the browser itself answers late, or not at all, a busy machine
    may be what keeps both from it, and a moment says nothing: they are asked once more, for SECOND_LOOK seconds. A page
    whose browser answers late again is excused, unless it floods the browser itself.
    """
    if scene.watch.unanswered is not None:  # to wait for the page would take the whole look, and tell nothing
        browser = await scene.chromium.answers(scene.look)
        return browser, browser
    page, browser, late = await _asked(scene, scene.look)
    if late and not page and not scene.chromium.process.stopped:
        page, browser, late = await _asked(scene, max(scene.look, SECOND_LOOK))
    return page or (browser and late), browser


async def _asked(scene: FailureContext, look: float) -> tuple[bool, bool, bool]:
    """Whether page and browser answer within `look` seconds; whether the browser is late by no fault of the page."""
    began = scene.clock.now()

    async def browser_answers() -> tuple[bool, float]:
        return await scene.chromium.answers(look), scene.clock.now() - began

    page, (browser, after) = await asyncio.gather(answers(scene.control, look), browser_answers())
    return page, browser or page, after > PROMPT * look and not scene.watch.pace.floods


def no_answer(scene: FailureContext, navigation: RequestRecord, effect: Effect) -> Failure:
    """The server says nothing."""
    message = f"no answer from {navigation.url} in {seconds(scene.within)}"
    details = {"url": navigation.url, "method": navigation.method}
    return Failure("NET_TIMEOUT", message, details=details, effect=effect)
