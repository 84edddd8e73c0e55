"""Names the cause of a failed ordinary test, and takes its evidence, while its pages are still open.

The classifier of tasks does the naming. What it asks of a browser that tasks have started themselves is answered here
for one that the test has started.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field
from playwright.async_api import Browser, CDPSession, Page
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from harness.browser import har
from harness.browser.bounded import bounded
from harness.browser.context import take_picture
from harness.browser.driver import GONE, DriverLoss
from harness.browser.evidence import CONSOLE, DOM, HAR, SCREENSHOT, bare_picture, defect, dom_of, late
from harness.browser.exchanges import RequestRecord, document_of, hops_to
from harness.browser.executable import first_line
from harness.browser.failures.classify import LOGIN_PAGE, failure_of, with_redirect, with_unanswered
from harness.browser.failures.liveness import hung, lost, who_answers
from harness.browser.failures.navigation import lost_page
from harness.browser.failures.parts import with_missing_parts
from harness.browser.failures.scene import FailureContext
from harness.browser.flood import Pace
from harness.browser.main_frame import Opened
from harness.browser.network_errors import api_failure, status_failure
from harness.browser.page_tests.calls import FailedCall, assertion_of, context_of, page_of, told
from harness.browser.page_tests.views import view
from harness.browser.page_tests.watching import WatchedContext
from harness.browser.process import Chromium
from harness.browser.raw_trace import TRACE
from harness.model.ports import Evidence, Item
from harness.recovery.catalog import Family
from harness.recovery.failure import Failure
from harness.resilience import Clock, Deadline, SystemClock
from harness.spec.page_calls import FILLS, OPENS
from harness.values import replace

TOTAL_SECONDS = 8.0
"""Seconds for the cause and all evidence of a test together."""
_LOOK = 1.5
"""Seconds for the questions about the cause."""
_PICTURE_SECONDS = 1.5
_TRACE_SECONDS = 2.5
_PROBE_SECONDS = 0.5
_FONTLESS = "as it was, since the page was not ready for a picture: a font may be missing"
_ENGINE = re.compile(r"\binternal:([\w-]+)=")
"""How Playwright names its own selector engines, which nobody writes."""
_OF_ANSWER = re.compile(r"\.(ok|status)\b")
"""An assertion about an answer of the site."""
_LAUNCHES = ("launch", "launch_persistent_context", "connect", "connect_over_cdp")
_MORE = 4
"""The most pages, beside the one of the failure, that are photographed."""
_PASSWORDS = "() => [...document.querySelectorAll('input[type=password]')].map(e => e.value).filter(Boolean)"


# The parts of a browser that the classifier asks, of one that the test has started.


class _Control:
    """A control session of a page, made when it is first needed. Other browsers than Chromium have none."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._session: CDPSession | None = None

    async def send(self, method: str, params: dict[str, Any] | None = None) -> Any:
        if self._session is None:
            self._session = await self._page.context.new_cdp_session(self._page)
        return await self._session.send(method, params)


class _Driver:
    """The driver of the test. A test that has lost it is told at once: its calls fail."""

    silent = False

    def __init__(self, implementation: Any) -> None:
        self._fiber = getattr(implementation, "_dispatcher_fiber", None)

    @property
    def loss(self) -> DriverLoss | None:
        return GONE if self._fiber is not None and self._fiber.dead else None

    async def examine(self, _within: float) -> None:
        """Nothing is found out by asking: see above."""


class _Process(Struct, frozen=True):
    """The browser's process, whose id only Playwright knows."""

    stopped: bool = False


