"""Faults done to a task's browser: its pages, its context, its processes (ports.FaultTarget)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Mapping
from itertools import count
from typing import Any, TypeVar
from urllib.parse import urlsplit

import psutil
from playwright.async_api import BrowserContext, Frame, Page
from playwright.async_api import Dialog as OpenDialog
from playwright.async_api import Error as PlaywrightError

from harness.browser.context import BrowserPool, ContextHandle, Tab
from harness.browser.faults.standing import BrokenRequests, InDocuments, OfflineContext, StandingFault, Told
from harness.browser.process import Chromium
from harness.model.ports import Injection, Undo
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock, poll_until
from harness.spec import faults
from harness.spec.faults import Popup, SessionExpired, UnexpectedDialog

# Chooses who does a fault to the browser.

T = TypeVar("T")
STRIKE_SECONDS = 2.0
"""How long the browser may take to be struck, or healed; one that is slower, or gone, is left as it is."""
_SHARED = (
    "fault browser_kill: the browser at --task-browser-endpoint is shared with others, who would lose theirs; use a "
    "`playwright run-server --unsafe`, which gives each run its own"
)


class Sabotage:
    """Faults of one session's browser (ports.FaultTarget). May be called while an act is under way.

    A page or browser that is gone, or does not answer, is not struck, and `Strike.met` not called: the step finds out.
    What lasts is laid on whatever takes its place.
    """

    def __init__(self, handle: ContextHandle, pool: BrowserPool, clock: Clock) -> None:
        self._handle = handle
        self._pool = pool
        self._clock = clock
        self._told = Told()
        self._numbers = count(1)
        self._standing: list[StandingFault] = []
        handle.on_move = self._move

    async def strike(self, strike: Injection) -> Undo | None:
        """Do it. Raises Failed when it cannot be done at all."""
        tab, chromium = self._handle.tab, self._handle.chromium
        match strike.fault:
            case faults.ElementFault() | faults.AlertOnLoad() | faults.ClockMoved() as fault:
                return await self._stand(InDocuments(strike, f"{fault.kind}-{next(self._numbers)}", self._told))
            case faults.Offline():
                return await self._stand(OfflineContext(strike))
            case faults.Dns() | faults.Abort():
                return await self._stand(BrokenRequests(strike))
            case faults.UnexpectedDialog():
                return await _bounded(dialog(tab, strike))
            case faults.BrowserStop():
                return stop(chromium, strike, self._handle.world)
            case faults.BrowserKill():
                await self._kill(strike)
            case faults.DriverKill():
                self._kill_driver(strike)
            case _:
                await _bounded(self._at_once(tab, strike))
        return None

    async def _at_once(self, tab: Tab, strike: Injection) -> None:
        """What nothing can heal."""
        match strike.fault:
            case faults.PageCrash():
                await crash(tab, strike, self._clock)
            case faults.EndlessLoop():
                await loop(tab, strike)
            case faults.Popup():
                await popup(tab, strike)
            case faults.SessionExpired():
                await expire_session(tab.context, strike)
            case faults.StorageCleared():
                await clear_storage(tab.context, strike)
            case fault:
                raise Failed(Failure("INTERNAL_ERROR", f"fault {fault.kind} is none of the browser"))

    async def _stand(self, standing: StandingFault) -> Undo:
        self._standing.append(standing)
        try:
            await _bounded(standing.lay(self._handle.tab.context))
        except Failed:
            self._standing.remove(standing)
            raise

        async def heal() -> None:
            if standing in self._standing:  # healed already, in a healing that was broken off
                self._standing.remove(standing)
            await _bounded(standing.lift(self._handle.tab.context))

        return heal

    async def _move(self, tab: Tab) -> None:
        """The session goes on in another context."""
        for standing in self._standing:
            with contextlib.suppress(Failed):  # a page that hung could not tell that the selector is none
                await _bounded(standing.lay(tab.context))

    async def _kill(self, strike: Injection) -> None:
        chromium = self._handle.chromium
        if not chromium.process.killable:
            raise Failed(Failure("BROWSER_ENDPOINT_UNFIT", _SHARED))
        if chromium.alive:
            await chromium.crash(self._handle.world)
            await self._handle.kill()
            strike.met()

    def _kill_driver(self, strike: Injection) -> None:
        if self._pool.driver_alive:
            self._pool.kill_driver(self._handle.world)
            strike.met()


async def _bounded(work: Awaitable[T]) -> T | None:
    try:
        async with asyncio.timeout(STRIKE_SECONDS):
            return await work
    except (PlaywrightError, TimeoutError):
        return None


# Faults done to what a browser keeps: cookies, localStorage, sessionStorage, IndexedDB.

_CLEAR = """
async () => {
  const databases = (await indexedDB.databases()).length;
  const had = localStorage.length + sessionStorage.length + databases;
  localStorage.clear();
  sessionStorage.clear();
  return had;
}
"""


async def expire_session(context: BrowserContext, strike: Injection) -> None:
    """Take away the cookies that a host is sent, or all."""
    fault = strike.fault
    assert isinstance(fault, SessionExpired)
    cookies = [each for each in await context.cookies() if sent_to(each.get("domain", ""), fault.host)]
    for each in cookies:
        await context.clear_cookies(name=each.get("name"), domain=each.get("domain"), path=each.get("path"))
    if cookies:
        strike.met()


def sent_to(domain: str, host: str | None) -> bool:
    """Whether a cookie of this domain is sent to the host; one of `.domain` is to those below it, too. Pure."""
    if host is None:
        return True
    bare, host = domain.lower().removeprefix("."), host.lower()
    return host == bare or (domain.startswith(".") and host.endswith(f".{bare}"))


async def clear_storage(context: BrowserContext, strike: Injection) -> None:
    """Empty the storages of every origin that a page, or a frame in it, is open at."""
    found = await asyncio.gather(*(_clear_page(page) for page in context.pages))
    if any(found):
        strike.met()


async def _clear_page(page: Page) -> bool:
    """Whether there was anything."""
    had = await asyncio.gather(*(_clear_frame(frame) for frame in page.frames))
    control = await page.context.new_cdp_session(page)
    for origin in {_origin(frame.url) for frame in page.frames if frame.url.startswith("http")}:
        await control.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "indexeddb"})
    await control.detach()
    return any(had)


async def _clear_frame(frame: Frame) -> int:
    """How much there was; a document without an origin of its own has nothing."""
    try:
        had: int = await frame.evaluate(_CLEAR)
    except PlaywrightError:
        return 0
    return had


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


# Faults of a moment, done to the page that is acted on. One that no longer answers is spared: it has its fault.

CRASH_SECONDS = 2.0
"""How long a page may take to crash."""
_DIALOG_MS = 30
"""So long after the strike a dialog comes up: the step has begun by then."""
_LOOP = "setTimeout(() => { for (;;) {} })"
_LEAVING = "addEventListener('beforeunload', e => e.preventDefault())"


async def crash(tab: Tab, strike: Injection, clock: Clock) -> None:
    """End the page's process. The command is never answered."""
    if tab.watch.crashed or tab.page.is_closed():
        return
    command = asyncio.ensure_future(tab.control.send("Page.crash"))
    await poll_until(clock, lambda: tab.watch.crashed or command.done(), 0.01, CRASH_SECONDS)
    command.cancel()
    await asyncio.gather(command, return_exceptions=True)
    if tab.watch.crashed:
        strike.met()


