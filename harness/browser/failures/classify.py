"""Makes a Failure out of an exception, in one order: `failure_of`. Lost parts come first, the element last."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any
from urllib.parse import SplitResult, urlsplit

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser.bounded import bounded
from harness.browser.exchanges import RequestRecord
from harness.browser.failures.liveness import (
    SECOND_LOOK,
    aborted,
    blocked,
    dead,
    hung,
    lost,
    no_answer,
    performed,
    timed_out,
    unanswered,
    who_answers,
)
from harness.browser.failures.login import names_login, session_lost
from harness.browser.failures.navigation import (
    aborted_navigation,
    late_opening,
    lost_page,
    navigation_failure,
    opening_failure,
    refused_page,
    strayed_page,
    undelivered,
)
from harness.browser.failures.scene import CallLog, Facts, FailureContext, UnseenError, ask, near_miss, shortened
from harness.browser.main_frame import Opened
from harness.browser.network_errors import net_error
from harness.criteria import fold
from harness.recovery.catalog import Effect, Family
from harness.recovery.failure import Failed, Failure
from harness.spec.names import seconds
from harness.spec.step_keys import Point
from harness.values import replace

_CAPITALS = "Capital letters count: write the text as the page has it."
_OTHER_TEXT = "The element exists with another text: correct the text in the selector."
_OUTSIDE = "outside of the viewport"
_INERT = "is inert"
_UNTOUCHABLE = (
    "The page gives it the style `pointer-events: none`, as links and buttons that are switched off have: an earlier "
    "step did not do what the page needs to switch it on."
)
INERT = (
    "Close the dialog that is open, or act in it: until then the page behind it takes no clicks and no keys. Without a "
    "dialog, look for what sets the attribute `inert`."
)
_LOGIN_PAGE = (
    "The site shows its login page because nobody is signed in: name a `login` in the task, or sign in with its steps."
)
_LABEL = "What covers it is its own label, as people click it: click that, or `check` with `force: true`."
_DIALOG = "Close the dialog that is open, or act in it: it takes the clicks of the page behind it."
_ENDLESS = "`force: true` acts on it while it moves; if something covers it, the warning `forced_on_covered` says so."
_CALMED = "The page has a style for visitors who want less motion: `browser: {reduced_motion: reduce}` asks for it."


def element_failure(scene: FailureContext, facts: Facts | None, log: CallLog) -> Failure:
    """The failure of an act that ended with its time. `facts`: None if the page did not give them."""
    details: dict[str, Any] = {"url": scene.page.url, "call_log": log.tail}
    if log.dragging and log.covering:
        return _no_place(scene, log.covering, details)
    looked = scene.selector is not None and log.untouched and not log.found
    if facts is None and looked and scene.watch.frame.unanswered is None:
        facts = Facts(0)  # Playwright has looked for it all the time
    # It was not ready at any check, and the time ended during a further check.
    unready = facts is not None and (facts.disabled or not facts.visible)
    never_ready = log.ends_in_silent_call and log.contains(r"^retrying") and unready
    begun, obstacle = log.effect is not Effect.NONE and not never_ready, _obstacle(facts, log)
    if facts is not None and facts.missing_frame is not None and not begun:
        message = f"no frame matches {facts.missing_frame} (looked for {seconds(scene.patience)})"
        return Failure("FRAME_NOT_FOUND", message, details=details)
    if facts is not None and facts.count == 0 and obstacle != "ELEMENT_UNSTABLE" and not begun:
        return _nowhere(scene, facts, details)
    if obstacle is None or begun:
        return replace(timed_out(scene), details=details, effect=log.effect)
    if obstacle == "ELEMENT_COVERED" and facts is not None and _is_outside(scene.place, facts.box):
        message = "the place {:g}, {:g} is outside of {}, which is {:g} by {:g} pixels"
        said = message.format(scene.place.x, scene.place.y, scene.selector, *facts.box[2:])  # type: ignore[union-attr]
        return Failure("INVALID_INPUT", said, details=details)
    return _not_ready(scene, facts or Facts(1), log, obstacle, details)


def _is_outside(place: Point | None, box: tuple[float, ...]) -> bool:
    return place is not None and bool(box) and not (0 <= place.x <= box[2] and 0 <= place.y <= box[3])


def _obstacle(facts: Facts | None, log: CallLog) -> str | None:
    """The code of what keeps the act from its element: as the call log says, or else as the page shows it."""
    told = log.obstacle[0] if log.obstacle else None
    if facts is None:
        return told
    if facts.count and not facts.visible:
        return "ELEMENT_HIDDEN"
    shown = "ELEMENT_DISABLED" if facts.disabled else "ELEMENT_COVERED" if facts.covered_by else None
    obstacle = told or shown
    if obstacle == "ELEMENT_COVERED" and facts.untouchable:
        return "ELEMENT_DISABLED"
    if obstacle == "ELEMENT_COVERED" and facts.covered_by is None and (facts.endless or log.moving):
        return "ELEMENT_UNSTABLE"  # it had moved away from under the pointer
    return obstacle


def _nowhere(scene: FailureContext, facts: Facts, details: dict[str, Any]) -> Failure:
    details |= {"similar": list(facts.similar)} if facts.similar else {}
    message = f"no element matches {scene.selector} (looked for {seconds(scene.patience)})"
    near = near_miss(facts)
    advice = _in_frame(facts) if facts.in_frame else _OTHER_TEXT if facts.without_text else ""
    return Failure("ELEMENT_NOT_FOUND", f"{message}; {near}" if near else message, details=details, advice=advice)


def _in_frame(facts: Facts) -> str:
    """What to do about an element that is in a frame."""
    quoted = json.dumps(facts.in_frame, ensure_ascii=False)
    return f"An element in an iframe needs `frame`: add `frame: {quoted}` to this step."


def _no_place(scene: FailureContext, covering: str, details: dict[str, Any]) -> Failure:
    """The failure of a drag that was begun and could not be ended, since something covers the place to drop on."""
    message = f"the drop target of {scene.selector} is covered by {covering}"
    return Failure("ELEMENT_COVERED", message, details=details | {"covered_by": covering}, effect=Effect.POSSIBLE)


def _not_ready(scene: FailureContext, facts: Facts, log: CallLog, code: str, details: dict[str, Any]) -> Failure:
    selector, advice = scene.selector, ""
    match code:
        case "ELEMENT_HIDDEN":
            outside = log.obstacle is not None and _OUTSIDE in log.obstacle[1]
            words = "is outside the view" if outside else "is not visible"
        case "ELEMENT_DISABLED" if facts.untouchable and not facts.disabled:
            words, advice = "takes no clicks: its style is `pointer-events: none`", _UNTOUCHABLE
        case "ELEMENT_DISABLED" if facts.inert or (log.obstacle is not None and _INERT in log.obstacle[1]):
            words, advice = f"is inert{_behind(facts, details)}", INERT
        case "ELEMENT_DISABLED":
            words = "is disabled or read-only"
        case "ELEMENT_COVERED":
            details["covered_by"] = facts.covered_by or log.covering
            words = f"is covered by {details['covered_by']}{_behind(facts, details)}"
            advice = _DIALOG if facts.dialog else _LABEL if facts.labelled else ""
        case _ if facts.endless:
            words = f"moves all the time: the animation {facts.endless!r} has no end"
            advice = f"{_CALMED} {_ENDLESS}" if facts.calmed else _ENDLESS
        case _:
            words = "keeps moving or is re-created"
    return Failure(code, f"{selector} {words}", details=details, advice=advice)


def _behind(facts: Facts, details: dict[str, Any]) -> str:
    """The words about the open dialog that keeps the act from its element; empty if there is none."""
    if not facts.dialog:
        return ""
    details["dialog"] = facts.dialog
    return f": the dialog {facts.dialog} is open"


# Exception -> Failure: the only reader of Playwright's messages. The order of the rules matters.

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


async def failure_of(error: Exception, scene: FailureContext) -> Failure:
    """Make the Failure of an act's exception. It ends at most about OVERTIME seconds after the attempt's limit."""
    if isinstance(error, TimeoutError):
        error = _failed_before(error) or error
    if isinstance(error, Failed):
        raised = undelivered(error.failure, scene)
        return replace(raised, selector=raised.selector or scene.selector)
    text = str(error)
    scene = replace(scene, answered=True) if isinstance(error, UnseenError) else scene
    failure = await lost(text, scene) or await aborted(text, scene)
    if failure is None and isinstance(error, TimeoutError):
        facts, cut_off = await asyncio.gather(_facts_until_then(scene), unanswered(scene))
        failure = await _explain_cut_off(cut_off, facts, scene)
        if login := await session_lost(failure, scene):
            failure = replace(login, effect=failure.effect, tainted=True)
    if failure is None:
        failure = await _live(error, text, scene)
        failure = strayed_page(scene, failure.effect) or refused_page(failure, scene) or failure
        failure = await session_lost(failure, scene) or failure
    if failure.code == "STEP_TIMEOUT" and scene.seen.lacked is not None:  # the page only answered too late to ask again
        failure = replace(scene.seen.lacked, tainted=failure.tainted)
    return replace(failure, selector=failure.selector or scene.selector, cause=error)


def _failed_before(error: BaseException) -> Failed | None:
    """The failure that the act had already told when it was cut off while it tidied up."""
    inner: BaseException | None = error
    while inner is not None and not isinstance(inner, Failed):
        inner = inner.__cause__ or inner.__context__
    return inner


async def _facts_until_then(scene: FailureContext) -> Facts | None:
    """What was seen before the limit; else it is asked beside the question who answers: both have the same bound."""
    return scene.seen.facts or await facts_now(scene)


async def _explain_cut_off(failure: Failure, facts: Facts | None, scene: FailureContext) -> Failure:
    """Explain an act that was ended from outside although the page answers, by what was seen until then."""
    if failure.code != "STEP_TIMEOUT":
        return failure
    pending = scene.watch.frame.unanswered
    if pending is not None and scene.acts:
        return replace(no_answer(scene, pending, failure.effect), tainted=True)
    facts = facts or await _second_look(scene)
    if _drowned(scene, facts):
        return hung(scene, browser_answers=True, effect=failure.effect)
    if facts is None or (facts.ready and not scene.waits and scene.seen.log.obstacle is None):
        return failure
    why = _wait_failure(scene, facts) if scene.waits else element_failure(scene, facts, scene.seen.log)
    return replace(why, effect=failure.effect if facts.count else why.effect, tainted=True)


async def _live(error: Exception, text: str, scene: FailureContext) -> Failure:
    name = net_error(text)
    ended = aborted_navigation(name, text, scene)
    if ended is not None:
        return ended
    if name is not None:
        return opening_failure(name, text, scene)
    if "strict mode violation" in text:
        return await _ambiguous(scene, text)
    told = "INVALID_INPUT" if _DOWNLOAD in text or _INVALID.search(text) else None
    code = told or ("ELEMENT_UNSTABLE" if _GONE.search(text) else None)
    if code is None and isinstance(error, PlaywrightTimeoutError):
        return await _too_late(text, scene)
    if code is None:
        code = "ACTION_FAILED" if isinstance(error, PlaywrightError) else "UNKNOWN"
    log = CallLog.of(text)
    effect = Effect.POSSIBLE if scene.acts and _LEFT in text else log.effect  # a script caused it, perhaps
    details = {"call_log": log.tail} if log.tail else {}
    # An impossible act has no effect.
    return Failure(code, _first_line(text), details=details, effect=Effect.NONE if code == "INVALID_INPUT" else effect)


async def _ambiguous(scene: FailureContext, text: str) -> Failure:
    facts = await facts_now(scene)
    count = facts.count if facts else int((re.search(r"resolved to (\d+)", text) or [0, 2])[1])
    details: dict[str, Any] = {"url": scene.page.url, "count": count, "matches": list(facts.matches if facts else ())}
    what = scene.selector if facts else f"{scene.selector} or its frame {scene.frame}"
    what = f"the frame {facts.ambiguous_frame}" if facts and facts.ambiguous_frame else what
    return Failure("SELECTOR_AMBIGUOUS", f"{what} matches {count} elements", details=details)


async def facts_now(scene: FailureContext, within: float | None = None, *, briefly: bool = False) -> Facts | None:
    """Facts about the step's selector; None if the page does not answer in time."""
    if scene.selector is None and scene.frame is None:
        return None
    look = scene.look if within is None else within
    facts = await bounded(ask(scene.page, scene.selector or ":root", scene.frame, look, briefly=briefly), look, None)
    return replace(facts, disabled=True) if facts is not None and scene.fills and facts.read_only else facts


