"""One running browser: here as a process, or elsewhere behind a connection."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import psutil
from playwright.async_api import Browser, CDPSession, Playwright, async_playwright
from playwright.async_api import Error as PlaywrightError

from harness.browser import isolated
from harness.browser.flood import Pace
from harness.browser.sending import Resending
from harness.browser.tls import TlsFront
from harness.resilience import SystemClock

CLOSE_SECONDS = 3.0


class BrowserProcess(Protocol):
    """What runs a browser."""

    @property
    def pid(self) -> int | None:
        """None for a browser elsewhere: its process is never signalled from here."""

    @property
    def runs(self) -> bool: ...

    @property
    def stopped(self) -> bool:
        """Whether it cannot answer (SIGSTOP), as far as can be told at once."""

    @property
    def killable(self) -> bool:
        """Whether it is ours alone: ending it takes nobody else's browser away."""

    async def crash(self) -> None:
        """Let the browser's process end as in a crash, where `kill` would only leave it. Bounded."""

    def kill(self) -> None:
        """End it now, with all that belongs to it; it no longer `runs` then, or soon."""

    async def closed(self) -> None:
        """Wait until nothing of it is left here. Bounded."""


@dataclass(frozen=True, slots=True)
class LocalProcess:
    """A process of this machine, with all below it."""

    pid: int
    group: int | None
    """Its process group: a script may have started it, whose pid this is then."""

    @classmethod
    async def of(cls, control: CDPSession) -> LocalProcess:
        """The one that a browser says it is."""
        processes = (await control.send("SystemInfo.getProcessInfo"))["processInfo"]
        pid = next(int(process["id"]) for process in processes if process["type"] == "browser")
        return cls(pid, _group(pid))

    @property
    def pids(self) -> set[int]:
        """Its own, and that of its group."""
        return {self.pid, self.group or self.pid}

    @property
    def runs(self) -> bool:
        return runs(self.pid)

    @property
    def stopped(self) -> bool:
        return stopped(self.pid)

    @property
    def killable(self) -> bool:
        return True

    async def crash(self) -> None:
        """`kill` is the same here."""

    def kill(self) -> None:
        kill_tree(self.pid)
        if self.group is not None:  # pages that were stopped outlive a browser that is gone already
            with contextlib.suppress(OSError):
                os.killpg(self.group, signal.SIGKILL)

    async def closed(self) -> None:
        """SIGKILL leaves nothing to wait for."""


