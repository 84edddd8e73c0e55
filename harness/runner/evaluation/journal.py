"""The lines of an evaluation: one for each trial, on the disk before the next trial begins."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from harness.model.evaluation import EvaluationTrial, first_problem
from harness.runner.campaign.trials import BusyError
from harness.runner.evaluation.trials import Place

TRIALS = "trials.jsonl"


class JournalError(ValueError):
    """A file of trials with a line that is none: `file:line: what is wrong`."""


_MEND = ". Remove the line, or begin a new evaluation without --resume"


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
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(f"{folder}: another process makes the trials of this evaluation") from None
        file.seek(0)
        text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        if whole != text:
            file.truncate(len(whole))
        yield TrialJournal(folder / TRIALS, file, [*_read(folder / TRIALS, whole)])


def _read(file: Path, text: bytes) -> Iterator[EvaluationTrial]:
    for number, line in enumerate(text.splitlines(), 1):
        try:
            yield EvaluationTrial.model_validate_json(line)
        except ValidationError as error:
            raise JournalError(f"{file}:{number}: {first_problem(error)}{_MEND}") from None
