"""last-run.json."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.reporting.task_record import load_last_run, task_record, write_last_run
from harness.reporting.telling import story_of
from tests.unit.reporting import sample


def test_written_and_read(tmp_path: Path) -> None:
    plan = sample.plan()
    records = [task_record(story_of(plan, sample.completed(plan))), task_record(story_of(plan, sample.failed(plan)))]
    path = tmp_path / ".harness" / "last-run.json"
    write_last_run(path, "run-1", records, sample.START)
    read = load_last_run(path)
    assert read is not None
    assert (read.run, read.finished, read.results) == ("run-1", sample.START, tuple(records))
    document = json.loads(path.read_text())
    assert document["error_metrics"]["failed"] == 1
    assert [result["final_state"] for result in document["results"]] == ["completed", "failed"]
    assert document["results"][1]["source"] == "tasks/b1.task.yaml"
    assert [p.name for p in path.parent.iterdir()] == ["last-run.json"]


def test_no_run_yet(tmp_path: Path) -> None:
    assert load_last_run(tmp_path / "last-run.json") is None


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "last-run.json").write_text("[]")
    with pytest.raises(ValueError, match="LastRun"):
        load_last_run(tmp_path / "last-run.json")
