"""Faults of a moment, done to the page that is acted on. One that no longer answers is spared: it has its fault."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from playwright.async_api import Dialog as OpenDialog
from playwright.async_api import Error as PlaywrightError

from harness.browser.tab import Tab
from harness.model.ports import Heal, Strike
from harness.resilience import Clock
from harness.spec.faults import Dialog, Popup

CRASH_SECONDS = 2.0
"""How long a page may take to crash."""
_DIALOG_MS = 30
"""So long after the strike a dialog comes up: the step has begun by then."""
_LOOP = "setTimeout(() => { for (;;) {} })"
_LEAVING = "addEventListener('beforeunload', e => e.preventDefault())"


async def crash(tab: Tab, strike: Strike, clock: Clock) -> None:
    """End the page's process. The command is never answered."""
    if tab.watch.crashed or tab.page.is_closed():
        return
    command = asyncio.ensure_future(tab.control.send("Page.crash"))
    limit = clock.now() + CRASH_SECONDS
    while not tab.watch.crashed and clock.now() < limit and not command.done():
        await clock.sleep(0.01)
    command.cancel()
    await asyncio.gather(command, return_exceptions=True)
    if tab.watch.crashed:
        strike.met()


async def loop(tab: Tab, strike: Strike) -> None:
    """Let a script of the page run for ever."""
    await _run(tab, _LOOP)
    strike.met()


async def popup(tab: Tab, strike: Strike) -> None:
    """Let the page open another one."""
    assert isinstance(strike.fault, Popup)
    answer = await _run(tab, f"!!window.open({json.dumps(strike.fault.url)})")
    if answer["result"].get("value"):
        strike.met()


async def dialog(tab: Tab, strike: Strike) -> Heal:
    """Let a dialog come up; a `beforeunload` does when the page is left."""
    fault = strike.fault
    assert isinstance(fault, Dialog)
    context, waiting = tab.context, True

    def end() -> None:
        nonlocal waiting
        if waiting:
            context.remove_listener("dialog", seen)
        waiting = False

    def seen(shown: OpenDialog) -> None:
        if shown.type == fault.type and (shown.type == "beforeunload" or shown.message == fault.message):
            end()
            strike.met()

    async def heal() -> None:
        end()

    context.on("dialog", seen)
    raising = f"setTimeout(() => {fault.type}({json.dumps(fault.message)}), {_DIALOG_MS})"
    await _run(tab, _LEAVING if fault.type == "beforeunload" else raising)
    return heal


async def _run(tab: Tab, script: str) -> Mapping[str, Any]:
    """As if a person had just touched the page: browsers ask for that before popups and questions on leaving."""
    answer = await tab.control.send("Runtime.evaluate", {"expression": script, "userGesture": True})
    if "exceptionDetails" in answer:
        raise PlaywrightError(str(answer["exceptionDetails"].get("text")))
    return answer
