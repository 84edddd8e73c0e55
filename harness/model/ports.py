"""What the engine needs from outside, as Protocols."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random as SeededRandom
from typing import Any, Literal, Protocol

from harness.model.events import Event
from harness.model.plan import Plan
from harness.model.record import History, MetFault, Sent, TaskResult
from harness.model.report import ErrorReport
from harness.recovery import Capture, Random
from harness.recovery.failure import Failure, Outcome
from harness.resilience import Clock
from harness.resilience.breaker import Breaker
from harness.spec.faults import Fault
from harness.spec.steps import Step

# What an injector hands to those who do the damage.

Undo = Callable[[], Awaitable[None]]
"""Undoes a strike. May raise Failed."""


@dataclass(frozen=True, slots=True)
class Injection:
    """One time that a fault strikes."""

    fault: Fault
    random: SeededRandom
    """Seeded; for whatever the strike has to choose."""
    met: Callable[[], None]
    """To be called each time that it has an effect: a page is changed, a request is broken, a process is killed."""
    takes: Callable[[tuple[str, ...]], bool]
    """Whether a request fault strikes the request that goes by these URLs; counts it, and calls `met`."""


class FaultTarget(Protocol):
    """Does the damage, in one place: the browser, the world, the services, the network."""

    async def strike(self, strike: Injection) -> Undo | None:
        """Do it; what undoes it, None when there is nothing to undo. Raises Failed when it cannot be done."""
        ...


# The browser, as the engine and the agents see it.


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
    """What an agent sees, when it asks."""

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
        """The addresses of all its pages, and of the documents in them: what going back to it asks for again."""
        ...


class Session(Protocol):
    """One browser context with its pages; the engine's hands and eyes."""

    async def perform(self, step: Step, within: float, patience: float) -> Outcome:
        """Do one act, at most `within` seconds; look for its element at most `patience` seconds. Never raises."""
        ...

    async def passed(self, index: int) -> None:
        """The step of this index has passed: under full recording, what the page shows now is kept.

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
        a new context with the same storage, at the last URL (docs/decisions/006). Returns why that could not be had.
        `barred` is why that URL must not be asked for again: a page that is still there may be freed all the same.
        """
        ...

    async def save(self, within: float) -> Saved:
        """Cookies, localStorage, IndexedDB, sessionStorage, open pages with URL and form values.

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
        """From now on record in full: the first failure of a step has happened (docs/design/evidence.md)."""
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


# Memory and environment of a task.

Json = Any
"""A JSON value."""


@dataclass(frozen=True, slots=True)
class WorldCheckpoint:
    """The world's side of a checkpoint."""

    entries: dict[str, Json]
    """Key -> MemoryKV entry."""
    environment: dict[str, Json]
    """Channel -> document, of the channels that can be written."""
    whole: bool
    """Whether that is the whole environment: every channel there is, and at least one.

    Only then going back undoes what the steps did, and a `write` may be done again (docs/design/never-twice.md).
    """
    refused: str = ""
    """Why the environment is not put back although it could be written: the isolation of the project forbids it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Memory and environment at the end; None where it was not taken."""

    memory: dict[str, Json] | None = None
    environment: dict[str, Json] | None = None
    why: str = "the task had not begun"
    """Why what is None was not taken."""


class World(Protocol):
    """Memory and environment of one task or episode. Channels raise Failed when unreadable."""

    def memory(self) -> Mapping[str, Json]:
        """Key -> value, as of the last `synchronize` and what was remembered since."""
        ...

    def remember(self, key: str, value: Json, source: str) -> None: ...

    async def synchronize(self) -> None:
        """Write what was remembered to where the system under test keeps its memory, and read what stands there now.

        Nothing, where the memory is the harness's own. Raises Failed.
        """
        ...

    def entries(self) -> dict[str, Json]:
        """Key -> MemoryKV entry (key, value, ts, source, confidence)."""
        ...

    async def channel(self, name: str) -> Json: ...

    async def merge(self, name: str, path: str, value: Json) -> None:
        """Write one value into a channel."""
        ...

    async def save(self) -> WorldCheckpoint:
        """Memory, and the environment where its channels can be written (docs/design/checkpoints.md). Raises Failed."""
        ...

    async def changed(self, kept: WorldCheckpoint) -> bool:
        """Whether a document of the environment is another one than was saved. Raises Failed."""
        ...

    async def restore(self, kept: WorldCheckpoint) -> tuple[str, ...]:
        """Back to what was saved; then compared. Returns what differs, a line each. Raises Failed."""
        ...

    async def snapshot(self) -> dict[str, Json]:
        """Every channel's document; a channel that cannot be read is `{"error": ...}`."""
        ...

    async def begin(self) -> None:
        """Make the world ready: initial memory, the world's clock."""
        ...


