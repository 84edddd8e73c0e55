"""Injects faults into a task's browser: its pages, its context, its processes (ports.FaultTarget)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import psutil
from playwright.async_api import BrowserContext, Frame, Page, Route
from playwright.async_api import Dialog as OpenDialog
from playwright.async_api import Error as PlaywrightError

from harness.browser.bounded import bounded
from harness.browser.context import BrowserPool, ContextHandle, Tab
from harness.browser.offline import go_offline, go_online
from harness.browser.process import Chromium
from harness.model.ports import Injection, Undo
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock, poll_until
from harness.spec import faults
from harness.spec.faults import Abort, AlertOnLoad, Dns, Late, Popup, SessionExpired, UnexpectedDialog

# Chooses the object that injects a fault into the browser.

T = TypeVar("T")
STRIKE_SECONDS = 2.0
"""Seconds for injecting or undoing a fault; a browser that is slower, or gone, is left as it is."""
_SHARED = (
    "fault browser_kill: other runs share the browser at --task-browser-endpoint and would lose it; "
    "use a `playwright run-server --unsafe`, which gives each run a browser of its own"
)


class Sabotage:
    """Injects faults into one session's browser (ports.FaultTarget). It may be called while an act is under way.

    If page or browser are gone or do not answer, nothing is injected and `Injection.met` is not called: the step itself
    finds out. A lasting fault is injected again into whatever replaces the page or context.
    """

    def __init__(self, handle: ContextHandle, pool: BrowserPool, clock: Clock) -> None:
        self._handle, self._pool, self._clock = handle, pool, clock
        self._told = EffectReports()
        self._numbers = count(1)
        self._standing: list[StandingFault] = []
        self._changing = asyncio.Lock()
        """A fault whose time ends while it is injected into a new context would otherwise stay there for ever."""
        handle.on_move = self._move

    async def strike(self, strike: Injection) -> Undo | None:
        """Inject the fault. Raises Failed if that is impossible."""
        tab, chromium = self._handle.tab, self._handle.chromium
        match strike.fault:
            case faults.ElementFault() | faults.AlertOnLoad() | faults.ClockMoved() as fault:
                return await self._install_standing(
                    InDocuments(strike, f"{fault.kind}-{next(self._numbers)}", self._told)
                )
            case faults.Offline():
                return await self._install_standing(OfflineContext(strike))
            case faults.Dns() | faults.Abort():
                return await self._install_standing(BrokenRequests(strike))
            case faults.UnexpectedDialog():
                return await _run_bounded(dialog(tab, strike))
            case faults.BrowserStop():
                return stop(chromium, strike, self._handle.world)
            case faults.BrowserKill():
                await self._kill(strike)
            case faults.DriverKill():
                self._kill_driver(strike)
            case _:
                await _run_bounded(self._at_once(tab, strike))
        return None

    async def _at_once(self, tab: Tab, strike: Injection) -> None:
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
                if any(await asyncio.gather(*(_clear_page(page) for page in tab.context.pages))):
                    strike.met()
            case fault:
                raise Failed(Failure("INTERNAL_ERROR", f"fault {fault.kind} is not a fault of the browser"))

    async def _install_standing(self, standing: StandingFault) -> Undo:
        self._standing.append(standing)
        try:
            async with self._changing:
                await _run_bounded(standing.install(self._handle.tab.context))
        except Failed:
            self._standing.remove(standing)
            raise

        async def heal() -> None:
            if standing in self._standing:  # an interrupted healing healed it already
                self._standing.remove(standing)
            async with self._changing:
                await _run_bounded(standing.remove(self._handle.tab.context))

        return heal

    async def _move(self, tab: Tab) -> None:
        """Inject the lasting faults into the new context of the session."""
        for standing in tuple(self._standing):
            async with self._changing:
                if standing in self._standing:  # its time has not ended meanwhile
                    with contextlib.suppress(Failed):  # a page that hangs could not check the selector
                        await _run_bounded(standing.install(tab.context))

    async def _kill(self, strike: Injection) -> None:
        chromium = self._handle.chromium
        if not chromium.process.killable:
            raise Failed(Failure("BROWSER_ENDPOINT_UNFIT", _SHARED))
        if chromium.alive:
            await chromium.crash(self._handle.world)
            await self._handle.kill()
            strike.met()

    def _kill_driver(self, strike: Injection) -> None:
        if self._handle.chromium.driver.alive:
            self._pool.kill_driver(self._handle.world)
            strike.met()


async def _run_bounded(work: Awaitable[T]) -> T | None:
    return await bounded(work, STRIKE_SECONDS, None)


# Faults of the browser's storage: cookies, localStorage, sessionStorage, IndexedDB.

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
    """Delete the cookies that a host receives, or all."""
    fault = strike.fault
    assert isinstance(fault, SessionExpired)
    cookies = [each for each in await context.cookies() if sent_to(each.get("domain", ""), fault.host)]
    for each in cookies:
        await context.clear_cookies(name=each.get("name"), domain=each.get("domain"), path=each.get("path"))
    if cookies:
        strike.met()


def sent_to(domain: str, host: str | None) -> bool:
    """Return whether a cookie of this domain is sent to the host; `.domain` includes its subdomains. Pure."""
    if host is None:
        return True
    bare, host = domain.lower().removeprefix("."), host.lower()
    return host == bare or (domain.startswith(".") and host.endswith(f".{bare}"))


async def _clear_page(page: Page) -> bool:
    """Empty the storage of every origin of a page and its frames; return whether there was anything."""
    had = await asyncio.gather(*(_clear_frame(frame) for frame in page.frames))
    control = await page.context.new_cdp_session(page)
    for origin in {_origin(frame.url) for frame in page.frames if frame.url.startswith("http")}:
        await control.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "indexeddb"})
    await control.detach()
    return any(had)


async def _clear_frame(frame: Frame) -> int:
    """Empty the storage of a frame; return the number of entries. A document without an origin has none."""
    try:
        had: int = await frame.evaluate(_CLEAR)
    except PlaywrightError:
        return 0
    return had


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


# Faults of a moment, in the current page. A page that no longer answers is left alone: it has its fault.

CRASH_SECONDS = 2.0
"""Seconds that a page may take to crash."""
_DIALOG_MS = 30
"""Milliseconds after the strike at which a dialog opens: the step has begun by then."""
_LOOP = "setTimeout(() => { for (;;) {} })"
_LEAVING = "addEventListener('beforeunload', e => e.preventDefault())"


async def crash(tab: Tab, strike: Injection, clock: Clock) -> None:
    """End the page's process. The command is never answered."""
    if tab.watch.frame.crashed or tab.page.is_closed():
        return
    command = asyncio.ensure_future(tab.control.send("Page.crash"))
    await poll_until(clock, lambda: tab.watch.frame.crashed or command.done(), 0.01, CRASH_SECONDS)
    command.cancel()
    await asyncio.gather(command, return_exceptions=True)
    if tab.watch.frame.crashed:
        strike.met()


