"""A task made ready to run: everything that can be decided before the first step is decided here."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.criteria import Criterion
from harness.recovery import Rulebook
from harness.spec.faults import Fault
from harness.spec.source import Origin
from harness.spec.steps import Step
from harness.spec.task import ScoringCheckpoint, TaskSpec


@dataclass(frozen=True, slots=True)
class ReadyRepair:
    """A repair of the task, made ready (docs/design/steps-and-recovery.md)."""

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
    """World id (docs/design/isolation-and-state.md)."""
    steps: tuple[Step, ...]
    preconditions: tuple[Criterion, ...]
    success_criteria: tuple[Criterion, ...]
    rulebook: Rulebook
    timeout: float
    step_timeout: float
    faults: tuple[Fault, ...] = ()
    """The task's own, and those of `--task-faults`."""
    fault_seed: int | None = None
    """What the faults' chances are drawn from."""
    folder: Path = Path()
    """Folder of the task's file; uploads stay inside it."""
    source: str = ""
    """The task's file, as shown to people."""
    origin: Origin | None = field(default=None, repr=False, compare=False)
    """Where its keys stand; None for a task made in Python."""
    start: datetime | None = None
    """The task's `time`: the world's clock, the browser's Date, the base of time_since."""
    scoring: tuple[ScoringCheckpoint, ...] = ()
    """References filled in."""
    relaxed: tuple[Criterion, ...] = ()
    """The relaxed criteria of `fallback_plan`; empty unless it is enabled."""
    alternative: Plan | None = None
    """What `fallback_plan` runs in the same world when this task failed."""
    repairs: tuple[ReadyRepair, ...] = ()
    fresh: bool = True
    """Whether the world is emptied first; False for a task that runs in the middle of another one."""
    last_of_episode: bool = True
    """Whether no task of its episode follows, as far as is known; a slot is kept for one that follows."""
    base_url: str | None = None
    """What relative URLs are relative to."""
    agent: str | None = None
    """Name of the agent that chooses the steps; None: `steps` are played back."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    heal: bool = True
    strict: bool = False
    timeout_scale: float = 1.0
    """Of the run; for the steps that an agent proposes."""
    in_full: bool = False
    """Recorded with snapshots from the start, whatever the settings say."""

    @property
    def steps_source(self) -> str:
        """The file that its steps stand in: beside a `task_spec.json` another one."""
        return self.source if self.origin is None else self.origin.file_of("steps")

    def place_of(self, index: int | None) -> str:
        """The task's file; of a step that stands in another file, that file and line."""
        if self.origin is None or index is None or not 0 <= index < len(self.steps) or self.steps_source == self.source:
            return self.source
        return self.origin.place(("steps", index))

    @property
    def expect_timeout(self) -> float:
        """Seconds that an `assert` and a success criterion wait until they hold."""
        return self.spec.expect_timeout * self.timeout_scale

    @property
    def all_secrets(self) -> tuple[str, ...]:
        """Those of the task, and of the tasks that may run inside of it: what is told of it shows their steps too."""
        inner = (self.alternative, *(repair.task for repair in self.repairs))
        return self.secrets + tuple(secret for plan in inner if plan is not None for secret in plan.all_secrets)


def new_run_id(now: datetime, pid: int) -> str:
    """Sortable and unique on one machine: time of day and process."""
    return f"{now:%Y%m%dT%H%M%S}-{pid}"
