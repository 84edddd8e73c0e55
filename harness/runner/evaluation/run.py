"""Runs one evaluation: its trials one by one, each written before the next, and the document at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.model.evaluation import Evaluation, EvaluationTrial
from harness.runner.campaign.trials import Attack, PlannedTrial, RunTask, run_turn
from harness.runner.evaluation.journal import TrialJournal
from harness.runner.evaluation.summary import Shape, summed_up
from harness.runner.evaluation.trials import EvaluationSize, Judging, Place, place_of, remaining, schedule


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

    def trials(
        self, run_task: RunTask, judging: Judging, journal: TrialJournal, check: Callable[[], None] = lambda: None
    ) -> Iterator[EvaluationTrial]:
        """Make the trials that are still to be made, each when it is requested. Raises OSError.

        `check` raises an error if the trial must not count, because something is not as it was before.
        """
        so_far = self.document(journal)
        repair = so_far is not None and bool(so_far.no_verdict)
        for turn in remaining(self.turns, journal.by_place, repair=repair):
            trial = judging.line(turn, run_turn(turn, run_task, self.run))
            if trial.code == "INTERRUPTED":
                raise KeyboardInterrupt  # the trial was not made: it is made when the evaluation goes on
            check()
            journal.add(trial)
            yield trial

    def document(self, journal: TrialJournal) -> Evaluation | None:
        """The document with the results so far; None without any."""
        return summed_up(journal.trials, self.shape) if journal.trials else None
