"""Playwright's driver process: start, liveness, stop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Playwright, async_playwright

from harness.browser import isolated
from harness.browser.chromium import kill_tree, works

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
