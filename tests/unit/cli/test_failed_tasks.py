"""Failures out of directories: which of them are of the last run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli.triage import of_directories
from harness.reporting.files import mark
from tests.unit.cli.test_show import keep


def kept(root: Path, name: str, run: str | None) -> None:
    """A failure of a run; of none: without a manifest."""
    folder = keep(root / name, task_id=name)
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps({"task_id": name, "run": run}), "utf-8") if run else manifest.unlink()


@pytest.mark.parametrize("foreign", ["99999999T999999-1", "29990101T000000-1", "zzz\x1b[2J", "unknown"])
def test_a_directory_that_names_no_run_hides_nothing(tmp_path: Path, foreign: str) -> None:
    kept(tmp_path, "T-1", "20251116T090000-7")
    kept(tmp_path, "T-2", "20251116T090000-7")
    kept(tmp_path, "T-0", "20251115T090000-7")
    kept(tmp_path, "X-1", foreign)
    found = of_directories(tmp_path)
    assert found.run == "20251116T090000-7"
    assert [each.task_id for each in found.troubles] == ["T-1", "T-2"]
    other, older = found.notes
    assert other.startswith("left out: ")
    assert "X-1: its manifest names " in other
    assert "\x1b" not in other
    assert older.startswith("left out: failures of earlier runs (1)")


def test_where_no_directory_names_a_run_they_are_all_there_is(tmp_path: Path) -> None:
    kept(tmp_path, "T-1", None)
    kept(tmp_path, "T-2", None)
    found = of_directories(tmp_path)
    assert (found.run, len(found.troubles), found.notes) == ("unknown", 2, ())


def test_a_merged_run_is_a_run(tmp_path: Path) -> None:
    kept(tmp_path, "T-1", "20251116T090000-7")
    kept(tmp_path, "X-1", "unknown")
    mark(tmp_path / "T-1", "20251116T090000-merged-6e4b2c1a", counts=True)
    kept(tmp_path, "T-0", "20251115T090000-7")
    found = of_directories(tmp_path)
    assert found.run == "20251116T090000-merged-6e4b2c1a"
    assert [each.task_id for each in found.troubles] == ["T-1"]
    assert len(found.notes) == 2
