"""What a browser can still give when a task has failed: the only taker of screenshot, DOM, HAR and trace."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from playwright.async_api import Error as PlaywrightError

from harness.browser import har
from harness.browser.tab import Tab
from harness.ports import Item
from harness.recovery import Capture
from harness.resilience import Clock, Deadline

TOTAL_SECONDS = 8.0
TRACE_SECONDS = 3.0
PAGE_SECONDS = 2.0
CLOSE_SECONDS = 3.0
PROBE_SECONDS = 0.5
LOOK_SECONDS = 1.0
SCREENSHOT, DOM, TRACE = "screenshot.png", "dom_snapshot.html", "trace.zip"
HAR, CONSOLE = "network_logs.har", "console_logs.txt"
STRATEGY = "strategy"


@dataclass(slots=True)
class Taking:
    """One round of evidence: where it goes, how long it may still take, and what came of it."""

    tab: Tab
    folder: Path
    clock: Clock
    deadline: Deadline
    items: list[Item] = field(default_factory=list)

    def skip(self, name: str, reason: str = STRATEGY) -> None:
        self.items.append(Item(name, "skipped", reason))

    def miss(self, name: str, reason: str) -> None:
        self.items.append(Item(name, "missed", reason))

    async def file(self, name: str, seconds: float, make: Callable[[Path], Awaitable[None]]) -> bool:
        """Make one file, in at most `seconds`; what fails is named and harms nothing else."""
        started = self.clock.now()
        reason = ""
        try:
            async with asyncio.timeout(self.deadline.clip(seconds, started)):
                await make(self.folder / name)
        except TimeoutError:
            reason = "no answer in time"
        except (PlaywrightError, OSError, ValueError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
        spent = round(self.clock.now() - started, 3)
        self.items.append(Item(name, "missed" if reason else "taken", reason, spent))
        return not reason


async def take(
    taking: Taking, capture: Capture, recordings: list[Path] | None, close: Callable[[float], Awaitable[bool]]
) -> None:
    """All that `capture` wants, in the order that loses least. `recordings` is None when nothing was recorded."""
    if capture.logs:
        await take_trace(taking)
    else:
        taking.skip(TRACE)
    await take_page(taking, capture.screenshot, capture.dom)
    if capture.logs and recordings is not None:
        await take_har(taking, recordings, close)
    else:
        taking.skip(HAR, "recording is minimal" if capture.logs else STRATEGY)
    taking.items.append(Item(CONSOLE, "taken") if capture.logs else Item(CONSOLE, "skipped", STRATEGY))


async def take_trace(taking: Taking) -> None:
    """First of all: snapshots of a running trace would delay every other call on a hung page."""
    if not taking.tab.traced:
        taking.skip(TRACE, "not recorded")
        return

    async def make(path: Path) -> None:
        await _last_look(taking)
        await taking.tab.context.tracing.stop(path=path)

    await taking.file(TRACE, TRACE_SECONDS, make)
    taking.tab.traced = False


async def _last_look(taking: Taking) -> None:
    """One act for the trace, so that it has a snapshot of the end also when it was started by the last failure."""
    if await _problem(taking):
        return
    with contextlib.suppress(PlaywrightError, TimeoutError):
        async with asyncio.timeout(LOOK_SECONDS):
            await taking.tab.page.evaluate("() => document.readyState")


async def take_page(taking: Taking, screenshot: bool, dom: bool) -> None:
    """Screenshot and DOM. A page in an endless loop is freed first: its state is kept."""
    wanted = {SCREENSHOT: screenshot, DOM: dom}
    for name in (name for name, want in wanted.items() if not want):
        taking.skip(name)
    if not any(wanted.values()):
        return
    problem = await _problem(taking)
    for name in (name for name, want in wanted.items() if want):
        if problem:
            taking.miss(name, problem)
        else:
            await taking.file(name, PAGE_SECONDS, _screenshot(taking) if name == SCREENSHOT else _dom(taking))


async def _problem(taking: Taking) -> str:
    """Why the page gives nothing; empty when it answers."""
    tab = taking.tab
    if tab.watch.crashed:
        return "the page crashed"
    if tab.page.is_closed():
        return "the page is closed"
    return "" if await tab.freed(PROBE_SECONDS) else "the page does not answer"


def _screenshot(taking: Taking) -> Callable[[Path], Awaitable[None]]:
    async def make(path: Path) -> None:
        await taking.tab.picture(path, PAGE_SECONDS)

    return make


def _dom(taking: Taking) -> Callable[[Path], Awaitable[None]]:
    async def make(path: Path) -> None:
        content = await taking.tab.page.content()
        await asyncio.to_thread(path.write_text, content, encoding="utf-8")

    return make


async def take_har(taking: Taking, recordings: list[Path], close: Callable[[float], Awaitable[bool]]) -> None:
    """Last of all: the recording is written when the context closes. `close` says whether it did."""
    closed = await close(taking.deadline.clip(CLOSE_SECONDS, taking.clock.now()))

    seen = list(taking.tab.watch.exchanges)

    def write(path: Path) -> None:
        logs = har.load(recordings) if closed else []
        whole = har.merged(logs) if logs else har.of_exchanges(seen)
        path.write_text(json.dumps(whole, ensure_ascii=False), encoding="utf-8")

    async def make(path: Path) -> None:
        await asyncio.to_thread(write, path)

    await taking.file(HAR, CLOSE_SECONDS, make)
