"""Finds out which part still answers: driver, browser, page, server. This comes before any other cause."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from harness.browser.driver import SILENT
from harness.browser.exchanges import RequestRecord
from harness.browser.failures.scene import CallLog, FailureContext
from harness.browser.process import answers
from harness.recovery.catalog import Effect
from harness.recovery.failure import Circumstances, Failure
from harness.spec.names import list_some, seconds
from harness.values import replace

PROBE_SECONDS = 0.25
ENDING_SECONDS = 0.4
"""Seconds within which a browser that ends regularly is gone after it has closed its pages."""
DYING_SECONDS = 0.1
"""Seconds within which a killed driver is gone after its browsers."""
PROMPT = 0.75
"""A browser that answers after this share of the probe is slowed down by a busy machine, and so may its pages be."""
SECOND_LOOK = 1.0
"""Seconds for which page and browser are probed again on a machine that is too busy to tell."""
_CRASHED = re.compile(r"\b(Target|Page) crashed\b")
_CLOSED = re.compile(
    r"Target page, context or browser has been closed|Playwright connection closed|Connection closed while reading"
)


def dead(text: str, scene: FailureContext) -> Failure | None:
    """The failure if page, browser or driver crashed or closed; None if all are alive."""
    if (failure := _dead_part(scene, text)) is None:
        return None
    log, blame = CallLog.of(text), _blame(scene, failure.code)
    effect = Effect.DONE if log.effect is Effect.DONE else Effect.POSSIBLE
    if not scene.acts or log.untouched:  # its end was not seen, and the log says that it was not begun
        effect = Effect.NONE
    details = {"url": scene.page.url, **failure.details}
    return replace(failure, details=details, effect=effect, tainted=True, circumstances=blame)


def performed(scene: FailureContext, log: CallLog) -> Effect:
    """The effect of an act on a page that hangs: a script may submit a form without a trace in the log."""
    return Effect.POSSIBLE if scene.submits and log.found and not log.untouched else log.effect


async def lost(text: str, scene: FailureContext) -> Failure | None:
    """`dead`, with a short wait to see whether more than the closed page or the lost browser is gone."""
    began, look = scene.clock.now(), scene.look
    if _CLOSED.search(text):  # the driver's pipe may have ended, though its process runs
        await scene.chromium.driver.examine(look)
    while True:
        failure = dead(text, scene)
        if scene.clock.now() - began >= min(_patience(failure, scene), look):
            return failure
        await scene.clock.sleep(0.02)


def _patience(failure: Failure | None, scene: FailureContext) -> float:
    """Seconds during which more parts may turn out to be gone."""
    match failure and failure.code:
        case "PAGE_CLOSED" if not scene.page.context.pages:
            return ENDING_SECONDS
        case "BROWSER_CRASHED":
            return DYING_SECONDS
        case _:
            return 0.0


async def aborted(text: str, scene: FailureContext) -> Failure | None:
    """The loss that ended a navigation, if any: the news of a crash or a closed page comes a little later."""
    if "ERR_ABORTED" not in text:
        return None
    await answers(scene.control, scene.look)
    return await lost(text, scene)


def _blame(scene: FailureContext, code: str) -> Circumstances:
    """Whether a browser was ended for another task's sake, or while it had other sessions."""
    if code.startswith("PAGE_"):
        return Circumstances()
    by = scene.chromium.ended_by
    if by is not None and by != scene.world:
        return Circumstances(innocent=True)
    return Circumstances(shared=by is None and bool(scene.chromium.lost_many or scene.chromium.sessions > 1))


def _dead_part(scene: FailureContext, text: str) -> Failure | None:
    """The failure of the part that is gone, from the outermost process inwards."""
    if loss := scene.chromium.driver.loss:
        return loss.failure()
    if not scene.chromium.alive:
        return Failure("BROWSER_CRASHED", "the browser is gone")
    if scene.watch.frame.crashed or _CRASHED.search(text):
        return Failure("PAGE_CRASHED", "the page's process crashed")
    if scene.page.is_closed() or _CLOSED.search(text):
        return Failure("PAGE_CLOSED", "the page was closed")
    return None


