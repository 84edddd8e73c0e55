"""Runs one campaign: its attacks, its trials, and the document at any time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from harness.runner.campaign import summary as summing
from harness.runner.campaign.document import Campaign, Trial
from harness.runner.campaign.trials import (
    Attack,
    Outcome,
    PlannedTrial,
    ends_services,
    judge_trial,
    trial_jobs,
    turns,
)
from harness.runner.trials import TrialRunner
from harness.spec.fault_plan import LoadedFaultPlan


class Size(Struct, frozen=True):
    """How much is tried."""

    trials: int
    clean: int
    seed: int


@dataclass
class Running:
    """A campaign under way. What was done stays, however it ends."""

    loaded: LoadedFaultPlan
    attacks: Sequence[Attack]
    size: Size
    run: str
    folder: Path
    """The folder of its failures."""
    done: list[Trial] = field(default_factory=list)

    @property
    def schedule(self) -> list[PlannedTrial]:
        return list(turns(self.attacks, trials=self.size.trials, clean=self.size.clean, seed=self.size.seed))

    @property
    def ends_services(self) -> bool:
        """Whether it changes services of the project, which other campaigns would notice."""
        return ends_services(self.attacks)

    def make(self, runner: TrialRunner, tell: Callable[[Trial], None]) -> None:
        """Make the trials; `tell` receives each one that is over."""

        def take(turn: PlannedTrial, outcome: Outcome) -> None:
            self.done.append(judge_trial(turn, outcome, self.folder))
            tell(self.done[-1])

        runner.run([*trial_jobs(self.schedule, self.run, runner.settings, take)])

    def document(self, started: datetime, ended: datetime, *, artifacts: str, interrupted: bool) -> Campaign:
        """The document with the results so far."""
        places = [(each.attack.task.spec.task_id, each.attack.name or None, each.number) for each in self.schedule]
        done = sorted(self.done, key=lambda each: places.index((each.task_id, each.fault, each.number)))
        cells = summing.cells(self.attacks, done)
        sums, plan = summing.totals(cells, done), self.loaded.plan
        clean, _ = summing.split(done)
        return Campaign(
            name=self.loaded.name,
            goal=plan.goal,
            source=self.loaded.source,
            run=self.run,
            started=started,
            seconds=round((ended - started).total_seconds(), 3),
            seed=self.size.seed,
            trials=self.size.trials,
            clean_trials=self.size.clean,
            interrupted=interrupted,
            artifacts=artifacts,
            unmet=summing.gate_failures(done, plan.gate, sums),
            gate=plan.gate,
            totals=sums,
            tasks=summing.tasks(self.attacks, done),
            cells=cells,
            confusion=summing.confusion(cells),
            clean=tuple(clean),
        )
