"""Looks at the page of one task: what criteria, asserts and baselines ask. The acts are in session.py."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from playwright.async_api import CDPSession, Locator
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeoutError
from playwright.async_api import expect as expect_of

from harness.browser.bounded import bounded
from harness.browser.context import GRACE, BrowserPool, ContextHandle, Tab
from harness.browser.failures.classify import failure_of, hidden, with_popups, with_redirect
from harness.browser.failures.liveness import PROBE_SECONDS, dead, lost
from harness.browser.failures.navigation import lost_page
from harness.browser.failures.scene import SECONDS as FRAME_SECONDS
from harness.browser.failures.scene import FailureContext, UnseenError, other_frame
from harness.browser.isolated import ask
from harness.browser.locating import locate
from harness.browser.page_events import PageEvents
from harness.browser.process import Chromium, answers
from harness.browser.queries import look_at, shown_text
from harness.browser.request import SessionRequest
from harness.criteria import PageQuery
from harness.criteria.syntax import Selected
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure, Passed
from harness.resilience import Clock, Deadline
from harness.spec.pictures import COMPARISONS, platform_of
from harness.spec.steps import Assert
from harness.task_secrets import is_session_value, learn, secrets_of_header
from harness.values import replace

T = TypeVar("T")
_REFUSED_SNAPSHOT = re.compile(
    r"\nActual value: None\nError: (?!element\(s\) not found|.*(?:context was destroyed|navigating|detached))"
    r"(?P<why>.*?)\s*\nCall log:",
    re.S,
)
"""Playwright's words for an expected ARIA snapshot that it cannot read, and for which waiting is in vain."""
_SEEN_SNAPSHOT = re.compile(r"\nActual value: (?!None\s*\n)(?P<snapshot>.*?)\s*\nCall log:", re.S)
"""Playwright's words for the ARIA snapshot that it saw last."""