async def _too_late(text: str, scene: FailureContext) -> Failure:
    """The failure of Playwright's own timeout: dialog, network, page and element are checked in this order."""
    if scene.watch.blocked:
        return blocked(scene, CallLog.of(text).effect)
    if scene.opens:
        return await late_opening(scene)
    log = CallLog.of(text)
    pending = scene.watch.frame.unanswered if log.effect is not Effect.NONE else None
    facts, (page, browser) = await _examine(scene, log) if pending is None else (None, await who_answers(scene))
    failure = dead(text, scene)
    if failure is not None:
        return failure
    if not scene.answered and (not page or (pending is None and _drowned(scene, facts))):
        return hung(scene, browser, performed(scene, log))
    if pending is not None:
        return no_answer(scene, pending, log.effect)
    failure = lost_page(scene) if log.effect is Effect.NONE else None
    return failure or (_wait_failure(scene, facts) if scene.waits else _unready(scene, facts, log))


async def _examine(scene: FailureContext, log: CallLog) -> tuple[Facts | None, tuple[bool, bool]]:
    """The facts, and whether page and browser answer; what was seen before the limit needs no second look."""
    if scene.seen.facts is not None and log.effect is Effect.NONE:
        return scene.seen.facts, (True, True)
    facts, (page, browser) = await asyncio.gather(facts_now(scene), who_answers(scene))
    if facts is None and page and scene.watch.frame.unanswered is None:  # it was only slow to answer
        facts = await _second_look(scene)
    return facts, (page, browser)