async def loop(tab: Tab, strike: Injection) -> None:
    """Let a script of the page run for ever."""
    await _run(tab, _LOOP)
    strike.met()


async def popup(tab: Tab, strike: Injection) -> None:
    """Let the page open another one."""
    assert isinstance(strike.fault, Popup)
    answer = await _run(tab, f"!!window.open({json.dumps(strike.fault.url)})")
    if answer["result"].get("value"):
        strike.met()


async def dialog(tab: Tab, strike: Injection) -> Undo:
    """Let a dialog come up; a `beforeunload` does when the page is left."""
    fault = strike.fault
    assert isinstance(fault, UnexpectedDialog)
    context, waiting = tab.context, True

    def end() -> None:
        nonlocal waiting
        if waiting:
            context.remove_listener("dialog", seen)
        waiting = False

    def seen(shown: OpenDialog) -> None:
        if shown.type == fault.type and (shown.type == "beforeunload" or shown.message == fault.message):
            end()
            strike.met()

    async def heal() -> None:
        end()

    context.on("dialog", seen)
    raising = f"setTimeout(() => {fault.type}({json.dumps(fault.message)}), {_DIALOG_MS})"
    await _run(tab, _LEAVING if fault.type == "beforeunload" else raising)
    return heal


async def _run(tab: Tab, script: str) -> Mapping[str, Any]:
    """As if a person had just touched the page: browsers ask for that before popups and questions on leaving."""
    answer = await tab.control.send("Runtime.evaluate", {"expression": script, "userGesture": True})
    if "exceptionDetails" in answer:
        raise PlaywrightError(str(answer["exceptionDetails"].get("text")))
    return answer


# Faults done to processes: a browser that is stopped.

REFUSED = (
    "fault browser_stop: the browser is at --task-browser-endpoint, and a process elsewhere cannot be stopped from "
    "here; run the task with a browser of this machine, or use `page_crash` or `browser_kill`"
)


def stop(chromium: Chromium, strike: Injection, world: str) -> Undo | None:
    """Stop the whole tree, which may go on later. What becomes of it until then is this task's doing.

    Raises Failed for a browser elsewhere.
    """
    if chromium.pid is None:
        raise Failed(Failure("BROWSER_ENDPOINT_UNFIT", REFUSED))
    stopped = _suspend(chromium.pid) if chromium.alive else []
    if not stopped:
        return None
    claimed = chromium.ended_by is None
    chromium.ended_by = chromium.ended_by or world
    strike.met()

    async def go_on() -> None:
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
        if claimed and chromium.alive:
            chromium.ended_by = None

    return go_on


def _suspend(pid: int) -> list[psutil.Process]:
    """The stopped processes. The outermost comes first: it starts no others then."""
    stopped: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        root.suspend()
        stopped.append(root)
        for process in root.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
                stopped.append(process)
    return stopped


__all__ = ["Sabotage"]
