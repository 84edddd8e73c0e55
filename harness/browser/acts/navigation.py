"""`open` and the other acts on pages: go to a URL and judge the answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any
from urllib.parse import urljoin

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page, Response
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser import domains
from harness.browser.acts.attempt import NOT_ENDED, ActContext
from harness.browser.acts.files import free_path
from harness.browser.bounded import bounded
from harness.browser.dialogs import DialogAnswer
from harness.browser.exchanges import RequestRecord
from harness.browser.failures.liveness import PROBE_SECONDS
from harness.browser.failures.navigation import REPLACED
from harness.browser.failures.parts import awaits_parts, find_spare_parts
from harness.browser.main_frame import Opened
from harness.browser.network_errors import GIVEN_UP, TELL_STATUS, net_error, net_failure, status_failure
from harness.browser.process import answers
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure
from harness.resilience import poll_until
from harness.spec.names import seconds
from harness.spec.step_base import StepBase
from harness.spec.step_keys import AnswerKeys, ArrivalKeys, Until, any_of
from harness.spec.steps import Dialog, DialogText, Open, Screenshot, SwitchPage
from harness.values import replace

# Acts on the page as a whole: `switch_page`, `dialog`, `screenshot`.

_ADVICE = "Compare `value` or `url` of the step with the open pages; a page is not an element and has no selector."
_POLL = 0.05
"""Seconds between two checks of the open pages."""
_PARTS_POLL = 0.01
"""Seconds between two checks whether a page has its scripts."""
_MARGIN = 0.1
"""Seconds before the end of the attempt at which a page that still opens is given up, to find out the reason."""


async def switch_page(attempt: ActContext, step: SwitchPage) -> Mapping[str, Any]:
    """Go on in another page once its document is there. If the page's own navigation failed, this step fails."""
    page = await _await_page(attempt, step)
    await _turn_to(attempt, page)
    return _check_navigation(attempt, by_status=step.status is None)


async def _await_page(attempt: ActContext, step: SwitchPage) -> Page:
    """Wait for the page that is meant; a page that is still opening may take all the time there is."""
    patience = min(attempt.patience, attempt.left())
    until = attempt.clock.now() + min(patience, attempt.left() - PROBE_SECONDS)
    newest, before = _is_newest(step), list[Page]()
    while True:
        pages = attempt.tab.context.pages
        if not pages:
            raise PlaywrightTimeoutError("no page is open")  # liveness finds out what ended them
        opening = attempt.tab.watch.opening
        found = [] if opening is not None and newest else await _matching(attempt, step, pages)
        late = attempt.clock.now() >= until and (opening is None or attempt.left() <= _MARGIN)
        if len(found) == 1 and (late or not newest or found == before):
            return found[0]
        if late or len(found) > 1:
            raise Failed(await _no_single_page(attempt, step, len(found), patience))
        before = found
        await attempt.clock.sleep(_POLL)


def _is_newest(step: SwitchPage) -> bool:
    """Return whether the step counts from the newest page.

    While a page is opening, it is not known which that is; and the browser tells of one that a click has opened a
    moment after the click is done, so that the newest page must be the same at two looks.
    """
    return isinstance(step.value, int) and step.value < 0


async def _matching(attempt: ActContext, step: SwitchPage, pages: Sequence[Page]) -> list[Page]:
    current = attempt.page
    if isinstance(step.value, int):
        named = pages[step.value : step.value + 1 or None] if -len(pages) <= step.value < len(pages) else []
        return [page for page in named if step.value >= 0 or page is not current]
    others = [page for page in pages if page is not current]
    if step.url is not None:
        return [page for page in others if is_at(attempt, page, step.url)]
    titles = await asyncio.gather(*(_title(page) for page in others))
    whole = [page for page, title in zip(others, titles, strict=True) if title == step.value]
    return whole or [page for page, title in zip(others, titles, strict=True) if str(step.value) in title]


