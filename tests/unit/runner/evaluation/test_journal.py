"""The lines of an evaluation: durable, whole, and of one process."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from harness.model.evaluation import EvaluationTrial
from harness.runner.campaign.trials import BusyError
from harness.runner.evaluation.run import TRIALS, JournalError, TrialJournal, opened
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


@pytest.mark.parametrize(
    ("several", "why"),
    [
        ([ONE, TWO], ""),
        ([ONE, TWO, line("T", "a", 1, "v", attempt=2)], ""),
        ([ONE, ONE], "2: trial 0 of T by a, clean, is there already. "),
        ([TWO, TWO], "2: trial 1 of T by a, clean, is attempt 1 after attempt 1"),
        ([TWO, line("T", "a", 1, "v", attempt=2), line("T", "a", 1, "p", attempt=3)], ""),
        ([TWO, line("T", "a", 1, "p", attempt=2), line("T", "a", 1, "p", attempt=3)], "3: .*, is there already"),
        ([line("T", "a", 1, "p", attempt=2)], "1: .*, is attempt 2 after attempt 0"),
        ([line("OTHER", "a", 0, "p")], "1: trial 0 of OTHER by a, clean, is none of this evaluation"),
        ([line("T", "b", 0, "p")], "1: .*, is none of this evaluation"),
        ([line("T", "a", 9, "p")], "1: .*, is none of this evaluation"),
        ([line("T", "a", 0, "p", fault="cut")], "1: trial 0 of T by a, cut, is none of this evaluation"),
        ([line("T", "a", 0, "p", seed=5)], "1: .*, has the seed 5, and not 0"),
    ],
)
def test_a_line_that_the_evaluation_has_not_written_is_named(
    several: list[EvaluationTrial], why: str, tmp_path: Path
) -> None:
    (tmp_path / TRIALS).write_text("".join(f"{each.model_dump_json()}\n" for each in several), "utf-8")
    seeds = {ONE.place: ONE.seed, TWO.place: TWO.seed}
    with opened(tmp_path) as journal, pytest.raises(JournalError, match=rf"{TRIALS}:{why}") if why else nullcontext():
        journal.check(seeds)


@pytest.mark.parametrize(
    ("was", "edited", "why"),
    [
        ('"thinking":3.0', '"thinking":NaN', "thinking: Input should be a finite number"),
        ('"cost_usd":0.01', '"cost_usd":Infinity', "models.cost_usd: Input should be a finite number"),
        ('Z",', '",', "started: Input should have timezone info"),
        ("{", "", "Invalid JSON"),
    ],
)
def test_what_cannot_be_is_no_line(was: str, edited: str, why: str, tmp_path: Path) -> None:
    (tmp_path / TRIALS).write_text(ONE.model_dump_json().replace(was, edited, 1) + "\n", "utf-8")
    with pytest.raises(JournalError, match=f"{TRIALS}:1: {why}"), opened(tmp_path):
        pass


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    full = pytest.raises(OSError, match=r"No space left on device: '.*trials\.jsonl'")
    with suppress(OSError), Path("/dev/full").open("ab") as file, full:  # to close it fails, too
        TrialJournal(tmp_path / TRIALS, file, []).add(ONE)
