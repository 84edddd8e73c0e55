"""One evaluation under way: its trials, of which each is on the disk before the next begins, and its document."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from harness.model.evaluation import Evaluation, EvaluationTrial, first_problem
from harness.model.record import TaskResult
from harness.reporting.trajectory import AGENTS, FILE, TRAJECTORIES
from harness.resilience.replaced import try_lock
from harness.runner.campaign.trials import Attack, BusyError, FailedBefore, Outcome, PlannedTrial, trial_jobs
from harness.runner.evaluation.summary import Shape, summed_up
from harness.runner.evaluation.trials import EvaluationSize, Judging, Place, place_of, remaining, schedule
from harness.runner.trials import TrialRunner

TRIALS = "trials.jsonl"
_MEND = ". Remove the line, or begin a new evaluation without --resume"


class JournalError(ValueError):
    """A file of trials with a line that is none: `file:line: what is wrong`."""


class TrialJournal:
    """The trials that were made. Only one process at a time has it open."""

    def __init__(self, path: Path, file: BinaryIO, trials: list[EvaluationTrial]) -> None:
        self._path, self._file = path, file
        self.trials = trials
        self.by_place: dict[Place, list[EvaluationTrial]] = {}
        for each in trials:
            self.by_place.setdefault(each.place, []).append(each)

    def check(self, seeds: Mapping[Place, int]) -> None:
        """Raises JournalError for a line that this evaluation has not written. `seeds`: those of its trials."""
        made: dict[Place, EvaluationTrial] = {}
        for number, each in enumerate(self.trials, 1):
            if why := _foreign(each, made.get(each.place), seeds.get(each.place)):
                raise JournalError(f"{self._path}:{number}: {why}{_MEND}")
            made[each.place] = each

    def add(self, trial: EvaluationTrial) -> None:
        """Write a line, and wait until it is on the disk. Raises OSError, which names the file."""
        try:
            self._file.write(trial.model_dump_json().encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from None
        self.trials.append(trial)
        self.by_place.setdefault(trial.place, []).append(trial)


def _foreign(trial: EvaluationTrial, before: EvaluationTrial | None, seed: int | None) -> str:
    """Why the line is none of this evaluation; empty if it is one. `before`: the last attempt at the same trial."""
    name = f"trial {trial.number} of {trial.task_id} by {trial.agent}, {trial.fault or 'clean'}"
    if seed is None:
        return f"{name}, is none of this evaluation"
    if seed != trial.seed:
        return f"{name}, has the seed {trial.seed}, and not {seed}"
    if before is not None and before.outcome != "void":
        return f"{name}, is there already"
    if trial.attempt != (1 if before is None else before.attempt + 1):
        return f"{name}, is attempt {trial.attempt} after attempt {before.attempt if before else 0}"
    return ""


@contextmanager
def opened(folder: Path) -> Iterator[TrialJournal]:
    """Open the file of trials in the folder of an evaluation. Raises BusyError, JournalError or OSError.

    A last line without its end was being written when the process died: its trial is not made, and it is removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / TRIALS).open("a+b") as file:
        if not try_lock(file):
            raise BusyError(f"{folder}: another process makes the trials of this evaluation")
        file.seek(0)
        text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        if whole != text:
            file.truncate(len(whole))
        trials = []
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                trials.append(EvaluationTrial.model_validate_json(line))
            except ValidationError as error:
                raise JournalError(f"{folder / TRIALS}:{number}: {first_problem(error)}{_MEND}") from None
        yield TrialJournal(folder / TRIALS, file, trials)


def _kept_way(trajectories: Path, outcome: Outcome, folder: Path) -> str | None:
    """Copy the way of a trial's agent; returns the copy, relative to `folder`. None if no agent took one."""
    result = outcome.result if isinstance(outcome, FailedBefore) else outcome
    way = trajectories / result.key if isinstance(result, TaskResult) else None
    if way is None or not (way / FILE).is_file():
        return None
    kept = folder / TRAJECTORIES / way.name
    shutil.copytree(way, kept, dirs_exist_ok=True)
    return (kept / FILE).relative_to(folder).as_posix()


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
            way = _kept_way(runner.settings.root / AGENTS / self.run, outcome, judging.folder)
            trial = trial.model_copy(update={"trajectory": way})
            journal.add(trial)
            tell(trial)

        so_far = self.document(journal)
        repair = so_far is not None and bool(so_far.no_verdict)
        for turns in remaining(self.turns, journal.by_place, repair=repair):
            runner.run([*trial_jobs(turns, self.run, runner.settings, take)])

    def document(self, journal: TrialJournal) -> Evaluation | None:
        """The document with the results so far; None without any."""
        return summed_up(journal.trials, self.shape) if journal.trials else None