def is_at(attempt: ActContext, page: Page, url: str) -> bool:
    """Return whether the page has that URL; `*` matches anything, a path is one of the task's `base_url`."""
    base = attempt.request.base_url
    whole = urljoin(base, url) if base and url.startswith("/") else url
    return re.fullmatch(".*".join(map(re.escape, whole.split("*"))), page.url) is not None


async def _title(page: Page) -> str:
    """The title; empty if the page does not answer."""
    return await bounded(page.title(), PROBE_SECONDS, "")


async def _no_single_page(attempt: ActContext, step: SwitchPage, found: int, patience: float) -> Failure:
    """The failure if no page or several pages match, with the list of the open pages."""
    opening = attempt.tab.watch.opening
    if opening is not None and not found:
        place = {"url": opening.url, "method": opening.method}
        return Failure("NET_TIMEOUT", f"no answer from {opening.url}, which a new page was opening", details=place)
    pages = await _list_pages(attempt)
    details, listed = {"pages": pages}, f"the open pages are {', '.join(pages)}"
    if found:
        message = f"{found} other pages are {_describe_target(step)}; {listed}"
        return Failure("SELECTOR_AMBIGUOUS", message, details=details, advice=_ADVICE)
    message = f"no other page is {_describe_target(step)} (looked for {seconds(patience)}); {listed}"
    return Failure("ELEMENT_NOT_FOUND", message, details=details, advice=_ADVICE)


async def _list_pages(attempt: ActContext) -> list[str]:
    """The open pages: number, URL, title."""
    pages = attempt.tab.context.pages
    titles = await asyncio.gather(*(_title(page) for page in pages))
    return [
        f"{number}: {page.url} {title!r}{' (the current one)' if page is attempt.page else ''}"
        for number, (page, title) in enumerate(zip(pages, titles, strict=True))
    ]


def _describe_target(step: SwitchPage) -> str:
    if step.url is not None:
        return f"at {step.url}"
    if isinstance(step.value, int):
        return f"number {step.value}" if step.value >= 0 else f"number {step.value}, counted from the newest"
    return f"titled {step.value!r}"


async def _turn_to(attempt: ActContext, page: Page) -> None:
    """Act on this page from now on, once its document is there, and bring it to the front."""
    try:
        async with asyncio.timeout(max(_POLL, attempt.left() - PROBE_SECONDS)):
            await attempt.tab.switch(page)
            await page.wait_for_load_state("domcontentloaded", timeout=0)
            await page.bring_to_front()
    except TimeoutError as error:
        if attempt.page is page and await answers(attempt.tab.control, PROBE_SECONDS):
            raise PlaywrightTimeoutError("its document did not load") from error
        message = f"the page stopped answering: {page.url}"
        raise Failed(Failure("PAGE_UNRESPONSIVE", message, details={"url": page.url}, tainted=True)) from error


def _check_navigation(attempt: ActContext, *, by_status: bool) -> Mapping[str, Any]:
    """URL and status of the page's own navigation; raises Failed if that failed, also `by_status`.

    An earlier act opened the page, so its GET may be repeated here.
    """
    navigation = attempt.tab.watch.frame.navigation
    if navigation is None:
        return {"url": attempt.page.url}
    name = net_error(navigation.error or "")
    failure = None
    if navigation.wanted:
        pass
    elif name is not None and name != "ERR_ABORTED":
        failure = net_failure(name, navigation.url, attempt.request.domains)
    elif navigation.status is not None and by_status:
        failure = status_failure(navigation.status, navigation.url, navigation.headers, attempt.clock.wall())
    if failure is not None:
        raise Failed(replace(failure, details={**failure.details, "method": navigation.method}, effect=Effect.DONE))
    return {"url": attempt.page.url} | ({"status": navigation.status} if navigation.status else {})


async def dialog(attempt: ActContext, step: Dialog) -> Mapping[str, Any]:
    """Set the answer to the next dialog, after those that are set already."""
    message, pattern = (None, step.message.matches) if isinstance(step.message, DialogText) else (step.message, None)
    answer = DialogAnswer(step.value == "accept", step.text, message, pattern, demanded=not step.optional)
    attempt.tab.watch.dialog_answers.prepared += (answer,)
    return {}


