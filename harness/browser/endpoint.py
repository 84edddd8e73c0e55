"""One browser endpoint: a Playwright server that gives a browser to who connects (docs/decisions/010)."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, CDPSession
from playwright.async_api import Error as PlaywrightError

from harness.browser.arguments import BASE, SEALED, host_arguments, unreachable_arguments
from harness.browser.chromium import Chromium
from harness.browser.connection import LEAVE_SECONDS, Connection
from harness.browser.driver import Driver
from harness.browser.endpoint_failure import down, no_browser_there, not_taken, refusal
from harness.browser.executable import VARIABLE, find
from harness.browser.launch_failure import sandboxing_failed
from harness.browser.loopback import sees_us
from harness.browser.neighbour import serves_here
from harness.browser.sandbox import no_sandbox_reason
from harness.browser.tls import TlsFront
from harness.model.settings import BrowserSettings
from harness.recovery.failure import Failed

DIAL_SECONDS = 3.0
CONNECT_SECONDS = 15.0
"""For the server to launch a browser and for that to answer."""
MARK = "--harness-run"
"""A flag that Chromium does not know: a browser that has it took all our flags, and is ours alone."""
PORTS = {"ws": 80, "wss": 443}


class Endpoint:
    """Where browsers are to be had. What was learned of its server is remembered."""

    def __init__(self, url: str, name: str, settings: BrowserSettings) -> None:
        """`name` is how it is shown: the URL may hold a secret."""
        self.name = name
        self.lock = asyncio.Lock()
        self.described = ""
        self.far = not on_loopback(url)
        """It cannot reach the hosts of this machine."""
        self._url = url
        self._settings = settings
        self._named = settings.executable or os.environ.get(VARIABLE)
        self._tries: list[str | None] = []
        """Executables, the best first; None: the server's own. Those that are not there are taken away."""
        self._sandbox = not (no_sandbox_reason() and on_loopback(url))

    async def start(self, driver: Driver, front: TlsFront, *, sealed: bool) -> Chromium:
        """A browser of its server; a `sealed` one sends no UDP, if the server lets us launch it.

        Raises Failed: BROWSER_ENDPOINT_DOWN or BROWSER_ENDPOINT_UNFIT.
        """
        await self._dial()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._connected(driver, front, sealed=sealed)
        except (PlaywrightError, TimeoutError) as error:
            raise Failed(refusal(self.name, error)) from error

    async def _dial(self) -> None:
        """Whether anything listens there: of a machine that is gone it is soon known."""
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                _, writer = await asyncio.open_connection(urlsplit(self._url).hostname, port_of(self._url))
        except TimeoutError as error:
            raise Failed(down(self.name, f"no connection in {DIAL_SECONDS:g} s", error)) from error
        except OSError as error:
            raise Failed(down(self.name, f"nothing answers there ({reason(error)})", error)) from error
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def _connected(self, driver: Driver, front: TlsFront, *, sealed: bool) -> Chromium:
        mark = f"{MARK}={secrets.token_hex(8)}"
        browser = await self._launched(driver, front, [*(SEALED if sealed else ()), mark])
        try:
            control = await browser.new_browser_cdp_session()
            line = str((await control.send("SystemInfo.getInfo"))["commandLine"])
            if lacking := [] if mark in line else list(self._lacking(line, front)):
                raise Failed(not_taken(self.name, lacking))
            if front.hosts and not self.far and not await sees_us(browser):
                self.far = True  # it is behind a port that another machine, or a container, has here
                await browser.close()
                return await self._connected(driver, front, sealed=sealed)
            return await self._chromium(browser, control, front, own=mark in line)
        except BaseException:
            with suppress(PlaywrightError, TimeoutError):  # a server that hangs must not hold up what ended this
                async with asyncio.timeout(LEAVE_SECONDS):
                    await browser.close()
            raise

    async def _chromium(self, browser: Browser, control: CDPSession, front: TlsFront, *, own: bool) -> Chromium:
        connection = Connection(browser, control, own=own)
        chromium = await Chromium.of(browser, control, connection, front, None)
        if self.far:
            chromium.unreachable = frozenset(front.hosts)
        shared = "" if own else ", shared with others"
        self.described = f"Chromium {browser.version} (at {self.name}{shared})"
        return chromium

    async def _launched(self, driver: Driver, front: TlsFront, flags: Sequence[str]) -> Browser:
        """Tried with a sandbox, and a browser that it should have; with none, and another, when it has not."""
        self._tries = self._tries or await self._executables(driver)
        while True:
            try:
                return await driver.playwright.chromium.connect(
                    self._url,
                    headers={
                        "x-playwright-browser": "chromium",
                        "x-playwright-launch-options": json.dumps(self._options(front, flags)),
                    },
                    slow_mo=self._settings.slowmo,
                    timeout=CONNECT_SECONDS * 1000,
                )
            except PlaywrightError as error:
                if not self._mended(error):
                    raise

    async def _executables(self, driver: Driver) -> list[str | None]:
        """A server has its own browser first, unless it shares this machine with us.

        Playwright leaves two folders behind for each launch of a browser that is not there, so the better guess is the
        first one.
        """
        if self._named or self._settings.channel or not on_loopback(self._url):
            return [self._named]
        with suppress(Failed):
            here = str(find(self._settings, Path(driver.playwright.chromium.executable_path), os.environ))
            ours_first = await asyncio.to_thread(serves_here, port_of(self._url))
            return [here, None] if ours_first else [None, here]
        return [None]

    def _mended(self, error: PlaywrightError) -> bool:
        """Whether there is another way to launch, not tried yet."""
        if self._sandbox and sandboxing_failed(error):
            self._sandbox = False
            return True
        if len(self._tries) == 1 or not no_browser_there(error):
            return False
        del self._tries[0]
        return True

    def _options(self, front: TlsFront, flags: Sequence[str]) -> Mapping[str, Any]:
        """For the server's own `launch`."""
        here = host_arguments(front.hosts, front.ports, front.spki)
        hosts = unreachable_arguments(front.hosts) if self.far else here
        options = {
            "args": [*BASE, *self._settings.args, *hosts, *flags],
            "headless": not self._settings.headed,
            "chromiumSandbox": self._sandbox,
            "channel": self._settings.channel,
            "executablePath": self._tries[0],
            "timeout": CONNECT_SECONDS * 1000,
        }
        return {name: value for name, value in options.items() if value is not None}

    def _lacking(self, line: str, front: TlsFront) -> Iterator[str]:
        """What this run needs, and a browser that was launched by other rules has not."""
        if front.hosts:
            yield "the hosts of [tool.harness.services] (--host-resolver-rules)"
        yield from (f"{flag} (`args` of [tool.harness.browser])" for flag in self._settings.args if flag not in line)
        if self._settings.headed and "--headless" in line:
            yield "a window (--headed)"
        if self._named:
            yield "--task-browser-executable"
        if self._settings.channel:
            yield "--browser-channel"


def reason(error: OSError) -> str:
    """In words. The numbers of name lookups are none of the system's, and positive on macOS."""
    number = error.errno or 0
    ours = number > 0 and not isinstance(error, socket.gaierror)
    return os.strerror(number) if ours else error.strerror or str(error)


def port_of(url: str) -> int:
    """Also where the URL leaves it out."""
    parts = urlsplit(url)
    return parts.port or PORTS[parts.scheme]


def on_loopback(url: str) -> bool:
    """Whether the host of a URL is this machine by its address."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
