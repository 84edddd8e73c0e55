"""What the engine needs from outside, as Protocols."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from harness.events import Event
from harness.failure import Failure, Outcome
from harness.plan import Plan
from harness.record import History, TaskResult
from harness.recovery import Capture, Random
from harness.report import ErrorReport
from harness.resilience import Clock
from harness.spec.steps import Step

Json = Any
"""A JSON value."""


@dataclass(frozen=True, slots=True)
class Item:
    """One artifact of the evidence: taken, skipped, or why not."""

    name: str
    """File name inside the artifact directory."""
    status: Literal["taken", "skipped", "missed"]
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """What could still be learnt of the browser. The files lie in `folder`, raw: not yet redacted, nor inert."""

    folder: Path
    items: tuple[Item, ...] = ()
    url: str | None = None
    console: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


class Session(Protocol):
    """One browser context with its pages; the engine's hands and eyes."""

    async def perform(self, step: Step, within: float, patience: float) -> Outcome:
        """Do one act, at most `within` seconds; look for its element at most `patience` seconds. Never raises."""
        ...

    async def text(self, selector: str, frame: str | None, patience: float) -> str | Failure:
        """Text of the first match (the value of a field); `element_not_found` when none comes."""
        ...

    async def read(self, function: str, selector: str | None, name: str | None, within: float) -> Json:
        """A page function of the assertion language, now. Raises Failed when the page cannot be read."""
        ...

    async def screenshot(self, name: str, within: float) -> Path | None:
        """Keep a screenshot by a name (`screenshot_id`); None when the page gives none."""
        ...

    async def renew(self, within: float) -> Failure | None:
        """Replace a tainted page: new context with the same storage, at the last URL (DESIGN 4.3, ring 2)."""
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


class World(Protocol):
    """Memory and environment of one task or episode (DESIGN 4.9). Channels raise Failed when unreadable."""

    def memory(self) -> Mapping[str, Json]: ...

    def remember(self, key: str, value: Json, source: str) -> None: ...

    def entries(self) -> dict[str, Json]:
        """Key -> MemoryKV entry (key, value, ts, source, confidence)."""
        ...

    async def channel(self, name: str) -> Json: ...

    async def merge(self, name: str, path: str, value: Json) -> None:
        """Write one value into a channel."""
        ...

    async def snapshot(self) -> dict[str, Json]:
        """Every channel's document; a channel that cannot be read is `{"error": ...}`."""
        ...

    async def begin(self) -> None:
        """Make the world ready: initial memory, the world's clock."""
        ...


class Agent(Protocol):
    """Who chooses the steps. Stateless over history (DESIGN 3)."""

    async def propose(self, plan: Plan, history: History) -> Step | None:
        """The next step; None when there is no more to do."""
        ...


class Injector(Protocol):
    """Makes the declared faults happen."""

    async def before_step(self, index: int) -> None:
        """Arm the faults of this step."""
        ...

    async def close(self) -> None:
        """Heal everything. Never raises."""
        ...


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Memory and environment at the end; None where the strategy does not want it."""

    memory: dict[str, Json] | None = None
    environment: dict[str, Json] | None = None


class Archive(Protocol):
    """Keeps what is left of a task under `errors/` (DESIGN 4.7)."""

    def scratch(self, plan: Plan) -> Path:
        """A new empty folder for what the task writes while it runs."""
        ...

    def keep(self, plan: Plan, result: TaskResult, report: ErrorReport, evidence: Evidence, state: Snapshot) -> Path:
        """Write `errors/<key>` whole: redacted, inert, by rename. Returns its path."""
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
