"""Exception -> Failure: the only reader of Playwright's messages. The order of the rules matters."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from playwright.async_api import CDPSession, Page
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser.call_log import CallLog
from harness.browser.chromium import Chromium
from harness.browser.facts import Facts, answers, ask
from harness.browser.network import net_error, net_failure, status_failure
from harness.browser.watch import Exchange, PageWatch
from harness.failure import Effect, Failed, Failure
from harness.resilience import Clock

PROBE_SECONDS = 0.25
_CRASHED = re.compile(r"\b(Target|Page) crashed\b")
_CLOSED = re.compile(
    r"Target page, context or browser has been closed|Playwright connection closed|Connection closed while reading"
)
_INVALID = re.compile(
    r"Cannot navigate to invalid URL|while parsing|not a valid (selector|XPath)|Unknown key|Unknown engine"
    r"|Element is not an? |Not a checkbox|iframe> was expected|Cannot type text into|Malformed value|Invalid selector"
    r"|Non-multiple file input|Node is not an|Failed to execute '(querySelector|evaluate)|cannot be filled"
)
_GONE = re.compile(r"not attached to the DOM|Frame was detached|Execution context was destroyed|page is navigating")
_UNSTABLE = r"is not stable|detached from the DOM"
_HIDDEN = r"is not visible|outside of the viewport"
_DISABLED = r"is not enabled|is not editable"


@dataclass(frozen=True, slots=True)
class Scene:
    """All that may be looked at to name a failure."""

    page: Page
    watch: PageWatch
    chromium: Chromium
    control: CDPSession
    """The standing session to the page."""
    driver_alive: Callable[[], bool]
    clock: Clock
    policed: bool
    """Whether allowed_domains hold."""
    selector: str | None = None
    frame: str | None = None
    acts: bool = False
    """Whether the step may change something."""
    opens: bool = False
    """Whether the step is a navigation of its own."""
    waits: bool = False
    """Whether the step only waits: then being late is all that can go wrong."""
    within: float = 0.0
    what: str = ""
    patience: float = 0.0


async def failure_of(error: Exception, scene: Scene) -> Failure:
    """The Failure of whatever an act raised. Takes about PROBE_SECONDS at most."""
    if isinstance(error, Failed):
        return error.failure
    text = str(error)
    failure = dead(text, scene)
    if failure is None and isinstance(error, TimeoutError):
        failure = await unanswered(scene)
    if failure is None:
        failure = await _live(error, text, scene)
    return replace(failure, selector=failure.selector or scene.selector, cause=error)


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
    page, browser = await _who_answers(scene)
    failure = dead("", scene)
    if failure is not None:
        return failure
    if not page:
        return hung(scene, browser)
    effect = Effect.POSSIBLE if scene.acts else Effect.NONE
    return replace(timed_out(scene), effect=effect, tainted=True)


def hung(scene: Scene, browser_answers: bool, effect: Effect | None = None) -> Failure:
    """The page does not answer, or not even the browser does."""
    code = "PAGE_UNRESPONSIVE" if browser_answers else "BROWSER_UNRESPONSIVE"
    who = "the page" if browser_answers else "the browser"
    if effect is None:
        effect = Effect.POSSIBLE if scene.acts else Effect.NONE
    message = f"{who} stopped answering: {scene.what} exceeded {scene.within:g}s"
    return Failure(code, message, details={"url": scene.page.url}, effect=effect, tainted=True)


def timed_out(scene: Scene) -> Failure:
    """`Step timeout: ...` (specs/003)."""
    return Failure(
        "STEP_TIMEOUT", f"Step timeout: {scene.what} exceeded {scene.within:g}s", details={"url": scene.page.url}
    )


async def _live(error: Exception, text: str, scene: Scene) -> Failure:
    name = net_error(text)
    if name is not None:
        return _network(name, text, scene)
    if "Download is starting" in text:
        message = f"{scene.what}: this URL is a download, not a page; use `download` on the link to it"
        return Failure("INVALID_INPUT", message)
    if "strict mode violation" in text:
        return await _ambiguous(scene, text)
    if _INVALID.search(text):
        return Failure("INVALID_INPUT", _first_line(text), details=_words(text))
    if isinstance(error, PlaywrightTimeoutError):
        return await _too_late(text, scene)
    if _GONE.search(text):
        return Failure("ELEMENT_UNSTABLE", _first_line(text), details=_words(text), effect=CallLog.of(text).effect)
    if isinstance(error, PlaywrightError):
        return Failure("ACTION_FAILED", _first_line(text), details=_words(text), effect=CallLog.of(text).effect)
    return Failure("UNKNOWN", f"{type(error).__name__}: {_first_line(text)}")


def _network(name: str, text: str, scene: Scene) -> Failure:
    """A goto's network error. With an empty body only the response event knows the status."""
    navigation = scene.watch.navigation
    if navigation and navigation.status and name in ("ERR_HTTP_RESPONSE_CODE_FAILURE", "ERR_INVALID_AUTH_CREDENTIALS"):
        failure = status_failure(navigation.status, navigation.url, navigation.headers, scene.clock.wall())
        if failure is not None:
            return failure
    url = navigation.url if navigation else text.rpartition(" at ")[2].splitlines()[0]
    return net_failure(name, url, scene.policed)


