"""Faults done to processes: a browser that is stopped."""

from __future__ import annotations

import contextlib

import psutil

from harness.browser.chromium import Chromium
from harness.model.ports import Heal, Strike
from harness.recovery.failure import Failed, Failure

REFUSED = (
    "fault browser_stop: the browser is at --task-browser-endpoint, and a process elsewhere cannot be stopped from "
    "here; run the task with a browser of this machine, or use `page_crash` or `browser_kill`"
)


def stop(chromium: Chromium, strike: Strike, world: str) -> Heal | None:
    """Stop the whole tree, which may go on later. What becomes of it until then is this task's doing.

    Raises Failed for a browser elsewhere.
    """
    if chromium.pid is None:
        raise Failed(Failure("BROWSER_ENDPOINT_UNFIT", REFUSED))
    stopped = _suspend(chromium.pid) if chromium.alive else []
    if not stopped:
        return None
    claimed = chromium.ended_by is None
    chromium.ended_by = chromium.ended_by or world
    strike.met()

    async def go_on() -> None:
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
        if claimed and chromium.alive:
            chromium.ended_by = None

    return go_on


def _suspend(pid: int) -> list[psutil.Process]:
    """The stopped processes. The outermost comes first: it starts no others then."""
    stopped: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        root.suspend()
        stopped.append(root)
        for process in root.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
                stopped.append(process)
    return stopped