class _TestBrowser:
    """The browser of a test, as the classifier asks it."""

    ended_by = None
    lost_many = False
    sessions = 1

    def __init__(self, browser: Browser | None, implementation: Any, clock: Clock) -> None:
        self._browser = browser
        self.driver, self.process, self.pace = _Driver(implementation), _Process(), Pace(clock)

    @property
    def alive(self) -> bool:
        return self._browser is None or self._browser.is_connected()

    async def answers(self, seconds: float) -> bool:
        """Return whether the browser itself answers; of others than Chromium that is not known."""
        browser = self._browser
        if browser is None:
            return self.alive

        async def ask() -> bool:
            try:
                await (await browser.new_browser_cdp_session()).send("Browser.getVersion")
            except PlaywrightError:
                return browser.is_connected()
            return True

        return await bounded(ask(), seconds, False)


# The cause.


class Examined(Struct, frozen=True):
    """What was found out about a failed test."""

    failure: Failure
    evidence: Evidence
    exchanges: Sequence[RequestRecord] = ()
    secrets: frozenset[str] = frozenset()
    """What its password fields contained."""


def python_failure(call: FailedCall, *, fixture: str = "") -> Failure:
    """The failure of a test that no browser explains: an assertion, or an error of Python. `fixture`: the one."""
    message = f"{call.place}: {told(call)}" if call.place.file else told(call)
    if call.act == "assert" or type(call.error).__name__ == "Failed":
        failed = Failure("ASSERTION_FAILED", told(call), assertion=assertion_of(call), cause=call.error)
        return _advised(failed, call)
    return Failure("TEST_ERROR", f"{fixture}: {message}" if fixture else message, cause=call.error)


def unseen_failure(call: FailedCall, *, fixture: str = "", hangs: float = 0.0) -> Failure:
    """The failure of a test that has no page which could be asked. `hangs`: seconds after which it was ended."""
    if hangs:
        return hanging(call, hangs)
    if not call.is_playwright or call.act.startswith("expect."):
        return python_failure(call, fixture=fixture)
    return replace(_by_text(call), cause=call.error)


def _by_text(call: FailedCall) -> Failure:
    """What the message of a call says, of which nothing else is known."""
    if call.api.startswith("APIRequestContext."):
        return api_failure(call.text, call.url or "")
    if "onnection closed" in call.text:
        return GONE.failure()
    if "has been closed" in call.text.partition("\n")[0]:
        return Failure("BROWSER_CRASHED", "the browser is gone")
    if isinstance(call.error, PlaywrightTimeoutError):
        return Failure("STEP_TIMEOUT", f"{call.act}: {told(call)}")
    return Failure("BROWSER_LAUNCH_FAILED" if call.act in _LAUNCHES else "ACTION_FAILED", told(call))


async def cause_of(call: FailedCall, found: WatchedContext, page: Page, hangs: float = 0.0) -> Failure:
    """The cause of a failure while this page was the one of the test. `hangs`: seconds after which it was ended."""
    scene = _scene(call, found, page)
    if hangs:
        return await _of_hang(call, scene, hangs)
    if call.act.startswith("expect.") and call.is_playwright:
        failure = await _of_expect(call, scene)
    elif call.is_playwright and page_of(call.target) is None:
        failure = await _of_no_page(call, scene)
        failure = with_unanswered(failure, found.watch.exchanges, scene.clock.wall())
    elif not call.is_playwright:
        failure = await _of_page(python_failure(call), scene)
    else:
        failure = await failure_of(cast("Exception", call.error), scene)
        failure = with_unanswered(failure, found.watch.exchanges, scene.clock.wall())
    hops = hops_to(found.watch.exchanges, page.url)
    redirected = Opened(hops[-1].url, page.url) if len(hops) > 1 else None
    failure = with_redirect(with_missing_parts(failure, scene), redirected, page.url)
    failure = _of_answer(failure, call, scene)
    return _advised(replace(_named(failure, call), cause=call.error), call)


