"""Runs one campaign: its attacks, its trials one by one, and the document at any time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from harness.runner.campaign import summary as summing
from harness.runner.campaign.document import Campaign, Trial
from harness.runner.campaign.trials import Attack, PlannedTrial, RunTask, ends_services, make_trials, turns
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

    def trials(self, run_task: RunTask) -> Iterator[Trial]:
        """Make the trials, each when it is requested."""
        for trial in make_trials(self.schedule, run_task, self.run, self.folder):
            self.done.append(trial)
            yield trial

    def document(self, started: datetime, ended: datetime, *, artifacts: str, interrupted: bool) -> Campaign:
        """The document with the results so far."""
        cells = summing.cells(self.attacks, self.done)
        sums, plan = summing.totals(cells, self.done), self.loaded.plan
        clean, _ = summing.split(self.done)
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
            unmet=summing.gate_failures(self.done, plan.gate, sums),
            gate=plan.gate,
            totals=sums,
            tasks=summing.tasks(self.attacks, self.done),
            cells=cells,
            confusion=summing.confusion(cells),
            clean=tuple(clean),
        )
