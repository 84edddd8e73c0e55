"""Which runs stay."""

from __future__ import annotations

from pathlib import Path

from harness.reporting.history.file import open_writing, place_of
from harness.reporting.history.reading import recent_runs
from harness.reporting.history.rows import prune
from harness.reporting.history.writing import save_run
from tests.unit.reporting.history.runs import run


def test_the_run_that_has_just_ended_stays_whatever_its_clock_says(tmp_path: Path) -> None:
    """The clock of the machine went back: by their times the other runs are newer."""
    for name in ("20260101T000000-1", "20260201T000000-2", "20250101T000000-3"):
        save_run(tmp_path, run(name))
    database = open_writing(place_of(tmp_path))
    gone = prune(database, 1, but="20250101T000000-3")
    database.close()
    assert gone == ("20260101T000000-1",)
    assert {each.run for each in recent_runs(tmp_path)} == {"20260201T000000-2", "20250101T000000-3"}
