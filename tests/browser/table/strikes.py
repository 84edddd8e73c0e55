"""What is done to page, browser and driver behind the session's back, just before a step or while it is under way."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

import psutil
from playwright.async_api import Error as PlaywrightError

from harness.browser import PlaywrightSession
from harness.browser.os_process import runs
from tests.browser.moments import hung
from tests.browser.processes import signal_tree, tree, words

Strike = Callable[[PlaywrightSession], Awaitable[object]]
DURING = 0.3
"""Seconds after which a step is under way."""
_COMING: set[asyncio.Task[object]] = set()


def during(strike: Strike, seconds: float = DURING) -> Strike:
    """The same strike, a little later: the step goes on meanwhile."""

    async def begin(session: PlaywrightSession) -> None:
        async def later() -> object:
            await asyncio.sleep(seconds)
            return await strike(session)

        task = asyncio.ensure_future(later())
        _COMING.add(task)
        task.add_done_callback(_COMING.discard)

    return begin


async def all_struck() -> None:
    """Wait for the strikes that were begun; a page that crashed never answers the command that did it."""
    for task in tuple(_COMING):
        task.cancel()
        with suppress(asyncio.CancelledError, PlaywrightError):
            await task


async def crash_page(session: PlaywrightSession) -> None:
    """`Page.crash`, until the session has heard of it."""
    with suppress(PlaywrightError, TimeoutError):
        await asyncio.wait_for(session.tab.control.send("Page.crash"), 2)


async def open_crash_page(session: PlaywrightSession) -> None:
    with suppress(PlaywrightError):
        await session.tab.control.send("Page.navigate", {"url": "chrome://crash"})


async def kill_renderers(session: PlaywrightSession) -> None:
    for process in tree(session):
        if "--type=renderer" in words(process):
            with suppress(psutil.NoSuchProcess):
                process.kill()


async def kill_browser(session: PlaywrightSession) -> None:
    psutil.Process(session.chromium.pid).kill()
    while runs(session.chromium.pid):
        await asyncio.sleep(0.01)


async def end_browser(session: PlaywrightSession) -> None:
    psutil.Process(session.chromium.pid).terminate()


async def stop_browser(session: PlaywrightSession) -> None:
    signal_tree(session, signal.SIGSTOP)


async def kill_driver(session: PlaywrightSession) -> None:
    above = psutil.Process(session.chromium.pid).parents()
    next(each for each in above if "run-driver" in words(each)).kill()


async def close_page(session: PlaywrightSession) -> None:
    await session.tab.page.close()


async def spin(session: PlaywrightSession) -> None:
    """An endless loop in the page, under way."""
    await session.tab.control.send("Runtime.evaluate", {"expression": "setTimeout(() => { while (true); }, 0)"})
    await hung(session)