class PageLooks:
    """The eyes of a session. Every look is bounded, and none ends a script of the page."""

    def __init__(self, pool: BrowserPool, clock: Clock, request: SessionRequest, chromium: Chromium, tab: Tab) -> None:
        self._pool, self._clock, self._request = pool, clock, request
        self._handle = ContextHandle(pool, clock, request, chromium, tab)
        self._closed_pages: list[Mapping[str, str]] = []
        """The pages that the site closed since the step began, and where the task went on."""
        self._vanished = VanishedTexts(clock)
        self.looked: dict[Selected, bool] = {}
        """The selectors that criteria have read -> whether an element has matched at any look."""
        self._secrets = PageSecrets()
        """The context whose secrets are known, and of how many of its requests and answers."""

    @property
    def tab(self) -> Tab:
        """The context with its current page; a recovery that needs a fresh context replaces it."""
        return self._handle.tab

    @property
    def chromium(self) -> Chromium:
        """The browser of the context; a restart replaces it."""
        return self._handle.chromium

    async def _where_open(self, see: Callable[[], Awaitable[T]], *, reads: bool = True) -> T:
        """The result of a call on the current page; if the site closes it first, on the one at which the task goes on.

        What a call that does not only read has done in a page is not done again in another one.
        """
        await self._leave_closed()
        while True:
            try:
                found = await see()
            except Failed as failed:
                await self._learn_secrets()
                if not (_closed_before(failed.failure, self.tab, reads=reads) and await self._leave_closed()):
                    raise
                continue
            again = isinstance(found, Failure) and _closed_before(found, self.tab, reads=reads)
            if not (again and await self._leave_closed()):
                if not isinstance(found, Passed) or self._tells(found.details):
                    await self._learn_secrets()
                return found

    def _tells(self, details: Mapping[str, Any]) -> bool:
        """Return whether a result, or a write that the page has sent, is told with anything of the page in it.

        The address that the task itself has opened is nothing of the page.
        """
        own = self.tab.opened.asked if self.tab.opened is not None else None
        of_page = any(name != "status" and (name, each) != ("url", own) for name, each in details.items())
        return of_page or bool(self.tab.watch.sending.unsafe)

    async def _learn_secrets(self, *, waits: bool = False) -> None:
        """Learn what has appeared. A page that floods the browser is waited for only where its files are taken."""
        floods = self.tab.watch.pace.floods and not waits
        await self._secrets.learn(self.tab, _PASSING_SECONDS if floods else _SECRETS_SECONDS * self._request.scale)

    async def _leave_closed(self) -> bool:
        """Leave the current page if the site closed it; return whether the task goes on at another one.

        It stays closed: the task goes on where a person would, at its opener, else at the newest page.
        """
        closed = self.tab.page
        if not _can_go_on(self.tab):
            return False
        with contextlib.suppress(PlaywrightError):  # the call that follows finds out what is wrong
            opener = await closed.opener()
            pages = self.tab.context.pages
            page = opener if opener is not None and opener in pages else pages[-1]
            await self.tab.switch(page)
            self._closed_pages.append({"closed": closed.url, "went_on_at": page.url})
            return True
        return False

    @property
    def closed_pages(self) -> tuple[Mapping[str, str], ...]:
        return tuple(self._closed_pages)

    def _unanswered(self) -> Failure | None:
        """The failure of a request that a route could not answer: it outweighs what followed from it."""
        return self._request.routing.take_problem() if self._request.routing else None

    def _scene(self, within: float) -> FailureContext:
        return FailureContext(
            page=self.tab.page,
            watch=self.tab.watch,
            chromium=self.chromium,
            control=self.tab.control,
            clock=self._clock,
            domains=self._request.domains,
            within=within,
            until=Deadline.after(within, self._clock.now()),
            world=self._request.world,
            logins=frozenset(self.tab.passwords),
            scale=self._request.scale,
        )

    def _with_pages(self, failure: Failure) -> Failure:
        """Add the pages that explain a missing element: new ones, and the one that was requested instead."""
        return with_popups(with_redirect(failure, self.tab.opened, self.tab.page.url), self.tab.watch.popups.values())

    async def text(self, selector: str, frame: str | None, patience: float, within: float = 0) -> str | Failure:
        return await self._where_open(lambda: self._text(selector, frame, patience, max(within, patience)))

    async def _text(self, selector: str, frame: str | None, patience: float, within: float) -> str | Failure:
        query = PageQuery("text", selector, None, frame)
        scene = replace(self._scene(within), selector=selector, frame=frame, patience=min(patience, within))
        scene, clock = replace(scene, what=f"text of {selector}"), self._clock
        self._vanished.looked(self.tab.control)
        try:
            async with asyncio.timeout(within + GRACE):
                text = await shown_text(self.tab, query, lambda _: True, scene.until, clock, patience)
                if text is not None:
                    return text
                matches = int(await look_at(self.tab, query._replace(function="count"), within, clock))
            if matches:
                return hidden(selector, matches, self.tab.page.url)
            raise UnseenError(f"{selector} did not appear")
        except (PlaywrightError, TimeoutError) as error:
            return self._with_pages(await failure_of(error, scene))

    async def aria(self, selector: str, frame: str | None, within: float) -> str | Failure:
        what = f"ARIA snapshot of {selector}"
        return await self._look_at(selector, frame, within, lambda target, ms: target.aria_snapshot(timeout=ms), what)

    async def matches_aria(
        self, selector: str, frame: str | None, expected: str, expect: float, within: float
    ) -> str | Failure | None:
        async def compare(target: Locator, ms: float) -> str | Failure | None:
            until = Deadline.after(ms / 1000, self._clock.now())
            await target.wait_for(state="attached", timeout=ms)
            while (left := until.left(self._clock.now())) > 0:
                try:
                    await expect_of(target).to_match_aria_snapshot(
                        expected, timeout=1000 * max(0.001, min(expect, left))
                    )
                except AssertionError as error:
                    if refused := _REFUSED_SNAPSHOT.search(str(error)):
                        message = f"Playwright cannot read the ARIA snapshot of the step: {refused['why']}"
                        return Failure("INVALID_INPUT", message, selector)
                    if seen := _SEEN_SNAPSHOT.search(str(error)):
                        return seen["snapshot"]
                    await self._clock.sleep(0.02)  # the page was being replaced: there was no look
                else:
                    return None
            raise UnseenError(f"no look at {selector} ended in time")

        return await self._look_at(selector, frame, within, compare, f"ARIA snapshot of {selector}")

    async def picture(self, step: Assert, patience: float, within: float) -> bytes | Failure:
        selector = step.selector or ":root"
        mask = [locate(self.tab.page, each, step.frame) for each in step.mask]
        of_page = step.selector is None and step.frame is None

        async def take(target: Locator, ms: float) -> bytes:
            await self._appeared(target, patience, within)
            return await self.tab.steady_picture(None if of_page else target, ms, mask, full_page=step.full_page)

        what = f"screenshot of {step.selector or step.frame or 'the page'}"
        return await self._look_at(selector, step.frame, within, take, what, pictures=True)

    async def _appeared(self, target: Locator, patience: float, within: float) -> None:
        """Wait for an element; a page that is busy when the patience ends is waited for as long as there is time."""
        until = Deadline.after(within, self._clock.now())
        try:
            await target.wait_for(state="attached", timeout=1000 * min(patience, within))
        except PlaywrightTimeoutError:
            left = until.left(self._clock.now())
            if left <= 0 or await answers(self.tab.control, PROBE_SECONDS):
                raise
            await target.wait_for(state="attached", timeout=1000 * left)

    @property
    def pictures(self) -> Path:
        return self._request.folder / COMPARISONS

    @property
    def platform(self) -> str:
        return platform_of(self.chromium.user_agent)

    async def _look_at(
        self,
        selector: str,
        frame: str | None,
        within: float,
        look: Callable[[Locator, float], Awaitable[T]],
        what: str,
        *,
        pictures: bool = False,
    ) -> T | Failure:
        """Look at the first match of a selector; `look` gets it, and the time in milliseconds."""

        async def look_here() -> T | Failure:
            scene = replace(self._scene(within), selector=selector, frame=frame, what=what, patience=within)
            try:
                async with asyncio.timeout(within + GRACE):
                    return await look(locate(self.tab.page, selector, frame).first, within * 1000)
            except (PlaywrightError, TimeoutError) as error:
                return self._with_pages(await failure_of(error, replace(scene, pictures=pictures)))

        return await self._where_open(look_here)

    async def read(self, query: PageQuery, within: float) -> Any:
        return await self._where_open(lambda: self._read(query, within))

    async def _read(self, query: PageQuery, within: float) -> Any:
        what = f"{query.function}({query.selector or ''})"
        scene = replace(self._scene(within), selector=query.selector, frame=query.frame, what=what)
        self._vanished.looked(self.tab.control)
        try:
            async with asyncio.timeout(within):
                value = await look_at(self.tab, query, within + GRACE, self._clock)
        except (PlaywrightError, TimeoutError) as error:
            raise Failed(await failure_of(error, scene)) from error
        failure = dead("", scene) or self._unanswered() or lost_page(scene)
        if failure is not None:
            raise Failed(failure)
        if query.selector is None:
            return value
        hidden = query.function == "visible" and value is None
        key = query.selector, query.frame
        self.looked[key] = self.looked.get(key, False) or hidden or value not in (None, False, 0, [])
        return False if hidden else value

    async def frame_of(self, selector: str) -> str:
        return await other_frame(self.tab.page, selector, FRAME_SECONDS * self._request.scale)

    async def _read_page(self, what: str, within: float, see: Callable[[], Awaitable[T]]) -> T:
        """The result of `see`; raises Failed if the page cannot be read, or not in time."""

        async def read() -> T:
            scene = replace(self._scene(within), what=what)
            if failure := await lost("", scene):
                raise Failed(failure)
            try:
                async with asyncio.timeout(within):
                    return await see()
            except (PlaywrightError, TimeoutError) as error:
                raise Failed(await failure_of(error, scene)) from error

        return await self._where_open(read)