def _of_answer(failure: Failure, call: FailedCall, scene: FailureContext) -> Failure:
    """The failure by the newest answer with which the site failed, beside the document of the page.

    It is the cause only of an assertion about an answer; any other failure names it.
    """
    if failure.family not in (Family.ASSERTION, Family.TIMEOUT, Family.ELEMENT):
        return failure
    failed = next((each for each in reversed(scene.watch.exchanges) if (each.status or 0) >= 500), None)
    if failed is None or document_of([failed], scene.page.url) is not None:
        return failure
    refused = status_failure(failed.status or 0, failed.url, failed.headers, scene.clock.wall())
    assert refused is not None  # its status says so
    if call.act == "assert" and _OF_ANSWER.search(call.place.text):
        details = {**refused.details, "method": failed.method, "instead_of": failure.code}
        return replace(refused, message=f"{refused.message}; {failure.message}", details=details)
    told = f"{failure.message}; the site answered HTTP {failed.status} to {failed.method} {failed.url}"
    return replace(failure, message=told)


def _scene(call: FailedCall, found: WatchedContext, page: Page) -> FailureContext:
    clock = SystemClock()
    if found.watch.frame.page is not page:
        found.watch.follow(page)
    step = call.step()
    selector = call.selector if call.selector != ":root" else None
    return FailureContext(
        page=page,
        watch=found.watch,
        chromium=cast("Chromium", _TestBrowser(found.context.browser, found.implementation, clock)),
        control=cast("CDPSession", _Control(page)),
        clock=clock,
        until=Deadline.after(_LOOK, clock.now()),
        selector=selector,
        acts=step.effect_class != "read",
        opens=call.act in OPENS,
        waits=step.waits and selector is not None,
        fills=call.act in FILLS,
        pictures=call.act == "screenshot",
        within=call.seconds,
        what=call.describe(),
        patience=call.seconds,
    )


async def _of_expect(call: FailedCall, scene: FailureContext) -> Failure:
    """The failure of an `expect`: what it needs is gone, its element is missing, or it does not hold."""
    if (gone := await lost(call.text, scene)) is not None:
        return gone
    page, browser = await who_answers(scene)
    if not page:
        return hung(scene, browser)
    if "strict mode violation" in call.text:
        return await failure_of(PlaywrightError(call.text), scene)
    if call.misses_its_element:
        late_error = PlaywrightTimeoutError(f"Timeout\nCall log:\n{chr(10).join(f'  - {x}' for x in call.log.lines)}")
        failure = await failure_of(late_error, scene)
        if failure.code != "ELEMENT_NOT_FOUND" or (wanted := assertion_of(call)) is None:
            return failure
        return replace(failure, details={**failure.details, "expected": wanted.expected})
    failed = Failure("ASSERTION_FAILED", told(call), details={"url": scene.page.url}, assertion=assertion_of(call))
    return await _of_page(failed, scene)


async def _of_no_page(call: FailedCall, scene: FailureContext) -> Failure:
    """The failure of a call that is about no page: of a browser, a context or a request beside the pages."""
    gone = await lost("", scene)
    return gone if gone is not None and gone.code != "PAGE_CLOSED" else unseen_failure(call)


async def _of_page(failure: Failure, scene: FailureContext) -> Failure:
    """The failure of the page that a test has opened, in place of an assertion that cannot hold on it."""
    if failure.code != "ASSERTION_FAILED":
        return failure
    if (gone := lost_page(scene)) is not None:
        return replace(gone, details={**gone.details, "instead_of": failure.code})
    page = document_of(scene.watch.exchanges, scene.page.url)
    if page is None or (page.status or 0) < 500:  # many tests look at pages with another status on purpose
        return failure
    refused = status_failure(page.status or 0, page.url, page.headers, scene.clock.wall())
    if refused is None:
        return failure
    details = {**refused.details, "method": page.method, "instead_of": failure.code}
    return replace(refused, message=f"{refused.message}; {failure.message}", details=details)


async def _of_hang(call: FailedCall, scene: FailureContext, seconds: float) -> Failure:
    """The failure of a test that was ended from outside."""
    if (gone := await lost("", scene)) is not None:
        return gone
    page, browser = await who_answers(scene)
    if not page and scene.watch.frame.unanswered is None:
        return replace(_named(hung(replace(scene, within=seconds), browser), call), cause=call.error)
    return hanging(call, seconds)