async def screenshot(attempt: ActContext, step: Screenshot) -> Mapping[str, Any]:
    """Keep a screenshot of the viewport, or of one element (with `frame` alone: of that frame)."""
    path = free_path(attempt.request.folder / "screenshots", f"{step.screenshot_id}.png")
    target = None
    if step.selector is not None or step.frame is not None:
        target = attempt.locator(step.selector or ":root", step.frame).first
    await attempt.act(target, lambda ms: attempt.tab.picture(path, ms / 1000, target))
    return {"file": path.name, "path": str(path)}


_NOTHING_TO_SHOW = (204, 205)
"""Statuses of answers that leave the page unchanged."""
_ERROR_PAGE_SECONDS = 0.3
"""Seconds that the browser's own error page may take to appear."""


async def open_url(attempt: ActContext, step: Open) -> Mapping[str, Any]:
    url = domains.resolve(step.url, attempt.request.base_url)
    routing = attempt.request.routing
    if routing is None or not routing.answers("GET", url):  # what a route answers is sent to no host
        domains.check(url, attempt.request.domains)
    domains.check_port(url, attempt.request.hosts)
    domains.check_reach(url, attempt.tab.unreachable)
    try:
        response = await go_to(attempt, url, step.until)
    except PlaywrightError as error:
        if (navigation := _without_page(attempt, net_error(error.message))) is None:
            raise
        return {"url": url, "status": navigation.status}
    if response is None:
        return {"url": url}
    found = judged(attempt, step, response, Effect.POSSIBLE if response.status >= 500 else Effect.NONE)
    attempt.tab.opened = Opened(url, attempt.page.url)
    return found


def judged(attempt: ActContext, step: AnswerKeys, response: Response | None, effect: Effect) -> Mapping[str, Any]:
    """URL and status of the answer to a page; raises Failed for an error, unless `await_answer` judges it."""
    if response is None:
        return {}
    if step.status is None:
        failure = status_failure(response.status, response.url, response.headers, attempt.clock.wall(), effect)
        if failure is not None:
            raise Failed(failure)
    return {"url": attempt.page.url, "status": response.status}


def _without_page(attempt: ActContext, error: str | None) -> RequestRecord | None:
    """The answer that leaves no page of the site, and is no failure: without content, or without a body as wanted."""
    navigation = attempt.tab.watch.frame.navigation
    if navigation is None:
        return None
    nothing = error == GIVEN_UP and navigation.status in _NOTHING_TO_SHOW
    return navigation if nothing or (error in TELL_STATUS and navigation.wanted) else None


async def await_answer(attempt: ActContext, step: StepBase, wanted: Collection[int]) -> int | None:
    """Wait for the answer to the page that the act opens, or turns to. Raises Failed if its status is not wanted."""
    watch, clock = attempt.tab.watch, attempt.clock
    patience = min(attempt.patience, attempt.left())

    def page() -> RequestRecord | None:
        return watch.frame.latest if isinstance(step, SwitchPage) else watch.frame.navigation

    if not await poll_until(clock, lambda: page() is not None, _POLL, patience):
        raise Failed(_not_opened(wanted, patience, watch.popups.values()))
    if not await poll_until(clock, lambda: (found := page()) is not None and found.answered, _POLL, attempt.left()):
        raise PlaywrightTimeoutError(NOT_ENDED)
    navigation = page()
    if navigation is None or navigation.status is None:
        return None  # a network error, which is judged as such
    if navigation.status not in wanted:
        raise Failed(_other_status(attempt, navigation, navigation.status, wanted))
    async with asyncio.timeout(attempt.left()):
        await watch.frame.settled()
    return navigation.status


def _not_opened(wanted: Collection[int], seconds_: float, popups: Collection[str]) -> Failure:
    """The failure of an act that declares a status and opened no page."""
    message = f"no page was requested within {seconds(seconds_)} after the act, expected one of status {any_of(wanted)}"
    if popups:
        message += f"; a new page was opened ({list(popups)[-1]}): declare `status` at its `switch_page`"
    details = {"expected_status": list(wanted), "status": None}
    return Failure("HTTP_UNEXPECTED_STATUS", message, details=details, effect=Effect.DONE)