# Who takes part in a run: agent, faults, archive, people.

Ask = Callable[[str, tuple[str, ...]], Awaitable[str | None]]
"""Question and choices -> one of the choices, or None."""

RepairHook = Callable[[Plan, str, Mapping[str, Json]], Awaitable[Mapping[str, Json] | bool]]
"""Plan, precondition, memory -> entries to write into memory; True: done; False: it cannot. May raise LeftOut."""


class LeftOut(Exception):  # noqa: N818 - no error: it says what becomes of the task
    """Whoever was to set a precondition up leaves the task out (`pytest.skip`); its text says why."""


class Agent(Protocol):
    """Who chooses the steps. Stateless over history (docs/design/steps-and-recovery.md)."""

    async def propose(self, plan: Plan, history: History, observe: Observe) -> Step | None:
        """The next step; None when there is no more to do."""
        ...


class Injector(Protocol):
    """Makes the declared faults happen."""

    def begin(self, at: float) -> None:
        """When the task began, on the monotonic clock: what the faults' times are counted from."""
        ...

    async def before_step(self, index: int, step: Step) -> None:
        """A step begins, perhaps again: strike with what strikes it. Raises Failed when that cannot be done."""
        ...

    def claim(self) -> bool:
        """Whether the page or browser that was lost just now was ended by a fault; each loss is claimed once."""
        ...

    def met(self) -> tuple[MetFault, ...]:
        """What became of each fault so far."""
        ...

    async def close(self) -> None:
        """Heal everything. Never raises."""
        ...


class Archive(Protocol):
    """Keeps what is left of a task under `errors/` (docs/design/evidence.md)."""

    def scratch(self, plan: Plan) -> Path:
        """A new empty folder for what the task writes while it runs."""
        ...

    def keep(self, plan: Plan, result: TaskResult, report: ErrorReport, evidence: Evidence, state: Snapshot) -> Path:
        """Write `errors/<key>` whole: redacted, inert, by rename. Returns its path."""
        ...

    def skipped(self, plan: Plan) -> None:
        """The task was left out: the scratch folder goes, an old directory stays."""
        ...

    def passed(self, plan: Plan, result: TaskResult) -> None:
        """The task passed: its old directory moves to `.previous`, the scratch folder goes."""
        ...


@dataclass(frozen=True, slots=True)
class Stage:
    """What belongs to one task alone, from its start to its end."""

    session: Session
    world: World
    injector: Injector


def _counted_nowhere(_url: str) -> None:
    """No site has a circuit."""


async def _nobodys(_url: str) -> None:
    """No service is kept here."""


async def _none_to_wait_for() -> None:
    """No service is kept here."""


@dataclass(frozen=True, slots=True)
class Ports:
    """All that a task runs on."""

    stage: Callable[[Plan, Path], Awaitable[Stage]]
    """Opens a browser context, a world and the faults; raises Failed. Files go into the folder."""
    agent: Agent
    archive: Archive
    clock: Clock
    emit: Callable[[Event], None]
    random: Random
    explain: Callable[[Failure], Failure] = lambda failure: failure
    """A network failure as what is known of the host's process makes it: a site that is down for good."""
    breaker: Callable[[str], Breaker | None] = _counted_nowhere
    """The circuit of the site at a URL; None where nothing is counted."""
    recover: Callable[[str], Awaitable[None]] = _nobodys
    """Wait until the service at a URL answers again, when it is one of ours and does not; never raises."""
    ready: Callable[[], Awaitable[None]] = _none_to_wait_for
    """Wait until the services of the task listen; one that was lost is started again. Raises Failed."""
    ask: Ask | None = None
    """Asks a person at a terminal; None where there is none."""
    repair: RepairHook | None = None
    """`pytest_taskspec_repair`: sets a precondition up in code."""
    witness: Callable[[Plan, TaskResult, Evidence, Snapshot], Path] | None = None
    """Keeps what a task that passed looked like at its end; may raise OSError. None: nothing is looked at."""
