"""A session's place in a browser: a context of its own, ended and replaced when it can no longer be trusted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Playwright, StorageState

from harness.browser.chromium import Chromium
from harness.browser.har import Chapter
from harness.browser.raw_trace import RawTrace
from harness.browser.request import SessionRequest
from harness.browser.scene import seconds as words
from harness.browser.storage import put_databases, without_databases
from harness.browser.tab import Tab
from harness.model.ports import ConsoleLine
from harness.model.record import Sent
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock, Deadline

CLOSE_SECONDS = 3.0
STOPPED_SECONDS = 0.75
"""A browser that is silent for so long twice is taken for stopped, and killed; others may live in it."""
PROMPT_SECONDS = 0.3
"""A context that is not closed after this is asked what holds it up; nearly all are closed by then."""
FREED_SECONDS = 0.3
"""How long the page may take to answer before its context is closed."""
KILL_SECONDS = 1.0
"""How long a killed browser may take to be gone."""
TRACE_START_SECONDS = 1.0
PROBE_SECONDS = 0.25
"""A page that is silent for so long hangs."""


class Fleet(Protocol):
    """What a session needs of the browsers it came from."""

    @property
    def playwright(self) -> Playwright: ...

    @property
    def driver_alive(self) -> bool: ...

    async def open_tab(self, request: SessionRequest, state: StorageState | None) -> tuple[Tab, Chromium]: ...

    async def release(self, chromium: Chromium) -> None: ...

    def kill_driver(self, by: str) -> None: ...


class Lease:
    """One context after the other. What belongs to the whole session goes on: console, HAR files, count of requests."""

    def __init__(self, fleet: Fleet, clock: Clock, request: SessionRequest, chromium: Chromium, tab: Tab) -> None:
        self._fleet = fleet
        self._clock = clock
        self._request = request
        self._console: list[ConsoleLine] = []
        self.chapters: list[Chapter] = []
        """Requests of each context, in order."""
        self.earlier: list[RawTrace] = []
        """Traces of the contexts that were replaced, in order."""
        self._sent_before = 0
        self._left: list[Sent] = []
        """What left the pages of the contexts that are over."""
        self.on_move: Callable[[Tab], Awaitable[None]] | None = None
        """Called with each tab that takes the place of another, before anything is opened in it. Never raises."""
        self._move(chromium, tab)

    def _move(self, chromium: Chromium, tab: Tab) -> None:
        self.chromium = chromium
        self.tab = tab
        self._ended = False
        self.chapters += [Chapter(tab.har, tab.watch.exchanges)] if tab.har else []

    @property
    def requests(self) -> int:
        """Sent by the pages so far, in all contexts."""
        return self._sent_before + self.tab.watch.requests

    def take_sent(self) -> tuple[Sent, ...]:
        """What has left the pages since this was last asked (ports.Session)."""
        before, self._left = self._left, []
        return (*before, *self.tab.watch.sending.take())

    @contextlib.contextmanager
    def unnoted(self) -> Iterator[None]:
        """What leaves meanwhile is asked for by a way back, and not by a step."""
        before = self.take_sent()
        try:
            yield
        finally:
            self.take_sent()
            self._left = [*before]

    @property
    def world(self) -> str:
        """The task's own."""
        return self._request.world

    @property
    def console(self) -> tuple[ConsoleLine, ...]:
        """The console's lines, of the ended contexts too."""
        return tuple(self._console) if self._ended else (*self._console, *self.tab.watch.said())

    async def record(self) -> None:
        """Trace from now on, when it was not done already and the task wants it. A page that hangs is freed first."""
        if not self._request.traceable or self.tab.traced:
            return
        waits = self.tab.watch.unanswered is not None  # for a server: it is not to be given up for this
        try:
            async with asyncio.timeout(TRACE_START_SECONDS):
                if waits or await self.tab.freed(PROBE_SECONDS):
                    await self.tab.trace()
        except (PlaywrightError, TimeoutError):
            return  # a page that is gone cannot be recorded; the evidence says so

    async def replace(self, state: StorageState | None, until: Deadline, *, restart: bool = False) -> Failure | None:
        """End the context and take a fresh one that has `state`.

        `restart` ends the browser too when nobody else lives in it: the sessions of others are not to pay. One that is
        gone or does not answer is replaced in any case.
        """
        old, chromium, held = self.tab, self.chromium, not self._ended
        await self._close(until.clip(CLOSE_SECONDS / 2, self._clock.now()))
        if restart and chromium.sessions <= held:
            await self.kill()
        try:
            failure = await self._take(state, until)
        finally:
            if held:  # only now: a browser that nobody lives in may end
                await self._fleet.release(chromium)
        if failure is None:
            self.tab.passwords |= old.passwords
            if old.traced:
                self.earlier.append(old.raw)
                await self.record()
        return failure

    async def _take(self, state: StorageState | None, until: Deadline) -> Failure | None:
        state = state or self._request.storage
        left = until.left(self._clock.now())
        try:
            async with asyncio.timeout(left):
                tab, chromium = await self._fleet.open_tab(self._request, without_databases(state) if state else None)
        except Failed as error:
            return error.failure
        except TimeoutError:
            return Failure("BROWSER_UNRESPONSIVE", f"no new page in {words(left)}", tainted=True)
        self._sent_before += self.tab.watch.requests
        self._left += self.tab.watch.sending.take()
        self._move(chromium, tab)
        if self.on_move is not None:
            await self.on_move(tab)
        return await self._put_databases(state, until) if state else None

    async def _put_databases(self, state: StorageState, until: Deadline) -> Failure | None:
        left = until.left(self._clock.now())
        try:
            async with asyncio.timeout(left):
                await put_databases(self.tab.context, state)
        except (PlaywrightError, TimeoutError):
            return Failure("BROWSER_UNRESPONSIVE", f"IndexedDB could not be put back in {words(left)}", tainted=True)
        return None

    async def kill(self) -> None:
        """End the browser, and wait until it is gone, so that it is not given to anybody."""
        self.chromium.kill(self._request.world)
        limit = self._clock.now() + KILL_SECONDS
        while self.chromium.alive and self._clock.now() < limit:
            await self._clock.sleep(0.01)

    async def end(self, seconds: float) -> bool:
        """Close the context and give the place up. Whether it closed cleanly."""
        if self._ended:
            return True
        closed = await self._close(seconds)
        for raw in (*self.earlier, self.tab.raw):
            raw.discard()
        await self._fleet.release(self.chromium)
        return closed

    async def _close(self, seconds: float) -> bool:
        """Close the context; a browser that does not even answer is killed."""
        if self._ended:
            return True
        self._console += self.tab.watch.said()
        self._ended = True
        if self.tab.watch.pace.floods:  # what it still sends would hold up the end of the HAR file
            await self.tab.silenced(min(FREED_SECONDS, seconds / 2))
        closing = asyncio.create_task(self.tab.context.close())
        try:
            await asyncio.wait({closing}, timeout=min(PROMPT_SECONDS, seconds))
            if not closing.done():
                await self._help(closing, max(seconds - PROMPT_SECONDS, 0))
            closed = closing.done() and closing.exception() is None
            if not closed and not await self.chromium.answers(STOPPED_SECONDS):
                self.chromium.kill(self._request.world)
            return closed
        finally:
            closing.cancel()

    async def _help(self, closing: asyncio.Task[None], seconds: float) -> None:
        """A close that takes its time: a page that loops would hold it up."""
        with contextlib.suppress(PlaywrightError, TimeoutError):
            async with asyncio.timeout(seconds):
                if await self.chromium.answers(STOPPED_SECONDS):
                    await self.tab.freed(FREED_SECONDS)
                    await asyncio.wait({closing})
