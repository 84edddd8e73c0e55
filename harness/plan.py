"""A task made ready to run: everything that can be decided before the first step is decided here."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.criteria import Criterion
from harness.recovery import Rulebook
from harness.spec.faults import Fault
from harness.spec.parts import ScoringCheckpoint
from harness.spec.steps import Step
from harness.spec.task import TaskSpec


@dataclass(frozen=True, slots=True)
class ReadyRepair:
    """A repair of the task, made ready (DESIGN 4.4)."""

    applies: frozenset[int]
    """Numbers of the preconditions that it repairs."""
    memory: dict[str, Any]
    steps: tuple[Step, ...]
    task: Plan | None
    """To run first, in the same world."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the engine runs. Frozen; `inputs`, `persona` and `env` are interpolated, `memory` is not yet."""

    spec: TaskSpec
    task_id: str
    key: str
    """Safe, unique directory name of this item under `errors/`."""
    world: str
    """World id (DESIGN 4.9)."""
    steps: tuple[Step, ...]
    preconditions: tuple[Criterion, ...]
    success_criteria: tuple[Criterion, ...]
    rulebook: Rulebook
    timeout: float
    step_timeout: float
    faults: tuple[Fault, ...] = ()
    """The task's own, and those of `--faults`."""
    fault_seed: int | None = None
    """What the faults' chances are drawn from."""
    folder: Path = Path()
    """Folder of the task's file; uploads stay inside it."""
    source: str = ""
    """The task's file, as shown to people."""
    start: datetime | None = None
    """The task's `time`: the world's clock, the browser's Date, the base of time_since."""
    scoring: tuple[ScoringCheckpoint, ...] = ()
    """References filled in."""
    relaxed: tuple[Criterion, ...] = ()
    """Of `fallback_plan`; empty unless it is enabled."""
    alternative: Plan | None = None
    """Of `fallback_plan`: what to run in the same world when this task failed."""
    repairs: tuple[ReadyRepair, ...] = ()
    fresh: bool = True
    """Whether the world is emptied first; False for a task that runs in the middle of another one."""
    base_url: str | None = None
    """What relative URLs are relative to."""
    agent: str | None = None
    """Name of the agent that chooses the steps; None: `steps` are played back."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    heal: bool = True
    strict: bool = False
    timeout_scale: float = 1.0
    """Of the run; for the steps that an agent proposes."""

    @property
    def all_secrets(self) -> tuple[str, ...]:
        """Those of the task, and of the tasks that may run inside of it: what is told of it shows their steps too."""
        inner = (self.alternative, *(repair.task for repair in self.repairs))
        return self.secrets + tuple(secret for plan in inner if plan is not None for secret in plan.all_secrets)


def new_run_id(now: datetime, pid: int) -> str:
    """Sortable and unique on one machine: time of day and process."""
    return f"{now:%Y%m%dT%H%M%S}-{pid}"
