"""Exception -> Failure: the only reader of Playwright's messages. The order of the rules matters."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser.arrival import document_of
from harness.browser.call_log import CallLog
from harness.browser.exchange import Exchange
from harness.browser.facts import Facts, ask
from harness.browser.late_wait import late_wait
from harness.browser.liveness import PROBE_SECONDS, blocked, dead, hung, no_answer, timed_out, unanswered, who_answers
from harness.browser.login import missing, session_lost
from harness.browser.network import REFUSED_STATUSES, net_error, net_failure, policy_failure, status_failure
from harness.browser.policy import strayed
from harness.browser.scene import Scene, seconds
from harness.failure import Effect, Failed, Failure

_INVALID = re.compile(
    r"Cannot navigate to invalid URL|while parsing|not a valid (selector|XPath)|Unknown key|Unknown engine"
    r"|Element is not an? |Not a checkbox|iframe> was expected|Cannot type text into|Malformed value|Invalid selector"
    r"|Cannot uncheck radio|Non-multiple file input|Node is not an|cannot be filled"
    r"|Failed to execute '(querySelector|evaluate)"
)
_WAIT = "Step timeout: wait for "
_DOWNLOAD = "Download is starting"
_GONE = re.compile(r"not attached to the DOM|Frame was detached|Execution context was destroyed|page is navigating")
_UNSTABLE = r"is not stable|detached from the DOM"
_HIDDEN = r"is not visible|outside of the viewport"
_DISABLED = r"is not enabled|is not editable"


async def failure_of(error: Exception, scene: Scene) -> Failure:
    """The Failure of whatever an act raised. Takes about twice PROBE_SECONDS at most."""
    if isinstance(error, Failed):
        return replace(error.failure, selector=error.failure.selector or scene.selector)
    text = str(error)
    failure = dead(text, scene)
    if failure is None and isinstance(error, TimeoutError):
        failure = await unanswered(scene)
    if failure is None:
        failure = await _live(error, text, scene)
        failure = _elsewhere(scene, failure.effect) or _refused_page(failure, scene) or failure
        failure = await session_lost(failure, scene) or failure
    return replace(failure, selector=failure.selector or scene.selector, cause=error)


async def _live(error: Exception, text: str, scene: Scene) -> Failure:
    name = net_error(text)
    if name is not None:
        return _network(name, text, scene)
    if "strict mode violation" in text:
        return await _ambiguous(scene, text)
    code = _named(text)
    if code is None and isinstance(error, PlaywrightTimeoutError):
        return await _too_late(text, scene)
    if code is None:
        code = "ACTION_FAILED" if isinstance(error, PlaywrightError) else "UNKNOWN"
    return Failure(code, _first_line(text), details=_words(text), effect=CallLog.of(text).effect)


def _named(text: str) -> str | None:
    """The code of a message that names its cause."""
    if _DOWNLOAD in text or _INVALID.search(text):
        return "INVALID_INPUT"
    return "ELEMENT_UNSTABLE" if _GONE.search(text) else None


def _network(name: str, text: str, scene: Scene) -> Failure:
    """A goto's network error. With an empty body only the response event knows the status."""
    navigation = scene.watch.navigation
    if navigation is not None:
        return _broken(name, navigation, scene)
    return net_failure(name, text.rpartition(" at ")[2].splitlines()[0], scene.policed)


def _broken(name: str, navigation: Exchange, scene: Scene, effect: Effect | None = None) -> Failure:
    """A navigation that ended in `name`; two names only say that its status tells the cause."""
    failure = None
    if navigation.status and name in ("ERR_HTTP_RESPONSE_CODE_FAILURE", "ERR_INVALID_AUTH_CREDENTIALS"):
        failure = _by_status(navigation, scene, effect or Effect.NONE)
    failure = failure or net_failure(name, navigation.url, scene.policed, effect)
    return replace(failure, details={**failure.details, "method": navigation.method})


def _by_status(navigation: Exchange, scene: Scene, effect: Effect) -> Failure | None:
    return status_failure(navigation.status or 0, navigation.url, navigation.headers, scene.clock.wall(), effect)


async def _ambiguous(scene: Scene, text: str) -> Failure:
    facts = await _ask(scene)
    count = facts.count if facts else int((re.search(r"resolved to (\d+)", text) or [0, 2])[1])
    details: dict[str, Any] = {"url": scene.page.url, "count": count, "matches": list(facts.matches if facts else ())}
    what = scene.selector if facts else f"{scene.selector} or its frame {scene.frame}"
    return Failure("SELECTOR_AMBIGUOUS", f"{what} matches {count} elements", details=details)


async def _ask(scene: Scene) -> Facts | None:
    """Facts of the step's selector; None when the page does not answer in time."""
    if scene.selector is None and scene.frame is None:
        return None
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return await ask(scene.page, scene.selector or ":root", scene.frame)
    except (TimeoutError, PlaywrightError):
        return None


async def _too_late(text: str, scene: Scene) -> Failure:
    """Playwright's own timeout: look at dialog, network, page and element, in this order."""
    if scene.watch.blocked:
        return blocked(scene, CallLog.of(text).effect)
    if scene.opens:
        return await _late_navigation(scene)
    log = CallLog.of(text)
    pending = scene.watch.unanswered
    if pending and log.effect is not Effect.NONE and await scene.chromium.answers(PROBE_SECONDS):
        return no_answer(scene, pending, log.effect)
    facts, (page, browser) = await asyncio.gather(_ask(scene), who_answers(scene))
    failure = dead("", scene)
    if failure is not None:
        return failure
    if not page:
        return hung(scene, browser, log.effect)
    if log.effect is Effect.NONE and not log.found and not (facts and facts.count):
        failure = _lost_page(scene)
    return failure or (late_wait(scene, facts) if scene.waits else element_failure(scene, facts, log))