def _can_go_on(tab: Tab) -> bool:
    """Return whether the current page was closed while others are open."""
    return tab.page.is_closed() and not tab.watch.frame.crashed and bool(tab.context.pages)


def _closed_before(failure: Failure, tab: Tab, *, reads: bool) -> bool:
    """Return whether a call failed only because the page was closed: it may be made on another one."""
    return failure.code == "PAGE_CLOSED" and (reads or failure.effect is Effect.NONE) and _can_go_on(tab)


# What pages authorize themselves by is a secret as soon as it is there: their cookies and `Authorization` headers.

_SECRETS_SECONDS = 0.5
_PASSING_SECONDS = 0.05
"""Seconds for a page that floods the browser: a step of it ends soon after its limit."""


class PageSecrets:
    """Learns the secrets of one task's pages before a text of theirs is told. It costs nothing without requests."""

    def __init__(self) -> None:
        self._watch: PageEvents | None = None
        self._requests = self._answers = 0
        """The requests and answers of this context until the last look."""

    async def learn(self, tab: Tab, seconds: float) -> None:
        """Learn what requests have sent since the last call, and which cookies answers have set. It never raises."""
        if tab.watch is not self._watch:
            self._watch, self._requests, self._answers = tab.watch, 0, 0
        if new := tab.watch.requests - self._requests:
            self._requests += new
            for exchange in list(tab.watch.exchanges)[-new:]:
                headers = exchange.asked.headers if exchange.asked else {}
                if "authorization" in headers:
                    learn(*secrets_of_header("authorization", headers["authorization"]))
        if tab.watch.answers == self._answers:
            return
        answers = tab.watch.answers
        cookies = await bounded(tab.context.cookies(), seconds, None)
        if cookies is None:  # a browser that is gone has told nothing; one that a page floods is asked once more
            return
        self._answers = answers
        learn(*(value for each in cookies if is_session_value(value := each.get("value", ""))))


