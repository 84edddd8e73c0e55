"""One running browser: a process of this machine, or one elsewhere behind a connection."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from playwright.async_api import Browser, CDPSession
from playwright.async_api import Error as PlaywrightError

from harness.browser.bounded import bounded
from harness.browser.driver import Driver
from harness.browser.flood import Pace
from harness.browser.net_log import NetLog
from harness.browser.os_process import is_stopped, kill_tree, not_above_ours, runs, status
from harness.browser.targets import Workers
from harness.browser.tls import TlsFront
from harness.resilience import SystemClock

CLOSE_SECONDS = 3.0
_NO_CONTEXT = "Failed to find context"
"""Chromium's words for a context that is gone."""


class BrowserProcess(Protocol):
    """The process of a browser."""

    @property
    def pid(self) -> int | None:
        """The process id; None for a browser elsewhere, whose process is never signalled from here."""

    @property
    def runs(self) -> bool: ...

    @property
    def stopped(self) -> bool:
        """Whether it is stopped (SIGSTOP) and cannot answer, as far as can be determined at once."""

    @property
    def killable(self) -> bool:
        """Whether only this run uses it: ending it takes nobody else's browser away."""

    async def crash(self) -> None:
        """End the browser's process as in a crash, where `kill` would only disconnect. Bounded."""

    def kill(self) -> None:
        """End it now, with all its children; `runs` becomes False then, or soon."""

    async def closed(self) -> None:
        """Wait until nothing of it is left here. Bounded."""


class LocalProcess(Struct, frozen=True):
    """A process of this machine, with all its children."""

    pid: int
    group: int | None
    """Its process group: a script may have started the browser, and then this is the script's pid."""

    @classmethod
    async def of(cls, control: CDPSession) -> LocalProcess:
        """The process that a browser reports as its own."""
        processes = (await control.send("SystemInfo.getProcessInfo"))["processInfo"]
        pid = next(int(process["id"]) for process in processes if process["type"] == "browser")
        not_above_ours(pid)  # only this one: the ids of sandboxed processes may be those of another namespace
        return cls(pid, _group(pid))

    @property
    def pids(self) -> set[int]:
        """Its own pid, and that of its group."""
        return {self.pid, self.group or self.pid}

    @property
    def runs(self) -> bool:
        return runs(self.pid)

    @property
    def stopped(self) -> bool:
        return is_stopped(status(self.pid))

    @property
    def killable(self) -> bool:
        return True

    async def crash(self) -> None:
        """The same as `kill` here."""

    def kill(self) -> None:
        kill_tree(self.pid)
        if self.group is not None:  # stopped pages outlive a browser that has already ended
            with contextlib.suppress(OSError):
                os.killpg(self.group, signal.SIGKILL)

    async def closed(self) -> None:
        """Return at once: SIGKILL leaves nothing to wait for."""


@dataclass(slots=True)
class Chromium:
    """A browser with its process, the server of its https, and the number of its sessions."""

    driver: Driver
    """Every question to the browser goes through it."""
    browser: Browser
    control: CDPSession
    """A control session of the browser itself; it answers even while pages hang."""
    process: BrowserProcess
    user_agent: str
    front: TlsFront
    traces: Path | None
    """The folder where Playwright writes the running traces; None: it is elsewhere, out of reach."""
    unreachable: frozenset[str] = frozenset()
    """Hosts of the project that this browser cannot reach, because it runs elsewhere."""
    sessions: int = field(default=0)
    pace: Pace = field(default_factory=lambda: Pace(SystemClock()))
    """The rate of the events of all its pages."""
    ended_by: str | None = None
    """The world of the task for whose sake it was killed or stopped; None: it ended by itself, or is alive."""
    lost_many: bool = False
    """Whether it had several sessions when it ended."""
    pasting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """The turn to use its clipboard, which all its contexts share."""
    net_log: NetLog | None = None
    """What tells which requests it repeats by itself; None: it runs elsewhere, or cannot write it."""
    workers: Workers = field(init=False)
    """The workers that no page owns, in all its contexts."""

    def __post_init__(self) -> None:
        self.workers = Workers(self.control, self.net_log)

    @classmethod
    async def of(
        cls,
        driver: Driver,
        browser: Browser,
        control: CDPSession,
        process: BrowserProcess,
        front: TlsFront,
        traces: Path | None,
        net_log: NetLog | None = None,
    ) -> Chromium:
        """Connect, and ask for the User-Agent: a browser that answers exists. Raises Playwright's errors."""
        version = await control.send("Browser.getVersion")
        chromium = cls(driver, browser, control, process, version["userAgent"], front, traces, net_log=net_log)
        await chromium.workers.start()
        browser.on("disconnected", lambda _: chromium.mark_lost())
        return chromium

    @property
    def pid(self) -> int | None:
        """The id of the browser's process, if it runs on this machine."""
        return self.process.pid

    def mark_lost(self) -> None:
        """Record that it is gone, which affects all its sessions."""
        self.lost_many = self.lost_many or self.sessions > 1

    @property
    def alive(self) -> bool:
        """Whether the process runs and is connected. A stopped one (SIGSTOP) is alive."""
        return self.browser.is_connected() and self.process.runs

    async def answers(self, seconds: float) -> bool:
        """Return whether the browser itself still answers; for a stopped one this is known at once.

        A browser that tells events meanwhile is not silent: its answer comes after them.
        """
        if self.process.stopped:
            return False
        told = self.pace.total
        try:
            async with asyncio.timeout(seconds):
                await self.control.send("Browser.getVersion")
        except PlaywrightError:
            return False
        except TimeoutError:
            return self.alive and (self.pace.floods or self.pace.total > told)
        return True

    async def end_context(self, context_id: str, seconds: float) -> bool:
        """End all pages of a context, whatever they and the driver are doing; return whether none is left."""
        try:
            async with asyncio.timeout(seconds):
                await self.control.send("Target.disposeBrowserContext", {"browserContextId": context_id})
        except PlaywrightError as error:
            return _NO_CONTEXT in error.message
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Close within CLOSE_SECONDS; then kill the process tree."""
        if self.process.runs and await self.answers(0.5):
            await bounded(self.browser.close(), CLOSE_SECONDS, None)
        self.kill()
        await self.process.closed()
        await self.front.close()

    async def crash(self, by: str) -> None:
        """Crash the browser for the sake of this world's task. `kill` records which others are affected."""
        self.ended_by = self.ended_by or by
        await self.process.crash()

    def kill(self, by: str | None = None) -> None:
        """Kill the whole process tree now; a stopped browser would otherwise hang every call.

        `by` is the world of the task for whose sake it is killed: other tasks with sessions in it are innocent. If it
        had already ended by itself, nobody is guilty.
        """
        if self.alive:
            self.ended_by = self.ended_by or by
        self.mark_lost()
        self.process.kill()
        self.front.stop_listening()
        if self.net_log:
            self.net_log.close()


def _group(pid: int) -> int | None:
    """The process group that Playwright has made for a browser; None: it is in ours."""
    with contextlib.suppress(OSError):
        group = os.getpgid(pid)
        return group if group != os.getpgid(0) else None
    return None


async def answers(control: CDPSession, seconds: float) -> bool:
    """Return whether the page's own process still answers, without waiting for a navigation (`evaluate` does)."""
    try:
        async with asyncio.timeout(seconds):
            await control.send("Runtime.evaluate", {"expression": "1"})
    except TimeoutError:
        return False
    except PlaywrightError:  # this is an answer too: liveness finds out whether the page is gone
        return True
    return True
