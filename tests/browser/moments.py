"""When something has come about, and how late it may be on a machine that does other things."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from harness.browser import PlaywrightSession

LOADED = 2.0
"""Seconds more that a busy machine may need for what has a bound; what hangs takes much longer."""
COMES_WITHIN = 20.0
BUSY = 1.5
"""Processes that wait for each processor: beyond that, what takes a moment takes several."""
SILENT = 0.2
"""Seconds without an answer after which a page is taken to hang: an endless loop that has not begun yet begins then."""


def stretched(seconds: float) -> float:
    """A limit for what must fail by it and say why: longer on an overloaded machine, where to ask takes its time."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1) / BUSY)


async def until(holds: Callable[[], object]) -> None:
    """Wait for something that comes by itself. Raises TimeoutError."""
    async with asyncio.timeout(COMES_WITHIN):
        while not holds():
            await asyncio.sleep(0.01)


async def hung(session: PlaywrightSession) -> None:
    """Wait until the page answers no more: the loop that was begun in it goes on. Raises TimeoutError."""
    async with asyncio.timeout(COMES_WITHIN):
        while await _answers(session):
            await asyncio.sleep(0.01)


async def _answers(session: PlaywrightSession) -> bool:
    try:
        await asyncio.wait_for(session.tab.control.send("Runtime.evaluate", {"expression": "1"}), SILENT)
    except TimeoutError:
        return False
    return True