def _lost_page(scene: Scene) -> Failure | None:
    """The navigation, perhaps of an earlier step, that has left nothing but the browser's own error page."""
    lost = scene.watch.last_failed
    if lost is None or not scene.page.url.startswith("chrome-error:"):
        return None
    return _broken(net_error(lost.error or "") or "ERR_FAILED", lost, scene, Effect.NONE)


async def _late_navigation(scene: Scene) -> Failure:
    """A goto that did not end: a network error that only its request knows, no answer, or a page that hangs."""
    navigation = scene.watch.navigation
    name = net_error(navigation.error or "") if navigation else None
    if navigation and name and name != "ERR_ABORTED":
        return _broken(name, navigation, scene)
    page, browser = await who_answers(scene)
    if not page or not browser:
        return hung(scene, browser)
    pending = scene.watch.unanswered
    return no_answer(scene, pending, Effect.POSSIBLE) if pending else timed_out(scene)


def element_failure(scene: Scene, facts: Facts | None, log: CallLog) -> Failure:
    """Why an element could not be acted on, from what the page and the call log say."""
    details: dict[str, Any] = {"url": scene.page.url, "call_log": log.tail}
    if log.effect is not Effect.NONE:
        return navigation_failure(scene) or replace(timed_out(scene), details=details, effect=log.effect)
    if facts is None:
        return replace(timed_out(scene), details=details)
    if facts.frame_missing:
        message = f"no frame matches {facts.missing_frame} (looked for {seconds(scene.patience)})"
        return Failure("FRAME_NOT_FOUND", message, details=details)
    if facts.count == 0 and not log.says(_UNSTABLE):
        details |= {"similar": list(facts.similar)} if facts.similar else {}
        message = f"no element matches {scene.selector} (looked for {seconds(scene.patience)})"
        return Failure("ELEMENT_NOT_FOUND", message, details=details)
    return _not_ready(scene, facts, log, details)


def _not_ready(scene: Scene, facts: Facts, log: CallLog, details: dict[str, Any]) -> Failure:
    selector = scene.selector
    covering = log.covering or facts.covered_by
    if not facts.visible or (log.says(_HIDDEN) and not covering):
        return Failure("ELEMENT_HIDDEN", f"{selector} is not visible", details=details)
    if facts.disabled or log.says(_DISABLED):
        return Failure("ELEMENT_DISABLED", f"{selector} is disabled or read-only", details=details)
    if covering:
        shown = facts.covered_by or covering
        return Failure("ELEMENT_COVERED", f"{selector} is covered by {shown}", details=details | {"covered_by": shown})
    if log.says(_UNSTABLE):
        return Failure("ELEMENT_UNSTABLE", f"{selector} keeps moving or is re-created", details=details)
    return replace(timed_out(scene), details=details)


def _refused_page(failure: Failure, scene: Scene) -> Failure | None:
    """A missing element on a page that the site refused (401, 403), which an earlier step may have opened.

    Its answer may come only after the step that asked for it: a list or a box that submits its form as it changes.
    """
    page = document_of(scene.watch.exchanges, scene.page.url)
    if page is None or page.status not in REFUSED_STATUSES or not missing(failure, scene):
        return None
    refusal = _by_status(page, scene, Effect.NONE)
    return refusal and replace(refusal, details={**failure.details, **refusal.details, "instead_of": failure.code})


def navigation_failure(scene: Scene) -> Failure | None:
    """The act was done, and what it opened failed, was refused by its site (401, 403) or is not allowed.

    Only what is known by now is judged: an act that started no navigation waits for none.
    """
    navigation = scene.watch.navigation
    failure = (_unopened(navigation, scene) if navigation else None) or _elsewhere(scene, Effect.DONE)
    return replace(failure, selector=scene.selector) if failure else None


def _elsewhere(scene: Scene, effect: Effect) -> Failure | None:
    """Another page, a popup, was to leave the allowed domains: that outweighs whatever else failed."""
    stray = strayed(scene.watch.elsewhere, scene.allowed)
    return policy_failure(stray.url, {"method": stray.method}, effect) if stray else None


def _unopened(navigation: Exchange, scene: Scene) -> Failure | None:
    name = net_error(navigation.error or "")
    if name is not None and name != "ERR_ABORTED":
        return _broken(name, navigation, scene, Effect.DONE)
    return _by_status(navigation, scene, Effect.DONE) if navigation.status in REFUSED_STATUSES else None


def with_popups(failure: Failure, popups: Collection[str]) -> Failure:
    """The failure with the new pages that were opened; what is missing here may be there."""
    if not popups:
        return failure
    *_, last = popups
    missing = failure.code == "ELEMENT_NOT_FOUND" or (
        failure.code == "STEP_TIMEOUT" and failure.message.startswith(_WAIT)
    )
    message = f"{failure.message} (a new page was opened: {last})" if missing else failure.message
    return replace(failure, message=message, details={**failure.details, "popups": list(popups)})


def _words(text: str) -> dict[str, Any]:
    log = CallLog.of(text).tail
    return {"call_log": log} if log else {}


def _first_line(text: str) -> str:
    """The message without API name, call log and the browser's own log."""
    if _DOWNLOAD in text:
        return "this URL is a download, not a page: use `download` on the link to it"
    line = (text.splitlines() or [""])[0]
    return re.sub(r"^\w+\.\w+: (Error: )?", "", line).strip()
