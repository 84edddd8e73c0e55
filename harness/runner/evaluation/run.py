"""Runs one evaluation: its trials, each written when it has ended, and the document at any time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.model.evaluation import Evaluation, EvaluationTrial
from harness.runner.campaign.trials import Attack, Outcome, PlannedTrial, trial_jobs
from harness.runner.evaluation.journal import TrialJournal
from harness.runner.evaluation.summary import Shape, summed_up
from harness.runner.evaluation.trials import EvaluationSize, Judging, Place, place_of, remaining, schedule
from harness.runner.trials import TrialRunner


@dataclass(frozen=True)
class EvaluationRun:
    """An evaluation under way. What was done stays, however it ends."""

    attacks: Mapping[str, Sequence[Attack]]
    """Agent -> what it is tried on."""
    size: EvaluationSize
    run: str

    @property
    def turns(self) -> list[PlannedTrial]:
        return list(schedule(self.attacks, self.size))

    @property
    def seeds(self) -> dict[Place, int]:
        """The seed of each trial."""
        return {place_of(turn): turn.seed for turn in self.turns}

    @property
    def shape(self) -> Shape:
        one = next(iter(self.attacks.values()))
        return Shape(
            agents=tuple(self.attacks),
            task_ids=tuple(dict.fromkeys(each.task.spec.task_id for each in one)),
            faults=tuple(dict.fromkeys(each.name for each in one if each.name)),
            trials=self.size.trials,
            seed=self.size.seed,
            planned=len(one) * len(self.attacks) * self.size.trials,
        )

    def make(
        self,
        runner: TrialRunner,
        judging: Judging,
        journal: TrialJournal,
        tell: Callable[[EvaluationTrial], None],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Make the trials that are still to be made; `tell` receives each one that is over. Raises OSError.

        `check` raises an error if the trial must not count, because something is not as it was before.
        """

        def take(turn: PlannedTrial, outcome: Outcome) -> None:
            trial = judging.line(turn, outcome)
            check()
            journal.add(trial)
            tell(trial)

        so_far = self.document(journal)
        repair = so_far is not None and bool(so_far.no_verdict)
        for turns in remaining(self.turns, journal.by_place, repair=repair):
            runner.run([*trial_jobs(turns, self.run, runner.settings, take)])

    def document(self, journal: TrialJournal) -> Evaluation | None:
        """The document with the results so far; None without any."""
        return summed_up(journal.trials, self.shape) if journal.trials else None
