"""One running browser process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

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
    group: int | None
    """Its process group: a script may have started it, whose pid this is then."""
    user_agent: str
    front: TlsFront
    traces: Path
    """Where Playwright writes the traces that are running."""
    sessions: int = field(default=0)
    ended_by: str | None = None
    """World of the task for whose sake it was killed or stopped; None: it ended by itself, or lives."""
    lost_many: bool = False
    """Several sessions lived in it when it ended."""

    @classmethod
    async def of(cls, browser: Browser, front: TlsFront, traces: Path) -> Chromium:
        """Learn the process id and the User-Agent of a browser just launched."""
        control = await browser.new_browser_cdp_session()
        processes = (await control.send("SystemInfo.getProcessInfo"))["processInfo"]
        pid = next(int(process["id"]) for process in processes if process["type"] == "browser")
        version = await control.send("Browser.getVersion")
        chromium = cls(browser, control, pid, _group(pid), version["userAgent"], front, traces)
        browser.on("disconnected", lambda _: chromium.lost())
        return chromium

    def lost(self) -> None:
        """It is gone: whoever lives in it now is concerned."""
        self.lost_many = self.lost_many or self.sessions > 1

    @property
    def alive(self) -> bool:
        """Whether the process runs and is connected. A stopped one (SIGSTOP) is alive."""
        return self.browser.is_connected() and runs(self.pid)

    async def answers(self, seconds: float) -> bool:
        """Whether the browser itself still answers. Of a stopped one it is known at once."""
        if stopped(self.pid):
            return False
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

    def kill(self, by: str | None = None) -> None:
        """End the whole process tree now; a stopped browser would otherwise hang every call.

        `by` is the world of the task for whose sake: the others in it are innocent. Of one that had ended by itself
        nobody is guilty.
        """
        if self.alive:
            self.ended_by = self.ended_by or by
        self.lost()
        kill_tree(self.pid)
        if self.group is not None:  # pages that were stopped outlive a browser that is gone already
            with contextlib.suppress(OSError):
                os.killpg(self.group, signal.SIGKILL)
        self.front.shut()


def runs(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    return _status(pid) not in (None, psutil.STATUS_ZOMBIE)


def works(pid: int) -> bool:
    """Whether the process exists, is not a zombie, and was not stopped."""
    return _status(pid) not in (None, psutil.STATUS_ZOMBIE, psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)


def stopped(pid: int) -> bool:
    """Whether the process was stopped (SIGSTOP): it cannot answer."""
    return _status(pid) in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)


def _status(pid: int) -> str | None:
    """What the system says of the process; None when there is none."""
    try:
        return _process(pid).status()
    except psutil.NoSuchProcess:
        return None


@lru_cache(maxsize=64)
def _process(pid: int) -> psutil.Process:
    """Making one costs three times as much as asking it, and it is asked at every step."""
    return psutil.Process(pid)


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


def _group(pid: int) -> int | None:
    """The process group that Playwright has made for a browser; None: it is in ours."""
    with contextlib.suppress(OSError):
        group = os.getpgid(pid)
        return group if group != os.getpgid(0) else None
    return None