def _drowned(scene: FailureContext, facts: Facts | None) -> bool:
    """Whether a page that answers did not say in time what it shows, because it floods the browser with events."""
    return facts is None and scene.watch.pace.heavy and scene.selector is not None


async def _second_look(scene: FailureContext) -> Facts | None:
    """The facts of a page that was only slow to answer. The end of a flood is not waited for."""
    return None if scene.watch.pace.floods else await facts_now(scene, SECOND_LOOK)


def _unready(scene: FailureContext, facts: Facts | None, log: CallLog) -> Failure:
    """The reason that held an act up: its own consequences if it was performed, else its element."""
    failure = navigation_failure(scene) if log.effect is not Effect.NONE and not log.dragging else None
    return failure or element_failure(scene, facts, log)


_AWAITED_SECONDS = 0.5
"""Seconds after which a request without an answer is worth a word."""
NAMED = 5
"""The most requests without an answer that are named."""


def with_unanswered(failure: Failure, exchanges: Iterable[RequestRecord], now: datetime) -> Failure:
    """Add the requests that have no answer yet to the failure of a step that waited: it may have waited for them."""
    if failure.family not in (Family.TIMEOUT, Family.ELEMENT, Family.ACTION):
        return failure
    awaited = (each for each in exchanges if not each.answered)
    late = [each for each in awaited if (now - each.started).total_seconds() >= _AWAITED_SECONDS]
    if not late:
        return failure
    named = [f"{each.method} {each.url}" for each in late[:NAMED]]
    more = f" and {len(late) - 1} more" if len(late) > 1 else ""
    advice = failure.advice
    if failure.code == "STEP_TIMEOUT":
        advice = advice or f"The site has not answered {named[0]}{more}, which the page may wait for: look at its log."
    message = f"{failure.message}; no answer yet from {late[0].url}{more}"
    return replace(failure, message=message, details={**failure.details, "unanswered": named}, advice=advice)