# Texts that were shown and are gone when a failure is looked at, such as "Card declined" in a toast.
#
# A script in a world of its own compares the lines that the page shows, after it has changed and at most a few times in
# a second. It is put into the page only while a step or a check already waits, so a task that need not wait pays
# nothing. The page's scripts cannot notice it, and it changes nothing.

_WAITING_SECONDS = 0.2
"""Seconds after which a step or a check is taken to wait for something."""
_AGAIN_SECONDS = 1.0
"""Seconds after which the script is put into the page again: it may be another document by now."""
_ASK_SECONDS = 1.0
_COLLECT_SECONDS = 0.5

_WATCH = """act => {
  const now = Date.now(), known = globalThis.taskspecVanished;
  if (known) {
    known.ends = now + 60000;
    if (known.act !== act) known.begin(act);
    return;
  }
  const self = globalThis.taskspecVanished = {ends: now + 60000, gone: new Map()};
  const roots = new Set([document]);
  const shown = () => {
    const found = new Set();
    const add = part => (part.innerText || '').split('\\n').map(line => line.trim()).forEach(line => {
      if (line && line.length <= 300) found.add(line);
    });
    if (document.body) add(document.body);
    for (const root of roots) for (const e of root.querySelectorAll('*')) {
      if (!e.shadowRoot) continue;
      watch(e.shadowRoot);
      [...e.shadowRoot.children].forEach(add);
    }
    return found;
  };
  let last = new Set(), timer = 0, pause = 150;
  self.look = () => {
    const began = performance.now(), present = shown(), lost = [...last].filter(line => !present.has(line));
    if (lost.length <= 10) for (const line of lost) {  // more of them: the page shows something else
      const kind = line.replace(/\\d+/g, '0');  // a clock is one text
      self.gone.delete(kind);
      self.gone.set(kind, line);
      if (self.gone.size > 20) self.gone.delete(self.gone.keys().next().value);
    }
    last = present;
    const cost = performance.now() - began;
    pause = Math.max(150, 20 * cost);
    if (cost > 100) observer.disconnect();
    return [...self.gone.values()].filter(line => !present.has(line));
  };
  const observer = new MutationObserver(() => {
    if (Date.now() > self.ends) observer.disconnect();
    else timer ||= setTimeout(() => { timer = 0; self.look(); }, pause);
  });
  const kinds = {subtree: true, childList: true, characterData: true, attributes: true,
    attributeFilter: ['class', 'style', 'hidden', 'open']};
  const watch = root => { if (roots.size < 200) { roots.add(root); observer.observe(root, kinds); } };
  self.begin = act => {
    self.act = act;
    last = shown();
    self.gone.clear();
    observer.disconnect();
    roots.forEach(watch);
  };
  self.begin(act);
}"""
_COLLECT = "() => globalThis.taskspecVanished?.look() ?? []"


class VanishedTexts:
    """What the pages of a session have shown since its last act, as far as something was waited for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._acts = 0
        self._since = clock.now()
        """When the last act was done."""
        self._put = -_AGAIN_SECONDS
        """When the script was put into the page last."""
        self._putting: asyncio.Task[None] | None = None

    def acted(self) -> None:
        """An act was done that may have changed the page."""
        self._acts += 1
        self._since = self._clock.now()
        self._put = -_AGAIN_SECONDS  # what follows from it begins now

    @contextlib.contextmanager
    def during(self, control: CDPSession) -> Iterator[None]:
        """Inside, an act is done: it waits if it takes long."""
        self._later(control, _WAITING_SECONDS)
        try:
            yield
        finally:
            self._timer.cancel()

    def _later(self, control: CDPSession, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._still_waits, control)

    def _still_waits(self, control: CDPSession) -> None:
        self._watch(control)
        self._later(control, _AGAIN_SECONDS)

    def looked(self, control: CDPSession) -> None:
        """The page is looked at, perhaps again and again."""
        if self._clock.now() - self._since >= _WAITING_SECONDS:
            self._watch(control)

    def _watch(self, control: CDPSession) -> None:
        now, putting = self._clock.now(), self._putting
        if now - self._put >= _AGAIN_SECONDS and (putting is None or putting.done()):
            self._put = now
            # A page that is gone, or busy, records nothing.
            asking = bounded(ask(control, _WATCH, self._acts), _ASK_SECONDS, None)
            self._putting = asyncio.get_running_loop().create_task(asking)

    async def collect(self, control: CDPSession) -> tuple[str, ...]:
        """The texts that were shown after the last act and are not shown now, the oldest first. Never raises."""
        if self._putting is None:
            return ()
        return tuple(map(str, await bounded(ask(control, _COLLECT), _COLLECT_SECONDS, ())))