def hanging(call: FailedCall, seconds: float) -> Failure:
    """The failure of a test that did not end in its time, and whose page, if it has one, answers."""
    where = f"{call.place}: {call.describe()}" if call.api else f"{call.place}: {call.place.text}"
    failure = Failure("TASK_TIMEOUT", f"the test exceeded {seconds:g} s (`page_test_timeout`), at {where}")
    return _advised(replace(failure, cause=call.error), call)


def _named(failure: Failure, call: FailedCall) -> Failure:
    """The failure with the locator as the test has it, and not as Playwright's engine takes it."""
    if not call.selector or not call.shown or call.selector == call.shown:
        return replace(failure, selector=failure.selector or call.shown or None)
    message = _ENGINE.sub(r"\1=", failure.message.replace(call.selector, call.shown))
    selector = call.shown if failure.selector in (None, call.selector) else failure.selector
    return replace(failure, message=message, selector=selector)


_ADVICE = {
    "TASK_TIMEOUT": "Look at the line where it stood; raise `page_test_timeout` if the test needs more.",
    "STEP_TIMEOUT": "Look at the screenshot for what the call waited for, or raise its `timeout`.",
    "ASSERTION_FAILED": "Compare the expected value with the screenshot.",
}
"""What to do about a failure of these codes, in place of the catalog's hint, which is about keys of tasks."""
_SIGN_IN = "The site shows its login page because nobody is signed in: look at what the test does to sign in."
_ONCE = "A plain `assert` looks once. If the page needs time, use `expect(...)`, which waits."
_LOOKED = re.compile(r"\.(inner_|text_content|input_value|is_|count\(|title\(|url\b|get_attribute|all_)")
_IN_FRAME = re.compile(r"An element in an iframe needs `frame`: add `frame: (.*)` to this step\.")


def _advised(failure: Failure, call: FailedCall) -> Failure:
    """The failure with advice for somebody who writes Python."""
    advice = _SIGN_IN if failure.advice == LOGIN_PAGE else failure.advice
    advice = _IN_FRAME.sub(r"The element is in an iframe: `page.frame_locator(\1)` finds it.", advice)
    if not advice and call.act == "assert" and _LOOKED.search(call.place.text):
        advice = _ONCE
    return replace(failure, advice=advice or _ADVICE.get(failure.code, ""))


# The evidence.


class _Round(Struct):
    """One collection of evidence."""

    folder: Path
    clock: SystemClock
    until: Deadline
    items: list[Item] = field(default_factory=list)

    async def file(self, name: str, seconds: float, make: Callable[[Path], Awaitable[str]]) -> bool:
        """Make one file within `seconds`; an error is recorded and does not affect the other files."""
        at, began, made = self.clock.wall(), self.clock.now(), False
        limit = self.until.clip(seconds, began)
        reason = late(limit)
        try:
            async with asyncio.timeout(limit):
                reason = await make(self.folder / name)
                made = True
        except TimeoutError:
            pass
        except (PlaywrightError, OSError, ValueError, LookupError) as error:
            reason = first_line(error)
        except Exception as error:  # noqa: BLE001 - a defect of ours must lose this one file, and not the cause
            reason = defect(error)
        self.items.append(Item(name, "taken" if made else "missed", reason, round(self.clock.now() - began, 3), at))
        return made


