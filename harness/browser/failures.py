"""Exception -> Failure: the only reader of Playwright's messages. The order of the rules matters."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any
from urllib.parse import SplitResult, urlsplit

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser.call_log import CallLog
from harness.browser.cut_short import cut_short
from harness.browser.element_failure import element_failure
from harness.browser.facts import Facts, ask
from harness.browser.late_wait import late_wait
from harness.browser.liveness import (
    aborted,
    blocked,
    dead,
    hung,
    lost,
    no_answer,
    performed,
    unanswered,
    who_answers,
)
from harness.browser.login import session_lost
from harness.browser.navigation_failure import (
    late_opening,
    lost_page,
    navigation_failure,
    opening_failure,
    refused_page,
    strayed_page,
    undelivered,
)
from harness.browser.network import net_error
from harness.browser.scene import Scene
from harness.browser.tab import Opened
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure

_INVALID = re.compile(
    r"Cannot navigate to invalid URL|while parsing|not a valid (selector|XPath)|Unknown key|Unknown engine"
    r"|Element is not an? |Not a checkbox|iframe> was expected|Cannot type text into|Malformed value|Invalid selector"
    r"|Cannot uncheck radio|Non-multiple file input|Node is not an|cannot be filled"
    r"|Failed to execute '(querySelector|evaluate)"
)
_WAIT = "Step timeout: wait for "
_DOWNLOAD = "Download is starting"
_LEFT = "Execution context was destroyed"
_GONE = re.compile(rf"not attached to the DOM|Frame was detached|{_LEFT}|page is navigating")


async def failure_of(error: Exception, scene: Scene) -> Failure:
    """The Failure of whatever an act raised. Ends OVERTIME after the attempt's limit at the latest, or nearly so."""
    if isinstance(error, Failed):
        raised = undelivered(error.failure, scene)
        return replace(raised, selector=raised.selector or scene.selector)
    text = str(error)
    failure = await lost(text, scene) or await aborted(text, scene)
    if failure is None and isinstance(error, TimeoutError):
        failure = await _explained(await unanswered(scene), scene)
        if login := await session_lost(failure, scene):
            failure = replace(login, effect=failure.effect, tainted=True)
    if failure is None:
        failure = await _live(error, text, scene)
        failure = strayed_page(scene, failure.effect) or refused_page(failure, scene) or failure
        failure = await session_lost(failure, scene) or failure
    return replace(failure, selector=failure.selector or scene.selector, cause=error)


async def _explained(failure: Failure, scene: Scene) -> Failure:
    """An act that had to be ended from outside, though the page answers: an element that is missing says why."""
    facts = await _ask(scene) if failure.code == "STEP_TIMEOUT" else None
    if facts is None or facts.count:
        return failure
    why = late_wait(scene, facts) if scene.waits else element_failure(scene, facts, CallLog(()))
    return replace(why, tainted=True)


async def _live(error: Exception, text: str, scene: Scene) -> Failure:
    name = net_error(text)
    ended = cut_short(name, text, scene)
    if ended is not None:
        return ended
    if name is not None:
        return opening_failure(name, text, scene)
    if "strict mode violation" in text:
        return await _ambiguous(scene, text)
    code = _named(text)
    if code is None and isinstance(error, PlaywrightTimeoutError):
        return await _too_late(text, scene)
    if code is None:
        code = "ACTION_FAILED" if isinstance(error, PlaywrightError) else "UNKNOWN"
    return Failure(code, _first_line(text), details=_words(text), effect=_effect(code, text, scene))


def _effect(code: str, text: str, scene: Scene) -> Effect:
    """What cannot be done was not done; a script whose page went away may have made it go."""
    if code == "INVALID_INPUT":
        return Effect.NONE
    return Effect.POSSIBLE if scene.acts and _LEFT in text else CallLog.of(text).effect


def _named(text: str) -> str | None:
    """The code of a message that names its cause."""
    if _DOWNLOAD in text or _INVALID.search(text):
        return "INVALID_INPUT"
    return "ELEMENT_UNSTABLE" if _GONE.search(text) else None


