"""Starts browsers, one for each map of hosts, and opens sessions."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

from playwright.async_api import Browser, Playwright, StorageState
from playwright.async_api import Error as PlaywrightError

from harness.browser.context import Tab
from harness.browser.driver import Driver, DriverLostError
from harness.browser.endpoints import Endpoints
from harness.browser.executable import (
    BASE,
    BrowserKind,
    check_display,
    find,
    first_line,
    host_arguments,
    launch_error_text,
    no_sandbox_reason,
    sandboxing_failed,
)
from harness.browser.net_log import NetLog
from harness.browser.process import Chromium, LocalProcess
from harness.browser.request import SessionRequest
from harness.browser.session import PlaywrightSession
from harness.browser.storage import put_databases, without_databases
from harness.browser.tls import ThrowAwayKey, TlsFront
from harness.model.browser_settings import BrowserSettings
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock
from harness.resilience.events import Emit, discard
from harness.values import replace

# Local browsers.

LAUNCH_SECONDS = 30.0


class Local:
    """Starts browsers as processes of this machine."""

    name = ""

    def __init__(self, settings: BrowserSettings, temp: Path, guard: Callable[[int], None]) -> None:
        """`guard` is called with the pid of each browser."""
        self.lock = asyncio.Lock()
        self.described = ""
        self._settings, self._temp, self._guard = settings, temp, guard
        self._traces = temp / "traces"
        self._guarded: set[int] = set()

    async def start(self, driver: Driver, front: TlsFront, kind: BrowserKind) -> Chromium:
        """Start a browser whose hosts are those of `front`. Raises Failed."""
        log = NetLog.open(self._temp, self._settings.args)
        hosts = host_arguments(front.hosts, front.ports, front.spki)
        arguments = kind.arguments([*BASE, *self._settings.args, *([log.argument] if log else ()), *hosts])
        try:
            return await self._start(driver, arguments, front, log)
        except BaseException:
            if log:
                log.close()
            raise

    async def _start(self, driver: Driver, arguments: list[str], front: TlsFront, log: NetLog | None) -> Chromium:
        """Start the executable, without its sandbox where that cannot work. Raises Failed."""
        own = Path(driver.playwright.chromium.executable_path)
        check_display(self._settings.headed, os.environ, sys.platform)
        executable = None if self._settings.channel else find(self._settings, own, os.environ)
        unsandboxed = no_sandbox_reason()
        try:
            browser = await self._launch(driver, executable, arguments, sandbox=unsandboxed is None)
        except PlaywrightError as error:
            if unsandboxed or not sandboxing_failed(error):
                raise self._not_started(executable, error) from error
            unsandboxed = "it cannot work here"
            try:
                browser = await self._launch(driver, executable, arguments, sandbox=False)
            except PlaywrightError as again:
                raise self._not_started(executable, again) from again
        try:
            async with asyncio.timeout(LAUNCH_SECONDS):  # the driver says that it has started before it has answered
                control = await browser.new_browser_cdp_session()
                process = await LocalProcess.of(control)
                chromium = await Chromium.of(driver, browser, control, process, front, self._traces, log)
        except (PlaywrightError, TimeoutError) as error:
            driver.kill_browsers(but=self._guarded)
            silent = f"it was started and has not answered for {LAUNCH_SECONDS:g} s"
            why = error if isinstance(error, PlaywrightError) else PlaywrightError(silent)
            raise self._not_started(executable, why) from error
        for pid in process.pids:
            self._guarded.add(pid)
            self._guard(pid)
        sandbox = f"sandbox off ({unsandboxed})" if unsandboxed else "sandbox on"
        self.described = f"Chromium {browser.version} ({executable or self._settings.channel}), {sandbox}"
        return chromium

    async def _launch(self, driver: Driver, executable: Path | None, arguments: list[str], *, sandbox: bool) -> Browser:
        """Start the executable. Playwright adds --no-sandbox unless it is told to keep the sandbox."""
        return await driver.playwright.chromium.launch(
            executable_path=executable,
            channel=self._settings.channel,
            headless=not self._settings.headed,
            slow_mo=self._settings.slowmo,
            args=arguments,
            chromium_sandbox=sandbox,
            timeout=LAUNCH_SECONDS * 1000,
            env={**os.environ, "TMPDIR": str(self._temp)},
            traces_dir=self._traces,
            handle_sigint=False,
        )

    def _not_started(self, executable: Path | None, error: PlaywrightError) -> Failed:
        message = f"the browser does not start: {executable or self._settings.channel}: {launch_error_text(error)}"
        return Failed(Failure("BROWSER_LAUNCH_FAILED", message, details={"log": error.message[-2000:]}))


_OPEN_SECONDS = 10.0
_NOWHERE = "http://255.255.255.255:9"
"""A proxy that refuses on every machine: no connection can be made to the broadcast address."""

_Hosts = frozenset[tuple[str, int]]
"""Host name and port on 127.0.0.1."""


class LaunchPlace(Protocol):
    """A place where browsers are started."""

    name: str
    lock: asyncio.Lock
    """Held while one is started."""
    described: str
    """The browser started last: name, version, executable and sandbox."""

    async def start(self, driver: Driver, front: TlsFront, kind: BrowserKind) -> Chromium:
        """Start a browser whose hosts are those of `front`. Raises Failed."""


class Browsers:
    """The browsers of a run. Those with the run's own map of hosts stay; others end with their sessions."""

    def __init__(
        self,
        settings: BrowserSettings,
        clock: Clock,
        endpoints: Endpoints | None = None,
        *,
        temp: Path,
        guard: Callable[[int], None] = lambda _: None,
        hosts: Sequence[Mapping[str, int]] = (),
        tell: Emit = discard,
    ) -> None:
        """`guard` is called with the pid of each program that is started, `tell` with events about pages.

        `hosts` are the run's own maps of hosts: their browsers stay when they have no session; without any, the first
        map that is requested is the run's own. With `endpoints` the browsers are theirs, and none is started here.
        """
        self._local, self._endpoints = Local(settings, temp, guard), endpoints
        self._clock, self._temp, self._guard, self.tell = clock, temp, guard, tell
        self.driver: Driver | None = None
        """Playwright's driver process; the first browser starts it."""
        self._running: dict[tuple[_Hosts, BrowserKind, str], Chromium] = {}
        """Running browsers by hosts, kind, and the name of the place."""
        self._own_hosts: tuple[Mapping[str, int], ...] = tuple(hosts)
        self._driver_lock = asyncio.Lock()
        self._closed_port = socket.socket()
        self._closed_port.bind(("127.0.0.1", 0))
        self.on_tab: Callable[[Tab], Awaitable[None]] | None = None
        """Called with each new tab, also one that replaces another, before anything is opened in it."""
        self.described = ""
        """Name, version, executable and sandbox, after the first launch."""

    @property
    def refusing_proxy(self) -> str:
        """The address of a port that is ours and never listens: requests sent there go nowhere."""
        return f"http://127.0.0.1:{self._closed_port.getsockname()[1]}"

    @cached_property
    def _key(self) -> ThrowAwayKey:
        """The key of all https connections that the browsers make to mapped hosts."""
        return ThrowAwayKey.new()

    @property
    def playwright(self) -> Playwright:
        """The started Playwright; sessions exist only after the start."""
        assert self.driver is not None
        return self.driver.playwright

    async def prepare(self, request: SessionRequest | None) -> None:
        """Start the driver, and the browser for a request that is expected. The session itself reports what fails."""
        if self._endpoints is not None:  # a browser elsewhere is started when it is needed
            request = None
        with contextlib.suppress(Failed, TimeoutError, OSError):
            await (self._live_driver() if request is None else self._chromium(request))

    async def open_session(self, request: SessionRequest) -> PlaywrightSession:
        """Open a new context with its page. Raises Failed."""
        storage = request.storage
        tab, chromium = await self.open_tab(request, without_databases(storage) if storage else None)
        session = PlaywrightSession(self, self._clock, request, chromium, tab)
        if storage is not None:
            await self._put_databases(session, storage, request.storage_seconds)
        return session

    @staticmethod
    async def _put_databases(session: PlaywrightSession, storage: StorageState, seconds: float) -> None:
        """Raises Failed if there is no time for it; the first step notices a page that is gone."""
        with contextlib.suppress(PlaywrightError):
            try:
                async with asyncio.timeout(seconds):
                    await put_databases(session.tab.context, storage)
            except TimeoutError as error:
                await session.close()
                message = f"IndexedDB could not be put into the browser in {seconds:g} s"
                raise Failed(Failure("STORAGE_UNREADABLE", message, cause=error)) from error

    async def open_tab(self, request: SessionRequest, state: StorageState | None) -> tuple[Tab, Chromium]:
        """Open a context in the right browser; a browser that does not give one is killed and restarted, once.

        The same holds for a driver that is lost meanwhile.
        """
        try:
            return await self._try_tab(request, state)
        except (PlaywrightError, TimeoutError):
            pass
        except Failed:
            if self.driver is None or await self.driver.answers():
                raise
        try:
            return await self._try_tab(request, state)
        except (PlaywrightError, TimeoutError) as error:
            raise Failed(self._no_page(error)) from error

    async def _try_tab(self, request: SessionRequest, state: StorageState | None) -> tuple[Tab, Chromium]:
        chromium = await self._chromium(request)
        if request.on_request_failed is not None:
            request = replace(request, on_request_failed=chromium.front.naming(request.on_request_failed))
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                proxy = self.refusing_proxy if chromium.pid is not None else _NOWHERE
                emulated = request.emulated(self.playwright)
                tab = await Tab.open(chromium, request, self._clock, proxy, emulated, state, self.on_tab)
        except (PlaywrightError, TimeoutError):
            chromium.kill(request.world)
            self._forget(chromium)
            raise
        chromium.sessions += 1
        return tab, chromium

    def _no_page(self, error: Exception) -> Failure:
        if self.driver is not None and (loss := self.driver.loss):
            return loss.failure()
        code = "BROWSER_UNRESPONSIVE" if isinstance(error, TimeoutError) else "BROWSER_CRASHED"
        return Failure(code, f"the browser opens no page: {first_line(error)}", cause=error)

    async def release(self, chromium: Chromium) -> None:
        """A session is over: an idle browser with another map of hosts ends."""
        chromium.sessions -= 1
        own = [frozenset(each.items()) for each in self._own_hosts]
        main = any(hosts in own and at is chromium for (hosts, _, _), at in self._running.items())
        if chromium.sessions <= 0 and not main:
            self._forget(chromium)
            await chromium.close()

    def _forget(self, chromium: Chromium) -> None:
        """Give the browser to no further session; a killed process still runs for a moment."""
        self._running = {key: known for key, known in self._running.items() if known is not chromium}

    def kill_driver(self, by: str) -> None:
        """Kill the driver and every browser with it, for the sake of one task's world: the other tasks are innocent."""
        for chromium in self._running.values():
            chromium.ended_by = chromium.ended_by or by
        if self.driver is not None:
            self.driver.kill()

    async def close(self) -> None:
        """End every browser and Playwright itself. Bounded."""
        await asyncio.gather(*(chromium.close() for chromium in self._running.values()))
        self._running.clear()
        if self.driver is not None:
            await self.driver.stop()
            self.driver = None
        self._closed_port.close()

    async def _chromium(self, wanted: SessionRequest) -> Chromium:
        if self._endpoints is None:
            if there := self._running_browser(self._local, wanted):
                return there
            async with self._local.lock:
                there = self._running_browser(self._local, wanted)  # another task may have started it meanwhile
                return there or await self._start_browser(self._local, wanted)
        return await self._endpoints.browser(
            bool(wanted.hosts),
            lambda name: sum(chromium.sessions for (_, _, at), chromium in self._running.items() if at == name),
            lambda place: self._running_browser(place, wanted),
            lambda place: self._start_browser(place, wanted),
        )

    def _running_browser(self, place: LaunchPlace, wanted: SessionRequest) -> Chromium | None:
        running = self._running.get((frozenset(wanted.hosts.items()), wanted.kind, place.name))
        usable = running is not None and running.driver.alive and running.alive and not running.process.stopped
        return running if usable else None

    async def _start_browser(self, place: LaunchPlace, wanted: SessionRequest) -> Chromium:
        """Start a browser; the caller holds the place's lock. Raises Failed."""
        hosts = frozenset(wanted.hosts.items())
        if gone := self._running.get((hosts, wanted.kind, place.name)):
            gone.kill()
        launched = self._running[hosts, wanted.kind, place.name] = await self._launch(place, wanted)
        self._own_hosts = self._own_hosts or (dict(hosts),)
        self.described = place.described
        return launched

    async def _live_driver(self) -> Driver:
        """The driver; one that does not answer is killed and replaced. Raises Failed."""
        async with self._driver_lock:
            if self.driver is not None and not await self.driver.answers():
                self._end_lost(self.driver)
                await self.driver.stop()
                self.driver = None
            if self.driver is None:
                self.driver = await self._new_driver()
                if self.driver.pid is not None:
                    self._guard(self.driver.pid)
            return self.driver

    async def _new_driver(self) -> Driver:
        """Start a driver; one that does not answer is killed and started again, once."""
        try:
            return await Driver.start(self._temp, self._end_lost)
        except DriverLostError:
            pass
        try:
            return await Driver.start(self._temp, self._end_lost)
        except DriverLostError as lost:
            raise Failed(lost.loss.failure()) from lost

    def _end_lost(self, driver: Driver) -> None:
        """Kill a lost driver and its browsers: every call that waits for it ends then."""
        for chromium in self._running.values():
            if chromium.driver is driver:
                chromium.kill()  # it ends with the driver, but its stopped pages do not
        driver.kill()

    async def _launch(self, place: LaunchPlace, wanted: SessionRequest) -> Chromium:
        # The first key needs imports of some milliseconds: they run while the driver starts.
        making = asyncio.to_thread(lambda: self._key if wanted.hosts else None)
        driver, key = await asyncio.gather(self._live_driver(), making)
        front = TlsFront(wanted.hosts, key, self._temp, wanted.tls_problem)
        try:
            return await place.start(driver, front, wanted.kind)
        except BaseException:
            await front.close()
            raise