def with_popups(failure: Failure, popups: Collection[str]) -> Failure:
    """Add the new pages that were opened to the failure: an element that is missing here may be there."""
    if not popups:
        return failure
    *_, last = popups
    message = f"{failure.message} (a new page was opened: {last})" if _is_missing(failure) else failure.message
    return replace(failure, message=message, details={**failure.details, "popups": list(popups)})


def with_redirect(failure: Failure, opened: Opened | None, url: str) -> Failure:
    """Add the requested URL to the failure of a missing element, if the site has led to another page.

    A visitor who is not logged in gets the login page that way. After an act that may have navigated, only the very
    page that the `open` reached counts.
    """
    if opened is None or not _is_missing(failure) or (opened.acted and url != opened.came):
        return failure
    asked, came = urlsplit(opened.asked), urlsplit(url)
    if came.scheme not in ("http", "https") or _place(asked) == _place(came):
        return failure
    same_site = asked.netloc == came.netloc
    page, wanted = ((each.path or "/") if same_site else "".join(_place(each)) for each in (came, asked))
    message = (
        f"{failure.message} (the page is {page}: the site redirected there from {wanted}, which the last "
        "`open` requested)"
    )
    advice = _LOGIN_PAGE if names_login(came.path) and not names_login(asked.path) else failure.advice
    return replace(failure, message=message, details={**failure.details, "opened": opened.asked}, advice=advice)


