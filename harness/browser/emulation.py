"""What `set` steps have changed of the browser's emulation: every context that follows is made with it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from playwright.async_api import BrowserContext, Page

from harness.resilience import Clock
from harness.spec.context import ContextOptions, merged

_OF_PAGES = ("color_scheme", "reduced_motion")
_AS_DECLARED = ContextOptions()


class PageClock(Struct, frozen=True):
    """The clock of the pages, as a step has left it."""

    at: float
    """What it showed, in seconds since 1970."""
    since: float
    """When it showed that, by the harness's own clock."""
    runs: bool

    def now(self, clock: Clock) -> datetime:
        """What it shows now."""
        return datetime.fromtimestamp(self.at + (clock.now() - self.since if self.runs else 0.0), UTC)

    async def install(self, context: BrowserContext, clock: Clock) -> None:
        """Let the clock of a new context go on from there; it has no page yet. Raises Playwright's errors."""
        now = self.now(clock)
        await context.clock.install(time=now)
        if not self.runs:
            await context.clock.pause_at(now)


class Changes(Struct, frozen=True):
    """What is changed; part of a checkpoint."""

    options: ContextOptions = _AS_DECLARED
    clock: PageClock | None = None


UNCHANGED = Changes()


class Emulation:
    """The changes that are in force."""

    def __init__(self) -> None:
        self.changes = UNCHANGED

    def add(self, options: ContextOptions, clock: PageClock | None) -> None:
        """Note the changes of a step."""
        self.changes = Changes(merged((self.changes.options, options)), clock or self.changes.clock)

    async def apply_to(self, page: Page) -> None:
        """Set what a browser keeps for each page, and not for its context. Raises Playwright's errors."""
        options = self.changes.options
        if options.viewport is not None:
            width, height = options.viewport
            await page.set_viewport_size({"width": width, "height": height})
        media: dict[str, Any] = {name: each for name in _OF_PAGES if (each := getattr(options, name)) is not None}
        if media:
            await page.emulate_media(**media)