async def _ambiguous(scene: Scene, text: str) -> Failure:
    facts = await _ask(scene)
    count = facts.count if facts else int((re.search(r"resolved to (\d+)", text) or [0, 2])[1])
    details: dict[str, Any] = {"url": scene.page.url, "count": count, "matches": list(facts.matches if facts else ())}
    return Failure("SELECTOR_AMBIGUOUS", f"{scene.selector} matches {count} elements", details=details)


async def _ask(scene: Scene) -> Facts | None:
    """Facts of the step's selector; None when the page does not answer in time."""
    if scene.selector is None:
        return None
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return await ask(scene.page, scene.selector, scene.frame)
    except (TimeoutError, PlaywrightError):
        return None


async def _too_late(text: str, scene: Scene) -> Failure:
    """Playwright's own timeout: look at dialog, network, page and element, in this order."""
    if scene.watch.open_dialogs:
        message = f"an open dialog blocks the page: {scene.what}"
        details = {"dialogs": scene.watch.dialogs}
        return Failure("DIALOG_BLOCKED", message, details=details, effect=CallLog.of(text).effect, tainted=True)
    if scene.opens:
        return await _late_navigation(scene)
    log = CallLog.of(text)
    pending = scene.watch.unanswered
    if pending and log.effect is not Effect.NONE and await scene.chromium.answers(PROBE_SECONDS):
        return no_answer(scene, pending, log.effect)
    facts, (page, browser) = await asyncio.gather(_ask(scene), _who_answers(scene))
    failure = dead("", scene)
    if failure is not None:
        return failure
    if not page:
        return hung(scene, browser, log.effect)
    return timed_out(scene) if scene.waits else element_failure(scene, facts, log)


async def _who_answers(scene: Scene) -> tuple[bool, bool]:
    """Whether the page answers, and whether the browser does. A page that waits for a server counts as alive."""
    page, browser = await asyncio.gather(
        answers(scene.control, PROBE_SECONDS), scene.chromium.answers(PROBE_SECONDS)
    )
    return page or (browser and scene.watch.unanswered is not None), browser


async def _late_navigation(scene: Scene) -> Failure:
    """A goto that did not end: a network error that only its request knows, no answer, or a page that hangs."""
    navigation = scene.watch.navigation
    name = net_error(navigation.error or "") if navigation else None
    if navigation and name and name != "ERR_ABORTED":
        return net_failure(name, navigation.url, scene.policed)
    page, browser = await _who_answers(scene)
    if not browser:
        return hung(scene, browser)
    if not page:
        return hung(scene, browser)
    pending = scene.watch.unanswered
    return no_answer(scene, pending, Effect.POSSIBLE) if pending else timed_out(scene)


def no_answer(scene: Scene, navigation: Exchange, effect: Effect) -> Failure:
    """The server says nothing."""
    message = f"no answer from {navigation.url} in {scene.within:g}s"
    return Failure("NET_TIMEOUT", message, details={"url": navigation.url}, effect=effect)


def element_failure(scene: Scene, facts: Facts | None, log: CallLog) -> Failure:
    """Why an element could not be acted on, from what the page and the call log say."""
    details: dict[str, Any] = {"url": scene.page.url, "call_log": log.tail}
    lost = scene.watch.last_failed
    if log.effect is not Effect.NONE:
        return replace(timed_out(scene), details=details, effect=log.effect)
    if not log.found and lost and scene.page.url.startswith("chrome-error:"):
        return net_failure(net_error(lost.error or "") or "ERR_FAILED", lost.url, scene.policed, Effect.NONE)
    if facts is None:
        return replace(timed_out(scene), details=details)
    if facts.frame_missing:
        message = f"no frame matches {scene.frame} (looked for {scene.patience:g}s)"
        return Failure("FRAME_NOT_FOUND", message, details=details)
    if facts.count == 0 and not log.says(_UNSTABLE):
        details |= {"similar": list(facts.similar)} if facts.similar else {}
        message = f"no element matches {scene.selector} (looked for {scene.patience:g}s)"
        return Failure("ELEMENT_NOT_FOUND", message, details=details)
    return _not_ready(scene, facts, log, details)


def _not_ready(scene: Scene, facts: Facts, log: CallLog, details: dict[str, Any]) -> Failure:
    selector = scene.selector
    if log.says(r"did not find some options"):
        options = list(facts.options or ())
        message = f"{selector} has no such option ({scene.what}); it has: {', '.join(options)}"
        return Failure("OPTION_NOT_FOUND", message, details=details | {"options": options})
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


def navigation_failure(scene: Scene) -> Failure | None:
    """The act was done, and the navigation it started failed."""
    navigation = scene.watch.navigation
    name = net_error(navigation.error or "") if navigation else None
    if navigation is None or name is None or name == "ERR_ABORTED":
        return None
    return replace(net_failure(name, navigation.url, scene.policed, Effect.DONE), selector=scene.selector)


def _words(text: str) -> dict[str, Any]:
    log = CallLog.of(text).tail
    return {"call_log": log} if log else {}


def _first_line(text: str) -> str:
    """The message without API name, call log and the browser's own log."""
    line = (text.splitlines() or [""])[0]
    return re.sub(r"^\w+\.\w+: (Error: )?", "", line).strip()
