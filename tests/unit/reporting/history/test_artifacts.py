"""Where a task's files are now, after other runs, on another machine, and of a history that lies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.reporting.history.reading import kept_place, load_run
from harness.reporting.history.record import Outcome
from harness.reporting.history.writing import save_run
from tests.unit.reporting.history.runs import execution, failed, run

RUN = run(parts=[]).run


def directory(root: Path, place: str, by: str = RUN) -> Path:
    """As a run leaves one."""
    path = root / place
    path.mkdir(parents=True)
    (path / "manifest.json").write_text(json.dumps({"run": by}), "utf-8")
    return path


def place(root: Path, artifacts: str = "errors/T-1", outcome: Outcome = "failed", number: int = 1) -> str | None:
    """What is read of a run that left its artifacts there."""
    found = execution(failed("T-1", "STEP_TIMEOUT", artifacts=artifacts), outcome, number)
    save_run(root, run(parts=[found]))
    (read,) = load_run(root).executions
    assert read.record is not None
    return read.record.artifacts


def test_kept_relative_to_the_project(tmp_path: Path) -> None:
    assert kept_place(str(tmp_path / "errors" / "T-1"), tmp_path) == "errors/T-1"
    assert kept_place("/elsewhere/T-1", tmp_path) == "/elsewhere/T-1"


def test_still_where_it_was(tmp_path: Path) -> None:
    path = directory(tmp_path, "errors/T-1")
    assert place(tmp_path) == str(path)


def test_the_folder_went_to_another_machine_without_it(tmp_path: Path) -> None:
    assert place(tmp_path) == str(tmp_path / "errors" / "T-1")


def test_moved_away_by_a_later_run(tmp_path: Path) -> None:
    directory(tmp_path, "errors/T-1", by="20251117T090000-1")
    path = directory(tmp_path, f"errors/.previous/{RUN}/T-1")
    assert place(tmp_path) == str(path)


def test_dropped_by_later_runs(tmp_path: Path) -> None:
    """What lies there now is of another failure."""
    directory(tmp_path, "errors/T-1", by="20251117T090000-1")
    assert place(tmp_path) is None


def test_of_an_execution_that_was_followed_by_another(tmp_path: Path) -> None:
    last = directory(tmp_path, "errors/T-1")
    first = directory(tmp_path, f"errors/.previous/{RUN}/T-1")
    second = directory(tmp_path, f"errors/.previous/{RUN}/T-1-2")
    assert place(tmp_path, outcome="rerun") == str(first)
    assert place(tmp_path, outcome="rerun", number=2) == str(second)
    assert place(tmp_path, number=3) == str(last)


def test_a_place_of_its_own_outside_of_the_project(tmp_path: Path) -> None:
    assert place(tmp_path, "/elsewhere/T-1") == "/elsewhere/T-1"


@pytest.mark.parametrize("way", ["../outside", "errors/../../outside", "link/T-1"])
def test_a_way_out_of_the_folder_leads_nowhere(tmp_path: Path, way: str) -> None:
    root = tmp_path / "project"
    root.mkdir()
    directory(tmp_path, "outside")
    (root / "link").symlink_to(tmp_path)
    assert place(root, way) is None
