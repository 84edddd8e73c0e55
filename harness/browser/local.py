"""Browsers that are started here."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

from playwright.async_api import Browser
from playwright.async_api import Error as PlaywrightError

from harness.browser.arguments import BASE, SEALED, host_arguments
from harness.browser.chromium import Chromium, LocalProcess
from harness.browser.driver import Driver
from harness.browser.executable import find
from harness.browser.launch_failure import check_display, sandboxing_failed, why
from harness.browser.sandbox import no_sandbox_reason
from harness.browser.tls import TlsFront
from harness.model.settings import BrowserSettings
from harness.recovery.failure import Failed, Failure

LAUNCH_SECONDS = 30.0


class Local:
    """Where browsers are started as processes of this machine."""

    name = ""

    def __init__(self, settings: BrowserSettings, temp: Path, guard: Callable[[int], None]) -> None:
        """`guard` is told of each browser's process."""
        self.lock = asyncio.Lock()
        self.described = ""
        self._settings = settings
        self._temp = temp
        self._traces = temp / "traces"
        self._guard = guard

    async def start(self, driver: Driver, front: TlsFront, *, sealed: bool) -> Chromium:
        """A browser whose hosts are those of `front`; a `sealed` one sends no UDP. Raises Failed."""
        own = Path(driver.playwright.chromium.executable_path)
        check_display(self._settings.headed, os.environ, sys.platform)
        executable = None if self._settings.channel else find(self._settings, own, os.environ)
        unsandboxed = no_sandbox_reason()
        try:
            browser = await self._start(driver, executable, front, sandbox=unsandboxed is None, sealed=sealed)
        except PlaywrightError as error:
            if unsandboxed or not sandboxing_failed(error):
                raise self._not_started(executable, error) from error
            unsandboxed = "it cannot work here"
            try:
                browser = await self._start(driver, executable, front, sandbox=False, sealed=sealed)
            except PlaywrightError as again:
                raise self._not_started(executable, again) from again
        control = await browser.new_browser_cdp_session()
        process = await LocalProcess.of(control)
        for pid in process.pids:
            self._guard(pid)
        sandbox = f"sandbox off ({unsandboxed})" if unsandboxed else "sandbox on"
        self.described = f"Chromium {browser.version} ({executable or self._settings.channel}), {sandbox}"
        return await Chromium.of(browser, control, process, front, self._traces)

    async def _start(
        self, driver: Driver, executable: Path | None, front: TlsFront, *, sandbox: bool, sealed: bool
    ) -> Browser:
        """Playwright itself adds --no-sandbox unless it is told to keep the sandbox."""
        hosts = host_arguments(front.hosts, front.ports, front.spki)
        return await driver.playwright.chromium.launch(
            executable_path=executable,
            channel=self._settings.channel,
            headless=not self._settings.headed,
            slow_mo=self._settings.slowmo,
            args=[*BASE, *(SEALED if sealed else ()), *self._settings.args, *hosts],
            chromium_sandbox=sandbox,
            timeout=LAUNCH_SECONDS * 1000,
            env={**os.environ, "TMPDIR": str(self._temp)},
            traces_dir=self._traces,
            handle_sigint=False,
        )

    def _not_started(self, executable: Path | None, error: PlaywrightError) -> Failed:
        message = f"the browser does not start: {executable or self._settings.channel}: {why(error)}"
        return Failed(Failure("BROWSER_LAUNCH_FAILED", message, details={"log": error.message[-2000:]}))