def _is_missing(failure: Failure) -> bool:
    return failure.code == "ELEMENT_NOT_FOUND" or (failure.code == "STEP_TIMEOUT" and failure.message.startswith(_WAIT))


def _place(url: SplitResult) -> tuple[str, str]:
    """Host and path. `/grid/` and `/grid` are the same page, and so are http and https."""
    return url.netloc, url.path.rstrip("/")


def _first_line(text: str) -> str:
    """The message without API name, call log and the browser's own log."""
    if _DOWNLOAD in text:
        return "this URL is a download, not a page: use `download` on the link to it"
    return re.sub(r"^\w+\.\w+: (Error: )?", "", (text.splitlines() or [""])[0]).strip()


# The failure of a `wait` that ended without its element. Pure.


def _wait_failure(scene: FailureContext, facts: Facts | None) -> Failure:
    """`Step timeout: wait for ... exceeded ...s`, and what the page shows instead."""
    failure = timed_out(scene)
    if facts is None:
        return failure
    found = _describe_alternatives(facts, scene.text)
    details = {**failure.details, "count": facts.count, "visible": facts.visible_count}
    details |= {"text": facts.text} if facts.count and scene.text is not None else {}
    details |= {"instead": found} if found else {}
    details |= {"similar": list(facts.similar)} if facts.similar else {}
    advice = _in_frame(facts) if facts.in_frame else failure.advice
    if found and scene.text and facts.visible_count and fold(scene.text).casefold() in facts.text.casefold():
        advice = _CAPITALS
    message = f"{failure.message}: {found}" if found else failure.message
    return replace(failure, message=message, details=details, advice=advice)


def _describe_alternatives(facts: Facts, wanted: str | None) -> str:
    """What exists in place of the awaited element; empty if it has just appeared."""
    if facts.missing_frame is not None:
        return f"no frame matches {facts.missing_frame}"
    if facts.count == 0:
        near = near_miss(facts)
        return f"no element matches; {near}" if near else "no element matches"
    if facts.visible_count == 0:
        return f"{_matching(facts.count)}, none is visible"
    if wanted is None or fold(wanted) in facts.text:
        return ""
    shown = f"text is {shortened(facts.text)!r}"
    return f"its {shown}" if facts.count == 1 else f"{_matching(facts.count)}, the first visible one's {shown}"


def hidden(selector: str, count: int, url: str) -> Failure:
    """The failure of a look at elements none of which is displayed."""
    details = {"url": url, "count": count}
    return Failure("ELEMENT_HIDDEN", f"{selector}: {_matching(count)}, none is shown", selector, details)


def _matching(count: int) -> str:
    return "1 element matches" if count == 1 else f"{count} elements match"