@dataclass(slots=True)
class Chromium:
    """A browser, what runs it, what answers its https, and how many sessions live in it."""

    browser: Browser
    control: CDPSession
    """A standing session to the browser itself; it answers even while pages hang."""
    process: BrowserProcess
    user_agent: str
    front: TlsFront
    traces: Path | None
    """Where Playwright writes the traces that are running; None: elsewhere, out of reach."""
    unreachable: frozenset[str] = frozenset()
    """Hosts of the project that this browser cannot reach, because it runs elsewhere."""
    sessions: int = field(default=0)
    pace: Pace = field(default_factory=lambda: Pace(SystemClock()))
    """How fast the events of all its pages come."""
    ended_by: str | None = None
    """World of the task for whose sake it was killed or stopped; None: it ended by itself, or lives."""
    lost_many: bool = False
    """Several sessions lived in it when it ended."""
    resending: Resending = field(init=False)
    """What it sends a second time by itself."""

    def __post_init__(self) -> None:
        self.resending = Resending(self.control)

    @classmethod
    async def of(
        cls, browser: Browser, control: CDPSession, process: BrowserProcess, front: TlsFront, traces: Path | None
    ) -> Chromium:
        """Learn its User-Agent: a browser that says it is there. Raises what Playwright raises."""
        version = await control.send("Browser.getVersion")
        chromium = cls(browser, control, process, version["userAgent"], front, traces)
        browser.on("disconnected", lambda _: chromium.lost())
        return chromium

    @property
    def pid(self) -> int | None:
        """The id of the browser's process, where that runs on this machine."""
        return self.process.pid

    def lost(self) -> None:
        """It is gone: whoever lives in it now is concerned."""
        self.lost_many = self.lost_many or self.sessions > 1

    @property
    def alive(self) -> bool:
        """Whether the process runs and is connected. A stopped one (SIGSTOP) is alive."""
        return self.browser.is_connected() and self.process.runs

    async def answers(self, seconds: float) -> bool:
        """Whether the browser itself still answers. Of a stopped one it is known at once.

        One whose pages flood it with events is not silent: its answer is behind them.
        """
        if self.process.stopped:
            return False
        try:
            async with asyncio.timeout(seconds):
                await self.control.send("Browser.getVersion")
        except PlaywrightError:
            return False
        except TimeoutError:
            return self.alive and self.pace.floods
        return True

    async def close(self) -> None:
        """Close, at most CLOSE_SECONDS; then the process tree is killed."""
        if self.process.runs and await self.answers(0.5):
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.browser.close()
            except (TimeoutError, PlaywrightError):
                pass
        self.kill()
        await self.process.closed()
        await self.front.close()

    async def crash(self, by: str) -> None:
        """End the browser itself for the sake of this world's task. `kill` says who else is concerned."""
        self.ended_by = self.ended_by or by
        await self.process.crash()

    def kill(self, by: str | None = None) -> None:
        """End the whole process tree now; a stopped browser would otherwise hang every call.

        `by` is the world of the task for whose sake: the others in it are innocent. Of one that had ended by itself
        nobody is guilty.
        """
        if self.alive:
            self.ended_by = self.ended_by or by
        self.lost()
        self.process.kill()
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
    """SIGKILL a process and everything below it. They end a moment later."""
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


# Playwright's driver process: start, liveness, stop.

STOP_SECONDS = 2.0
_FORGOTTEN = ("Connection closed while reading from the driver", "Target page, context or browser has been closed")
"""Of calls whose caller was cancelled: the driver, or what they were about, was ended before they were answered."""
ANSWER_SECONDS = 5.0
"""A driver that is silent for so long is taken for hung."""


@dataclass(frozen=True, slots=True)
class Driver:
    """A started Playwright. Its own liveness signals lie when it is killed, so its process is watched."""

    playwright: Playwright
    pid: int | None

    @classmethod
    async def start(cls, temp: Path) -> Driver:
        """Start Playwright; the driver's temporary files go below `temp`."""
        asyncio.get_running_loop().set_exception_handler(_report)
        before = _driver_pids()
        with _temporary_folder(temp):
            playwright = await async_playwright().start()
            await isolated.register(playwright)
        return cls(playwright, next(iter(_driver_pids() - before), None))

    @property
    def alive(self) -> bool:
        """Whether the process runs. A stopped one (SIGSTOP) is as good as gone: nobody but its parent could wake it."""
        return self.pid is None or works(self.pid)

    async def answers(self) -> bool:
        """Whether the process runs and answers within ANSWER_SECONDS."""
        if not self.alive:
            return False
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await (await self.playwright.request.new_context()).dispose()
        except (TimeoutError, PlaywrightError):
            return False
        return True

    def kill(self) -> None:
        """End the driver and the browsers below it now."""
        if self.pid is not None:
            kill_tree(self.pid)

    async def stop(self) -> None:
        """Stop, at most STOP_SECONDS; then kill."""
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.playwright.stop()
        except (TimeoutError, PlaywrightError):
            pass
        self.kill()


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio prints of errors that nobody awaits; not of the calls that Playwright forgets as all is ended."""
    if not any(text in str(context.get("exception", "")) for text in _FORGOTTEN):
        loop.default_exception_handler(context)


def _driver_pids() -> set[int]:
    found = set()
    for child in psutil.Process().children():
        try:
            if "run-driver" in child.cmdline():
                found.add(child.pid)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found


@contextmanager
def _temporary_folder(temp: Path) -> Iterator[None]:
    """The driver takes its temporary folder from the environment alone."""
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(temp)
    try:
        yield
    finally:
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before
