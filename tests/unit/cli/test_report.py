"""`harness report` says when the results are of more than one run."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from harness.cli.report import earlier_results

BEGAN = datetime(2026, 5, 1, 12, tzinfo=UTC)


def results(folder: Path, *seconds: float, run: str = "20260501T120000-77") -> Path:
    """One result for each number: so many seconds after the last run began."""
    for number, second in enumerate(seconds):
        document = {"name": "T", "start": int((BEGAN.timestamp() + second) * 1000)}
        (folder / f"{number}-result.json").write_text(json.dumps(document), "utf-8")
    (folder / "environment.properties").write_text(f"Browser=chromium\nRun={run}\n", "utf-8")
    return folder


def test_results_of_earlier_runs_are_counted(tmp_path: Path) -> None:
    assert list(earlier_results(results(tmp_path, -60, -50, 0.3, 4))) == [
        "2 of 4 results are of earlier runs: for the last run alone, run pytest with --clean-alluredir"
    ]


def test_of_one_run_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "broken-result.json").write_text("[", "utf-8")
    assert list(earlier_results(results(tmp_path, 0, 4))) == []


def test_a_run_that_cannot_be_told_says_nothing(tmp_path: Path) -> None:
    assert list(earlier_results(results(tmp_path, -60, 4, run="20269999T000000-1"))) == []
    (tmp_path / "environment.properties").unlink()
    assert list(earlier_results(tmp_path)) == []
