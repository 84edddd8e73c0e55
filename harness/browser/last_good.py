"""How the page looked after the last step that passed: for when it can no longer be asked (DESIGN 4.11)."""

from __future__ import annotations

import asyncio
import base64
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from playwright.async_api import Error as PlaywrightError

from harness.browser.isolated import ask
from harness.browser.tab import Tab
from harness.resilience import Clock

SECONDS = 0.5
"""How long one look may take; a page that needs longer keeps the look before."""
LARGEST = 8 * 2**20
"""Bytes of a picture, or characters of a DOM, that are kept."""
SCREENSHOT, DOM = "screenshot.png", "dom_snapshot.html"
FOLDER = "last-good"
_DOM = "() => (document.doctype ? '<!DOCTYPE html>\\n' : '') + document.documentElement.outerHTML"


@dataclass(frozen=True, slots=True)
class Look:
    """One file, the step after which it was taken, and when."""

    path: Path
    step: int
    at: datetime

    def __str__(self) -> str:
        return f"last good: after step {self.step}, at {self.at:%Y-%m-%dT%H:%M:%S.%fZ}"


class LastGood:
    """The newest picture and DOM of a session; two files, however many steps it has."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder / FOLDER
        self._clock = clock
        self._looks: dict[str, Look] = {}

    async def keep(self, tab: Tab, step: int) -> None:
        """Look at the page now. Bounded; never raises: what cannot be had leaves the look before.

        By the control session, not by Playwright's own calls: these would be acts in the trace.
        """
        try:
            async with asyncio.timeout(SECONDS):
                shot = await tab.control.send("Page.captureScreenshot", {"format": "png"})
                await self._write(SCREENSHOT, base64.b64decode(shot["data"]), step)
                dom = await ask(tab.control, _DOM)
                await self._write(DOM, str(dom or "").encode("utf-8", "replace"), step)
        except (PlaywrightError, TimeoutError, OSError):
            return

    async def _write(self, name: str, data: bytes, step: int) -> None:
        if not 0 < len(data) <= LARGEST:
            return
        path, at = self._folder / name, self._clock.wall()
        await asyncio.to_thread(_replace, path, data)
        self._looks[name] = Look(path, step, at)

    async def give(self, name: str, target: Path) -> Look | None:
        """Copy the newest look; None when there is none. Raises OSError."""
        look = self._looks.get(name)
        if look is not None:
            await asyncio.to_thread(shutil.copyfile, look.path, target)
        return look


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_bytes(data)
    temporary.replace(path)