def _other_status(attempt: ActContext, navigation: RequestRecord, status: int, wanted: Collection[int]) -> Failure:
    """The failure of an answer with another status than the wanted. One that a retry may change keeps its own code."""
    own = status_failure(status, navigation.url, navigation.headers, attempt.clock.wall())
    code = own.code if own is not None and own.retryable else "HTTP_UNEXPECTED_STATUS"
    details = {"url": navigation.url, "method": navigation.method, "status": status, "expected_status": list(wanted)}
    message = f"HTTP {status} from {navigation.url}, expected {any_of(wanted)}"
    after = own.retry_after if own is not None else None
    return Failure(code, message, details=details, retry_after=after, effect=Effect.DONE)


async def await_parts(attempt: ActContext, step: StepBase) -> None:
    """Wait until the page that an act opened has its scripts and stylesheets, or knows that it does not get them.

    `open` waits by itself, as its `until` says, and a page without an answer yet is waited for by the next step. A page
    that takes longer than the elements' patience is judged by what is known then; later steps name what it lacks.
    """
    watch = attempt.tab.watch
    navigation = watch.frame.navigation
    if navigation is None or not navigation.answered:
        return

    def ended() -> bool:
        gone = (
            watch.frame.crashed or watch.blocked or attempt.page.is_closed() or watch.frame.navigation is not navigation
        )
        there = navigation.loaded or (navigation.parsed and not awaits_parts(navigation))
        return gone or there or navigation.error is not None

    waited = isinstance(step, ArrivalKeys) or (isinstance(step, SwitchPage) and not awaits_parts(navigation))
    if not waited:
        rest = attempt.left() - PROBE_SECONDS  # the page may still be asked, and the act is done: it must not time out
        await poll_until(attempt.clock, ended, _PARTS_POLL, max(0.0, min(attempt.patience, rest)))
    await find_spare_parts(attempt.page, navigation, attempt.request.domains)


async def go_to(attempt: ActContext, url: str, until: Until = "load") -> Response | None:
    """`goto`, repeated if Chromium's error page of an earlier failure interrupted it.

    That page interrupts under its own URL, or under the URL that is just being opened.
    """
    while True:
        await _settled(attempt)
        try:
            return await _unbroken(attempt, attempt.page.goto(url, wait_until=until, timeout=attempt.ms()))
        except PlaywrightError as error:
            by = REPLACED.search(error.message)
            again = by is not None and (by[1] == url or by[1].startswith("chrome-error:"))
            if not again or (attempt.once and attempt.tab.watch.frame.navigation):  # its request may have been sent
                raise


async def arrived(attempt: ActContext, call: Callable[[float], Awaitable[Response | None]]) -> Response | None:
    """The answer to a page that `call(timeout in ms)` shows."""
    await _settled(attempt)
    return await _unbroken(attempt, call(attempt.ms()))


async def _unbroken(attempt: ActContext, navigation_: Awaitable[Response | None]) -> Response | None:
    """A navigation, ended at once if the document breaks off: Chromium would never report that the page has loaded."""
    watch = attempt.tab.watch
    try:
        async with asyncio.timeout(None) as limit:
            with watch.on_broken_off(lambda: limit.reschedule(0)):
                return await navigation_
    except TimeoutError:
        navigation = watch.frame.navigation
        if not limit.expired() or navigation is None:
            raise
        raise PlaywrightError(f"{navigation.error} at {navigation.url}") from None


async def _settled(attempt: ActContext) -> None:
    """After a failed navigation, wait a moment for Chromium's error page: it would interrupt the next navigation."""
    failed = attempt.tab.watch.frame.last_failed
    if failed is None or net_error(failed.error or "") == GIVEN_UP:
        return
    within = min(_ERROR_PAGE_SECONDS, attempt.left())
    await poll_until(attempt.clock, lambda: attempt.page.url.startswith("chrome-error:"), 0.02, within)
