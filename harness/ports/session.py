"""The browser, as the engine and the agents see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from harness.ports.world import Json
from harness.record import Sent
from harness.recovery import Capture
from harness.recovery.failure import Failure, Outcome
from harness.spec.steps import Step


@dataclass(frozen=True, slots=True)
class Item:
    """One artifact of the evidence: taken, skipped, or why not."""

    name: str
    """File name inside the artifact directory."""
    status: Literal["taken", "skipped", "missed"]
    reason: str = ""
    """Why not; of one that was taken: what is special about it."""
    seconds: float = 0.0
    at: datetime | None = None
    """When it was taken, or tried."""


@dataclass(frozen=True, slots=True)
class ConsoleLine:
    """What a page said to its console, and when."""

    at: datetime
    level: str
    """`LOG`, `INFO`, `WARNING`, `ERROR`, as Playwright names it, in capitals."""
    text: str
    place: str = ""
    """`url:line`, where it is known."""

    def __str__(self) -> str:
        return f"[{self.level}] {self.text}" + (f" ({self.place})" if self.place else "")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What could still be learnt of the browser. The files lie in `folder`, raw: not yet redacted, nor inert."""

    folder: Path
    items: tuple[Item, ...] = ()
    url: str | None = None
    console: tuple[ConsoleLine, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    why: str = "the browser gave none"
    """Why there is none of those that `items` does not name."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What an agent sees, when it asks (issue 3, 12)."""

    url: str
    title: str
    aria: str
    """ARIA snapshot in Playwright's AI mode; an element's `[ref=e12]` is the selector `aria-ref=e12`."""
    pages: tuple[str, ...] = ()
    """URLs of the open pages, in the order of opening."""
    page: int = 0
    """Place of the current one among them."""
    dialogs: tuple[Mapping[str, str], ...] = ()
    """Dialogs that came up during the last step: type, message, answer."""
    last: Outcome | None = None
    """Outcome of the last step; None before the first."""
    screenshot: bytes | None = None
    """PNG of what is in view, when asked for."""


class Observe(Protocol):
    """Looks at the page only when called, so that a scripted run pays nothing."""

    async def __call__(self, *, screenshot: bool = False) -> Observation:
        """Raises Failed when the page cannot be looked at."""
        ...


class Saved(Protocol):
    """The browser's side of a checkpoint; opaque to the engine."""

    @property
    def url(self) -> str: ...

    @property
    def addresses(self) -> tuple[str, ...]:
        """Of all its pages, and of the documents in them: what going back to it asks for again."""
        ...


class Session(Protocol):
    """One browser context with its pages; the engine's hands and eyes."""

    async def perform(self, step: Step, within: float, patience: float) -> Outcome:
        """Do one act, at most `within` seconds; look for its element at most `patience` seconds. Never raises."""
        ...

    async def passed(self, index: int) -> None:
        """The step of this index has passed: under full recording, what the page shows now is kept (DESIGN 4.11).

        Bounded; never raises.
        """
        ...

    async def text(self, selector: str, frame: str | None, patience: float) -> str | Failure:
        """Text of the first match (the value of a field); `element_not_found` when none comes."""
        ...

    async def read(self, function: str, selector: str | None, name: str | None, within: float) -> Json:
        """A page function of the assertion language, now. Raises Failed when the page cannot be read."""
        ...

    async def frame_of(self, selector: str) -> str:
        """The `frame` that has what the page itself does not have; empty when none does. Bounded; never raises."""
        ...

    async def screenshot(self, name: str, within: float) -> Path | None:
        """Keep a screenshot by a name (`screenshot_id`); None when the page gives none."""
        ...

    def take_sent(self) -> tuple[Sent, ...]:
        """What has left the pages since this was last asked: unsafe requests, and those for documents.

        It is known from the moment at which a request leaves, and outlives page, browser and driver. What the page
        sends by itself again and again (a heartbeat) is left out as soon as it is known for that.
        """
        ...

    async def heard(self) -> tuple[Sent, ...]:
        """As `take_sent`, once the last act's consequences are over: it is known then what was sent twice. Bounded."""
        ...

    @property
    def renewed_at(self) -> tuple[str, ...]:
        """The address that `renew` asks for when it opens the page again, and that of the document shown there."""
        ...

    async def renew(self, failure: Failure, within: float, barred: str | None = None) -> Failure | None:
        """Make a page that can be trusted again, by the lowest rung of the ladder that helps after this failure.

        A page that hangs is freed and keeps its state; one that crashed is replaced in the same context; else there is
        a new context with the same storage, at the last URL (DESIGN 4.3, ring 2). Returns why that could not be had.
        `barred` is why that URL must not be asked for again: a page that is still there may be freed all the same.
        """
        ...

    async def save(self, within: float) -> Saved:
        """Cookies, localStorage, IndexedDB, sessionStorage, open pages with URL and form values (DESIGN 4.5).

        Raises Failed when the page cannot be asked.
        """
        ...

    async def restore(
        self, saved: Saved | None, within: float, *, restart: bool, barred: str | None = None
    ) -> tuple[str, ...] | Failure:
        """Back to what was saved (None: an empty browser), in a fresh context; with `restart` in a new browser.

        Returns what differs afterwards, a line each; a Failure when the pages could not be opened at all.
        """
        ...

    async def observe(self, within: float, *, screenshot: bool) -> Observation:
        """The page as an agent sees it; `last` is left out. Raises Failed."""
        ...

    async def record(self) -> None:
        """From now on record in full: the first failure of a step has happened (DESIGN 4.11)."""
        ...

    async def evidence(self, capture: Capture, folder: Path) -> Evidence:
        """Write into `folder` what `capture` wants. Bounded; never raises; what fails is named."""
        ...

    async def close(self) -> None:
        """End the context. Bounded; never raises."""
        ...

    @property
    def url(self) -> str | None: ...

    @property
    def files(self) -> tuple[Path, ...]:
        """Screenshots and downloads kept by the steps, in order."""
        ...

    @property
    def requests(self) -> int:
        """How many requests the task's pages have sent so far."""
        ...