async def loop(tab: Tab, strike: Injection) -> None:
    """Run an endless script in the page."""
    await _run(tab, _LOOP)
    strike.met()


async def popup(tab: Tab, strike: Injection) -> None:
    """Make the page open another one."""
    assert isinstance(strike.fault, Popup)
    answer = await _run(tab, f"!!window.open({json.dumps(strike.fault.url)})")
    if answer["result"].get("value"):
        strike.met()


async def dialog(tab: Tab, strike: Injection) -> Undo:
    """Make the page open a dialog; a `beforeunload` dialog opens when the page is left."""
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
    """Run a script as if a person had just touched the page: popups and questions on leaving require that."""
    answer = await tab.control.send("Runtime.evaluate", {"expression": script, "userGesture": True})
    if "exceptionDetails" in answer:
        raise PlaywrightError(str(answer["exceptionDetails"].get("text")))
    return answer


# Faults of processes: a browser that is stopped.

REFUSED = (
    "fault browser_stop: the browser runs at --task-browser-endpoint, and its process cannot be "
    "stopped from here; run the task with a browser on this machine, or use `page_crash` or "
    "`browser_kill`"
)


def stop(chromium: Chromium, strike: Injection, world: str) -> Undo | None:
    """Stop the whole process tree; it may be resumed later. Everything until then counts as this task's doing.

    Raises Failed for a browser on another machine.
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
    """Stop all processes and return them. The outermost is first, since it then starts no others."""
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


# Faults that last: on open pages, on later pages, and in a context that replaces this one. Each is injected into a
# context and undone again; both may meet a browser that does not answer, and raise Playwright's errors. The caller
# limits the time.

# The scripts that faults put into pages: texts of the files in `scripts/`, filled in for one fault.

_TOLD_BY = "__harness_met"
"""The function by which a script reports an effect; it exists only where a fault was injected."""
_SAME = {"late": "missing"}
_FOLDER = Path(__file__).parent / "scripts"


@cache
def _source(name: str) -> str:
    return (_FOLDER / f"{name}.js").read_text("utf-8")


def _injection_script(strike: Injection, number: str) -> str:
    """The script that injects a fault into a document, once; `number` identifies it in the task."""
    # Only `late` ends by itself: the others are undone from here.
    keys = {"selector", "message", "by"} | ({"seconds"} if isinstance(strike.fault, Late) else set())
    settings = strike.fault.model_dump(include=keys) | {"id": number, "seed": str(strike.random.random())}
    kind = strike.fault.kind
    watch, lay, make = (_source(name) for name in ("watch", "lay", _SAME.get(kind, kind)))
    given = f"{json.dumps(number)}, {json.dumps(settings)}"
    return f"(() => {{\nconst watch = ({watch});\n({lay})(({make}), {given});\n}})()"


_Met = Callable[[], None]


class StandingFault(Protocol):
    """One lasting fault."""

    async def install(self, context: BrowserContext) -> None: ...

    async def remove(self, context: BrowserContext) -> None: ...


class EffectReports:
    """Receives the reports of the faults' scripts. There is one for each session."""

    def __init__(self) -> None:
        self._mets: dict[str, _Met] = {}
        self._hearing: BrowserContext | None = None

    async def subscribe(self, context: BrowserContext, number: str, met: _Met) -> None:
        """Call `met` from now on for each document in which this fault has an effect."""
        self._mets[number] = met
        if self._hearing is not context:
            await context.expose_binding(_TOLD_BY, self._tell)
            self._hearing = context

    def forget(self, number: str) -> None:
        self._mets.pop(number, None)

    def _tell(self, _: Any, number: str) -> None:
        if met := self._mets.get(number):
            met()