async def unanswered(scene: FailureContext) -> Failure:
    """The failure of an act that the outer deadline ended: the part that does not answer. The session is tainted."""
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
    """The failure of a page that is blocked by dialogs."""
    message = f"an open dialog blocks the page: {scene.what}"
    return Failure("DIALOG_BLOCKED", message, details={"url": scene.page.url}, effect=effect, tainted=True)


def hung(scene: FailureContext, browser_answers: bool, effect: Effect | None = None) -> Failure:
    """The failure of a page, or a browser, that does not answer."""
    code = "PAGE_UNRESPONSIVE" if browser_answers else "BROWSER_UNRESPONSIVE"
    who = "the page" if browser_answers else "the browser"
    if effect is None:
        effect = Effect.POSSIBLE if scene.acts else Effect.NONE
    details: dict[str, Any] = {"url": scene.page.url}
    what, late = f"{who} stopped answering", None
    if not browser_answers and scene.chromium.driver.silent:
        late = SILENT.failure()
        code, what, details = late.code, late.message, {**details, **late.details}
    elif browser_answers and scene.watch.pace.floods:
        details["flood"] = counts = scene.watch.pace.counts
        listed = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        what = f"the page floods the browser ({listed} in a second)"
    message = f"{what}: {scene.what} exceeded {seconds(scene.within)}"
    found = late or Failure(code, message, tainted=True)
    return replace(found, message=message, details=details, effect=effect, circumstances=_blame(scene, code))


def timed_out(scene: FailureContext) -> Failure:
    """The failure of an attempt whose time is over: `Step timeout: ...`. A screenshot names the fonts it waits for."""
    message, details = f"Step timeout: {scene.what} exceeded {seconds(scene.within)}", {"url": scene.page.url}
    fonts = [each.url for each in scene.watch.loading if each.resource_type == "font"] if scene.pictures else []
    if not fonts:
        return Failure("STEP_TIMEOUT", message, details=details)
    message = f"{message}: it waits for the page's fonts, and {list_some(fonts, 3)} did not end"
    advice = f"Look at the network log for {fonts[0]}, or let a route of the task answer it."
    return Failure("STEP_TIMEOUT", message, details={**details, "pending": fonts}, advice=advice)


async def who_answers(scene: FailureContext) -> tuple[bool, bool]:
    """Probe whether the page answers, and whether the browser does.

    A page that waits for a server counts as alive. If the browser itself answers late or not at all, a busy machine may
    slow both down, and one short probe proves nothing: they are probed once more, for SECOND_LOOK seconds. A page whose
    browser answers late again is excused, unless it floods the browser itself.
    """
    chromium = scene.chromium
    if scene.watch.frame.unanswered is not None:  # waiting for the page would take all the time and give no answer
        browser = await chromium.answers(scene.look)
        if not browser and chromium.alive and not chromium.process.stopped:  # it may only be slow
            browser = await chromium.answers(SECOND_LOOK)
        return browser, browser
    page, browser, late = await _probe(scene, scene.look)
    if late and not page and not chromium.process.stopped:
        page, browser, late = await _probe(scene, max(scene.look, SECOND_LOOK))
    return page or (browser and late), browser


async def _probe(scene: FailureContext, look: float) -> tuple[bool, bool, bool]:
    """Probe for `look` seconds: whether page and browser answer, and whether the browser itself is late."""
    began = scene.clock.now()

    async def browser_answers() -> tuple[bool, float]:
        return await scene.chromium.answers(look), scene.clock.now() - began

    page, (browser, after) = await asyncio.gather(answers(scene.control, look), browser_answers())
    return page, browser or page, after > PROMPT * look and not scene.watch.pace.floods


def no_answer(scene: FailureContext, navigation: RequestRecord, effect: Effect) -> Failure:
    """The failure if the server does not answer."""
    message = f"no answer from {navigation.url} in {seconds(scene.within)}"
    return Failure("NET_TIMEOUT", message, details={"url": navigation.url, "method": navigation.method}, effect=effect)
