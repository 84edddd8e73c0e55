"""Who takes part in a run: agent, faults, archive, people."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.events import Event
from harness.plan import Plan
from harness.ports.session import Evidence, Observe, Session
from harness.ports.world import Json, Snapshot, World
from harness.record import History, MetFault, TaskResult
from harness.recovery import Random
from harness.recovery.failure import Failure
from harness.report import ErrorReport
from harness.resilience import Clock
from harness.resilience.breaker import Breaker
from harness.spec.steps import Step

Ask = Callable[[str, tuple[str, ...]], Awaitable[str | None]]
"""Question and choices -> one of the choices, or None."""

RepairHook = Callable[[Plan, str, Mapping[str, Json]], Awaitable[Mapping[str, Json] | bool]]
"""Plan, precondition, memory -> entries to write into memory; True: done; False: it cannot. May raise LeftOut."""


class LeftOut(Exception):  # noqa: N818 - no error: it says what becomes of the task
    """Whoever was to set a precondition up leaves the task out (`pytest.skip`); its text says why."""


class Agent(Protocol):
    """Who chooses the steps. Stateless over history (DESIGN 3)."""

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
    """Keeps what is left of a task under `errors/` (DESIGN 4.7)."""

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
