"""A browser behind a connection: what stands for its process here."""

from __future__ import annotations

import asyncio

from playwright.async_api import Browser, CDPSession
from playwright.async_api import Error as PlaywrightError

LEAVE_SECONDS = 2.0
CRASH_SECONDS = 1.0


class Connection:
    """The connection to a browser elsewhere (chromium.Process). No process is ever signalled.

    A run-server ends the browser of who leaves; that of a launch-server stays, without our contexts.
    """

    pid = None
    stopped = False

    def __init__(self, browser: Browser, control: CDPSession, *, own: bool) -> None:
        """`own`: the browser was launched for us alone."""
        self._browser = browser
        self._control = control
        self._leaving: asyncio.Task[None] | None = None
        self.killable = own

    @property
    def runs(self) -> bool:
        return self._leaving is None

    async def crash(self) -> None:
        try:
            async with asyncio.timeout(CRASH_SECONDS):
                await self._control.send("Browser.crash")
        except (TimeoutError, PlaywrightError):
            return  # it is never answered

    def kill(self) -> None:
        """Leave, without waiting for what does not answer."""
        if self._leaving is None:
            self._leaving = asyncio.get_running_loop().create_task(self._leave())

    async def closed(self) -> None:
        if self._leaving is not None:
            await asyncio.gather(self._leaving, return_exceptions=True)

    async def _leave(self) -> None:
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._browser.close()
        except (TimeoutError, PlaywrightError):
            return  # the driver is gone, and the connection with it
