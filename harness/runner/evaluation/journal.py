"""The lines of an evaluation: one for each trial, on the disk before the next trial begins."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from harness.model.evaluation import EvaluationTrial
from harness.runner.campaign.trials import BusyError
from harness.runner.evaluation.trials import Place

TRIALS = "trials.jsonl"


class JournalError(ValueError):
    """A file of trials with a line that is none: `file:line: what is wrong`."""


class TrialJournal:
    """The trials that were made. Only one process at a time has it open."""

    def __init__(self, file: BinaryIO, trials: list[EvaluationTrial]) -> None:
        self._file = file
        self.trials = trials
        self.by_place: dict[Place, list[EvaluationTrial]] = {}
        for each in trials:
            self.by_place.setdefault(each.place, []).append(each)

    def add(self, trial: EvaluationTrial) -> None:
        """Write a line, and wait until it is on the disk. Raises OSError."""
        self._file.write(trial.model_dump_json().encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.trials.append(trial)
        self.by_place.setdefault(trial.place, []).append(trial)


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
        yield TrialJournal(file, [*_read(folder / TRIALS, whole)])


def _read(file: Path, text: bytes) -> Iterator[EvaluationTrial]:
    for number, line in enumerate(text.splitlines(), 1):
        try:
            yield EvaluationTrial.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise JournalError(f"{file}:{number}: {where}: {first['msg']}") from None
