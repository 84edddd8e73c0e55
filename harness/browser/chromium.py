"""One running browser process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import psutil
from playwright.async_api import Browser, CDPSession
from playwright.async_api import Error as PlaywrightError

from harness.browser.tls import TlsFront

CLOSE_SECONDS = 3.0


@dataclass(slots=True)
class Chromium:
    """A launched browser, its process, what answers its https, and how many sessions live in it."""

    browser: Browser
    control: CDPSession
    """A standing session to the browser itself; it answers even while pages hang."""
    pid: int
    user_agent: str
    front: TlsFront
    sessions: int = field(default=0)

    @classmethod
    async def of(cls, browser: Browser, front: TlsFront) -> Chromium:
        """Learn the process id and the User-Agent of a browser just launched."""
        control = await browser.new_browser_cdp_session()
        processes = (await control.send("SystemInfo.getProcessInfo"))["processInfo"]
        pid = next(int(process["id"]) for process in processes if process["type"] == "browser")
        version = await control.send("Browser.getVersion")
        return cls(browser, control, pid, version["userAgent"], front)

    @property
    def alive(self) -> bool:
        """Whether the process runs and is connected. A stopped one (SIGSTOP) is alive."""
        return self.browser.is_connected() and runs(self.pid)

    async def answers(self, seconds: float) -> bool:
        """Whether the browser itself still answers."""
        try:
            async with asyncio.timeout(seconds):
                await self.control.send("Browser.getVersion")
        except (TimeoutError, PlaywrightError):
            return False
        return True

    async def close(self) -> None:
        """Close, at most CLOSE_SECONDS; then the process tree is killed."""
        if runs(self.pid) and await self.answers(0.5):
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.browser.close()
            except (TimeoutError, PlaywrightError):
                pass
        self.kill()
        await self.front.close()

    def kill(self) -> None:
        """End the whole process tree now; a stopped browser would otherwise hang every call."""
        kill_tree(self.pid)
        self.front.shut()


def runs(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def kill_tree(pid: int) -> None:
    """SIGKILL a process and everything below it."""
    try:
        root = psutil.Process(pid)
        tree = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for process in tree:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