async def _ambiguous(scene: Scene, text: str) -> Failure:
    facts = await _ask(scene)
    count = facts.count if facts else int((re.search(r"resolved to (\d+)", text) or [0, 2])[1])
    details: dict[str, Any] = {"url": scene.page.url, "count": count, "matches": list(facts.matches if facts else ())}
    what = scene.selector if facts else f"{scene.selector} or its frame {scene.frame}"
    what = f"the frame {facts.ambiguous_frame}" if facts and facts.ambiguous_frame else what
    return Failure("SELECTOR_AMBIGUOUS", f"{what} matches {count} elements", details=details)


async def _ask(scene: Scene) -> Facts | None:
    """Facts of the step's selector; None when the page does not answer in time."""
    if scene.selector is None and scene.frame is None:
        return None
    try:
        look = scene.look
        async with asyncio.timeout(look):
            return await ask(scene.page, scene.selector or ":root", scene.frame, look)
    except (TimeoutError, PlaywrightError):
        return None


async def _too_late(text: str, scene: Scene) -> Failure:
    """Playwright's own timeout: look at dialog, network, page and element, in this order."""
    if scene.watch.blocked:
        return blocked(scene, CallLog.of(text).effect)
    if scene.opens:
        return await late_opening(scene)
    log = CallLog.of(text)
    pending = scene.watch.unanswered
    if pending and log.effect is not Effect.NONE and await scene.chromium.answers(scene.look / 2):
        return no_answer(scene, pending, log.effect)
    facts, (page, browser) = await asyncio.gather(_ask(scene), who_answers(scene))
    failure = dead(text, scene)
    if failure is not None:
        return failure
    if not page:
        return hung(scene, browser, performed(scene, log))
    if log.effect is Effect.NONE and not log.found and not (facts and facts.count):
        failure = lost_page(scene)
    return failure or (late_wait(scene, facts) if scene.waits else _unready(scene, facts, log))


def _unready(scene: Scene, facts: Facts | None, log: CallLog) -> Failure:
    """What held an act up: its own consequences once it was performed, before that its element."""
    failure = navigation_failure(scene) if log.effect is not Effect.NONE and not log.dragging else None
    return failure or element_failure(scene, facts, log)


def with_popups(failure: Failure, popups: Collection[str]) -> Failure:
    """The failure with the new pages that were opened; what is missing here may be there."""
    if not popups:
        return failure
    *_, last = popups
    message = f"{failure.message} (a new page was opened: {last})" if _is_missing(failure) else failure.message
    return replace(failure, message=message, details={**failure.details, "popups": list(popups)})


def with_redirect(failure: Failure, opened: Opened | None, url: str) -> Failure:
    """The failure of a missing element, with what was asked for, when the site has led to another page than that.

    A visitor who is not logged in gets the login page so. After an act that may have led elsewhere, only the very page
    that the `open` came to counts.
    """
    if opened is None or not _is_missing(failure) or (opened.acted and url != opened.came):
        return failure
    asked, came = urlsplit(opened.asked), urlsplit(url)
    if came.scheme not in ("http", "https") or _place(asked) == _place(came):
        return failure
    same_site = asked.netloc == came.netloc
    page, wanted = ((each.path or "/") if same_site else "".join(_place(each)) for each in (came, asked))
    message = (
        f"{failure.message} (the page is {page}: the site led there from {wanted}, which the last `open` asked for)"
    )
    return replace(failure, message=message, details={**failure.details, "opened": opened.asked})


def _is_missing(failure: Failure) -> bool:
    return failure.code == "ELEMENT_NOT_FOUND" or (failure.code == "STEP_TIMEOUT" and failure.message.startswith(_WAIT))


def _place(url: SplitResult) -> tuple[str, str]:
    """Host and path. `/grid/` for `/grid`, and https for http, is no other page."""
    return url.netloc, url.path.rstrip("/")


def _words(text: str) -> dict[str, Any]:
    log = CallLog.of(text).tail
    return {"call_log": log} if log else {}


def _first_line(text: str) -> str:
    """The message without API name, call log and the browser's own log."""
    if _DOWNLOAD in text:
        return "this URL is a download, not a page: use `download` on the link to it"
    line = (text.splitlines() or [""])[0]
    return re.sub(r"^\w+\.\w+: (Error: )?", "", line).strip()