class InDocuments:
    """A fault that is a script in every document of the context."""

    def __init__(self, strike: Injection, number: str, told: EffectReports) -> None:
        self._strike, self._number, self._told = strike, number, told
        self._script = _injection_script(strike, number)
        self._installed = AsyncExitStack()

    async def install(self, context: BrowserContext) -> None:
        """Raises Failed for an invalid selector."""
        await self._told.subscribe(context, self._number, self._strike.met)
        self._installed = AsyncExitStack()  # the scripts in the other context ended with it
        await self._installed.enter_async_context(await context.add_init_script(self._script))
        if isinstance(self._strike.fault, AlertOnLoad):
            return  # the pages that exist have loaded
        problems = await _in_frames(context, self._script)
        if any("is not a valid selector" in problem for problem in problems):
            await self.remove(context)
            fault = self._strike.fault
            message = f"fault {fault.kind}: `selector` is {fault.target!r}, which is not a CSS selector"
            raise Failed(Failure("INVALID_INPUT", message))

    async def remove(self, context: BrowserContext) -> None:
        self._told.forget(self._number)
        await self._installed.aclose()
        undo = f"({_source('lift')})({json.dumps(self._number)})"
        if await _in_frames(context, undo):
            await _in_frames(context, undo)  # a frame was just being replaced, and its new document may have the fault


async def _in_frames(context: BrowserContext, script: str) -> list[str]:
    """Run a script in every frame; returns the errors. A frame that is just being replaced is skipped."""
    frames = [frame for page in context.pages for frame in page.frames]
    found = await asyncio.gather(*(_problem(frame, script) for frame in frames))
    return [problem for problem in found if problem]


async def _problem(frame: Frame, script: str) -> str:
    try:
        await frame.evaluate(script)
    except PlaywrightError as error:
        return error.message
    return ""


_FAULT = "fault"
"""Why a context is offline."""


class OfflineContext:
    """A context without a network."""

    def __init__(self, strike: Injection) -> None:
        self._met: _Met | None = strike.met

    async def install(self, context: BrowserContext) -> None:
        await go_offline(context, _FAULT)
        if self._met:
            self._met()
        self._met = None  # it continues in the next context

    async def remove(self, context: BrowserContext) -> None:
        await go_online(context, _FAULT)


class BrokenRequests:
    """Requests that end with a network error in the browser. The fault's own pattern decides (`Injection.takes`).

    It does not see targets of redirects, WebSockets, and requests that no page sends (`api`).
    """

    def __init__(self, strike: Injection) -> None:
        fault = strike.fault
        assert isinstance(fault, Dns | Abort)
        self._takes = strike.takes
        self._error = "namenotresolved" if isinstance(fault, Dns) else fault.error.replace("_", "")

    async def install(self, context: BrowserContext) -> None:
        await context.route("**/*", self._judge)

    async def remove(self, context: BrowserContext) -> None:
        await context.unroute("**/*", self._judge)

    async def _judge(self, route: Route) -> None:
        try:
            if self._takes((route.request.url,)):
                await route.abort(self._error)
            else:
                await route.fallback()
        except PlaywrightError:
            return  # the page closed while its request was handled
