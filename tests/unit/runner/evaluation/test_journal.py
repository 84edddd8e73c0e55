"""The lines of an evaluation: durable, whole, and of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.runner.campaign.trials import BusyError
from harness.runner.evaluation.journal import TRIALS, JournalError, opened
from tests.unit.runner.evaluation.lines import line

ONE, TWO = line("T", "a", 0, "p"), line("T", "a", 1, "v")


def test_what_was_written_is_there_again(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        journal.add(ONE)
        assert (tmp_path / TRIALS).read_bytes().count(b"\n") == 1  # before the next trial begins
        journal.add(TWO)
    with opened(tmp_path) as journal:
        assert journal.trials == [ONE, TWO]
        assert journal.by_place == {ONE.place: [ONE], TWO.place: [TWO]}


def test_a_line_that_was_being_written_is_removed(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        journal.add(ONE)
    file = tmp_path / TRIALS
    file.write_bytes(file.read_bytes() + TWO.model_dump_json().encode()[:40])
    with opened(tmp_path) as journal:
        assert journal.trials == [ONE]
        journal.add(TWO)
    with opened(tmp_path) as journal:
        assert journal.trials == [ONE, TWO]


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    (tmp_path / TRIALS).write_text(f"{ONE.model_dump_json()}\n{{}}\n", "utf-8")
    with pytest.raises(JournalError, match=rf"{TRIALS}:2: task_id: Field required"), opened(tmp_path):
        pass


def test_only_one_process_makes_the_trials(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(BusyError, match="another process"), opened(tmp_path):
        pass