async def examine(
    call: FailedCall, contexts: Sequence[WatchedContext], folder: Path, *, full_page: bool, hangs: float = 0.0
) -> Examined | None:
    """Name the cause and take the evidence of a test with these open contexts; None if none of them had a page."""
    own = context_of(page_of(call.target))
    shown = [each for each in contexts if each.attached]
    found = next((each for each in shown if each.implementation is own), shown[-1] if shown else None)
    if found is None:
        return None
    page = view(page_of(call.target)) if found.implementation is own else (found.pages or [found.watch.frame.page])[-1]
    clock = SystemClock()
    round_ = _Round(folder, clock, Deadline.after(TOTAL_SECONDS, clock.now()))
    failure = await cause_of(call, found, page, hangs)
    if hangs:
        await bounded(_free(found, page), _PROBE_SECONDS, None)
    await _take_page(round_, page, full_page=full_page)
    await round_.file(TRACE, _TRACE_SECONDS, partial(_trace, found, page))
    others = [(number, each) for number, each in enumerate(_pages(shown), 1) if each is not page]
    for number, other in others[-_MORE:]:
        (folder / "screenshots").mkdir(exist_ok=True)
        await round_.file(f"screenshots/page-{number}.png", _PROBE_SECONDS, partial(_shoot, other, False))
    exchanges = sorted((each for of in shown for each in of.watch.exchanges), key=lambda each: each.started)
    await round_.file(HAR, _TRACE_SECONDS, partial(_har, exchanges))
    lines = tuple(sorted((line for of in shown for line in of.watch.console_lines()), key=lambda line: line.at))
    round_.items.append(Item(CONSOLE, "taken", at=clock.wall()))
    nothing: frozenset[str] = frozenset()
    secrets = await bounded(_passwords([page, *(other for _, other in others)]), _PROBE_SECONDS, nothing)
    evidence = Evidence(folder, tuple(round_.items), page.url, lines, "its criteria are Python")
    return Examined(failure, evidence, exchanges, secrets)


def _pages(contexts: Sequence[WatchedContext]) -> list[Page]:
    return [page for each in contexts for page in each.pages]


async def _free(found: WatchedContext, page: Page) -> None:
    """End the scripts that keep a page busy: it then shows how far they came."""
    if (control := found.controls.get(page)) is not None:
        await (await control).send("Runtime.terminateExecution")


async def _passwords(pages: Sequence[Page]) -> frozenset[str]:
    values = [await page.evaluate(_PASSWORDS) for page in pages if not page.is_closed()]
    return frozenset(value for each in values for value in each)


async def _take_page(round_: _Round, page: Page, *, full_page: bool) -> None:
    await round_.file(SCREENSHOT, 2 * _PICTURE_SECONDS, partial(_shoot, page, full_page))
    await round_.file(DOM, 2 * _PICTURE_SECONDS, partial(_dom, page))


async def _shoot(page: Page, full_page: bool, path: Path) -> str:
    try:
        await take_picture(page, path, _PICTURE_SECONDS, full_page=full_page)
    except (PlaywrightTimeoutError, TimeoutError):  # it waits for the page's fonts, of which one may never come
        session = await page.context.new_cdp_session(page)
        await asyncio.to_thread(path.write_bytes, await bare_picture(session, full_page=full_page))
        return _FONTLESS
    return ""


async def _dom(page: Page, path: Path) -> str:
    content = await dom_of(page)
    await asyncio.to_thread(path.write_bytes, content.encode("utf-8", "replace"))
    return ""


async def _trace(found: WatchedContext, page: Page, path: Path) -> str:
    """A trace of the end, unless the test records one itself: Playwright keeps one at a time."""
    tracing = found.context.tracing
    try:
        await tracing.start(screenshots=True, snapshots=True)
    except PlaywrightError as error:
        if "already" in str(error):
            raise ValueError("the test records one itself (`--tracing`)") from None
        raise
    try:
        await bounded(page.evaluate("() => document.readyState"), _PROBE_SECONDS, None)
    finally:
        await tracing.stop(path=path)
    return "of the end of the test: nothing was recorded before it failed"


async def _har(exchanges: Sequence[RequestRecord], path: Path) -> str:
    document = har.of_exchanges(exchanges)
    await asyncio.to_thread(path.write_text, json.dumps(document), "utf-8")
    return "what was seen of the requests, without bodies"
