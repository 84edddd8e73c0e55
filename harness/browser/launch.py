"""Starts browsers, one per map of hosts, and hands out sessions."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from playwright.async_api import Browser, Playwright, StorageState
from playwright.async_api import Error as PlaywrightError

from harness.browser.certificate import ThrowAwayKey
from harness.browser.chromium import Chromium, stopped
from harness.browser.domains import resolver_rules
from harness.browser.driver import Driver
from harness.browser.executable import find
from harness.browser.launch_failure import check_display, first_line, sandboxing_failed, why
from harness.browser.request import SessionRequest
from harness.browser.sandbox import no_sandbox_reason
from harness.browser.session import PlaywrightSession
from harness.browser.tab import Tab
from harness.browser.tls import TlsFront
from harness.failure import Failed, Failure
from harness.resilience import Clock
from harness.settings import BrowserSettings

LAUNCH_SECONDS = 30.0
OPEN_SECONDS = 10.0
_ARGS = (
    "--disable-gpu",
    "--disable-quic",
    "--disable-auto-reload",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


Hosts = frozenset[tuple[str, int]]
"""Host name and port on 127.0.0.1."""


class Browsers:
    """The browsers of a run. The first map of hosts is the run's own; one of another map ends with its sessions."""

    def __init__(
        self,
        settings: BrowserSettings,
        clock: Clock,
        *,
        temp: Path,
        guard: Callable[[int], None] = lambda _: None,
        hosts: Mapping[str, int] | None = None,
    ) -> None:
        """`guard` is told of each program that is started, by its pid.

        `hosts` are the run's own: their browser stays when no session lives in it; without them the first ones that are
        asked for.
        """
        self._settings = settings
        self._clock = clock
        self._temp = temp
        self._guard = guard
        self._traces = temp / "traces"
        self._driver: Driver | None = None
        self._running: dict[Hosts, Chromium] = {}
        self._main_hosts: Hosts | None = None if hosts is None else frozenset(hosts.items())
        self._lock = asyncio.Lock()
        self._closed_port = socket.socket()
        self._closed_port.bind(("127.0.0.1", 0))
        self.described = ""
        """Name, version, executable and sandbox, after the first launch."""

    @property
    def refusing_proxy(self) -> str:
        """A port that is ours and never listens: what is sent there goes nowhere."""
        return f"http://127.0.0.1:{self._closed_port.getsockname()[1]}"

    @cached_property
    def _key(self) -> ThrowAwayKey:
        """Of all https that the browsers see from their hosts."""
        return ThrowAwayKey.new()

    @property
    def playwright(self) -> Playwright:
        """The started Playwright; sessions exist only after the start."""
        assert self._driver is not None
        return self._driver.playwright

    @property
    def driver_alive(self) -> bool:
        return self._driver is not None and self._driver.alive

    async def open_session(self, request: SessionRequest) -> PlaywrightSession:
        """A fresh context with its page. Raises Failed."""
        tab, chromium = await self.open_tab(request, None)
        return PlaywrightSession(self, self._clock, request, chromium, tab)

    async def open_tab(self, request: SessionRequest, state: StorageState | None) -> tuple[Tab, Chromium]:
        """A context in the right browser; a browser that does not give one is killed and started again, once."""
        try:
            return await self._try_tab(request, state)
        except (PlaywrightError, TimeoutError):
            pass
        try:
            return await self._try_tab(request, state)
        except (PlaywrightError, TimeoutError) as error:
            raise Failed(self._refused(error)) from error

    async def _try_tab(self, request: SessionRequest, state: StorageState | None) -> tuple[Tab, Chromium]:
        chromium = await self._chromium(request)
        viewport = self._settings.viewport
        if request.on_request_failed is not None:
            request = replace(request, on_request_failed=chromium.front.naming(request.on_request_failed))
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                tab = await Tab.open(chromium, request, self._clock, self.refusing_proxy, viewport, state)
        except (PlaywrightError, TimeoutError):
            chromium.kill(request.world)
            self._forget(chromium)
            raise
        chromium.sessions += 1
        return tab, chromium

    @staticmethod
    def _refused(error: Exception) -> Failure:
        code = "BROWSER_UNRESPONSIVE" if isinstance(error, TimeoutError) else "BROWSER_CRASHED"
        return Failure(code, f"the browser gives no page: {first_line(error)}", cause=error)

    async def release(self, chromium: Chromium) -> None:
        """A session is over."""
        chromium.sessions -= 1
        main = self._main_hosts is not None and self._running.get(self._main_hosts) is chromium
        if chromium.sessions <= 0 and not main:
            self._forget(chromium)
            await chromium.close()

    def _forget(self, chromium: Chromium) -> None:
        """Give it to no further session; a killed process still runs for a moment."""
        self._running = {hosts: known for hosts, known in self._running.items() if known is not chromium}

    def kill_driver(self, by: str) -> None:
        """End the driver, and every browser with it, for the sake of a task's world: the others are innocent."""
        for chromium in self._running.values():
            chromium.ended_by = chromium.ended_by or by
        if self._driver is not None:
            self._driver.kill()

    async def close(self) -> None:
        """End every browser and Playwright itself. Bounded."""
        await asyncio.gather(*(chromium.close() for chromium in self._running.values()))
        self._running.clear()
        if self._driver is not None:
            await self._driver.stop()
            self._driver = None
        self._closed_port.close()

    async def _chromium(self, wanted: SessionRequest) -> Chromium:
        hosts = frozenset(wanted.hosts.items())
        async with self._lock:
            running = self._running.get(hosts)
            if self.driver_alive and running is not None and running.alive and not stopped(running.pid):
                return running
            if running is not None:
                running.kill()
            launched = await self._launch(wanted)
            self._running[hosts] = launched
            if self._main_hosts is None:
                self._main_hosts = hosts
            return launched

    async def _live_driver(self) -> Driver:
        if self._driver is not None and not await self._driver.answers():
            for chromium in self._running.values():
                chromium.kill()  # they end with the driver by themselves, their stopped pages do not
            self._driver.kill()
            await self._driver.stop()
            self._driver = None
        if self._driver is None:
            self._driver = await Driver.start(self._temp)
            if self._driver.pid is not None:
                self._guard(self._driver.pid)
        return self._driver

    async def _launch(self, wanted: SessionRequest) -> Chromium:
        # The first key costs some milliseconds of imports: they pass while the driver starts.
        driver, key = await asyncio.gather(self._live_driver(), asyncio.to_thread(lambda: self._key))
        own = Path(driver.playwright.chromium.executable_path)
        executable = None if self._settings.channel else find(self._settings, own, os.environ)
        check_display(self._settings.headed, os.environ, sys.platform)
        front = TlsFront(wanted.hosts, key, self._temp, wanted.tls_problem)
        try:
            return await self._behind(front, driver, executable)
        except BaseException:
            await front.close()
            raise

    async def _behind(self, front: TlsFront, driver: Driver, executable: Path | None) -> Chromium:
        """A browser whose hosts are those of `front`."""
        unsandboxed = no_sandbox_reason()
        try:
            browser = await self._start(driver, executable, front, sandbox=unsandboxed is None)
        except PlaywrightError as error:
            if unsandboxed or not sandboxing_failed(error):
                raise self._not_started(executable, error) from error
            unsandboxed = "it cannot work here"
            try:
                browser = await self._start(driver, executable, front, sandbox=False)
            except PlaywrightError as again:
                raise self._not_started(executable, again) from again
        chromium = await Chromium.of(browser, front, self._traces)
        for pid in {chromium.pid, chromium.group or chromium.pid}:
            self._guard(pid)
        sandbox = f"sandbox off ({unsandboxed})" if unsandboxed else "sandbox on"
        self.described = f"Chromium {browser.version} ({executable or self._settings.channel}), {sandbox}"
        return chromium

    async def _start(self, driver: Driver, executable: Path | None, front: TlsFront, *, sandbox: bool) -> Browser:
        """Playwright itself adds --no-sandbox unless it is told to keep the sandbox."""
        return await driver.playwright.chromium.launch(
            executable_path=executable,
            channel=self._settings.channel,
            headless=not self._settings.headed,
            slow_mo=self._settings.slowmo,
            args=[*_ARGS, *self._settings.args, *_host_args(front)],
            chromium_sandbox=sandbox,
            timeout=LAUNCH_SECONDS * 1000,
            env={**os.environ, "TMPDIR": str(self._temp)},
            traces_dir=self._traces,
            handle_sigint=False,
        )

    def _not_started(self, executable: Path | None, error: PlaywrightError) -> Failed:
        message = f"the browser does not start: {executable or self._settings.channel}: {why(error)}"
        return Failed(Failure("BROWSER_LAUNCH_FAILED", message, details={"log": error.message[-2000:]}))


def _host_args(front: TlsFront) -> list[str]:
    """Where the hosts are, and whose certificates to take for theirs."""
    if not front.hosts:
        return []
    rules = resolver_rules(front.hosts, front.ports)
    return [f"--host-resolver-rules={rules}", f"--ignore-certificate-errors-spki-list={front.spki}"]
