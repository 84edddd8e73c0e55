"""`harness merge`: what it says of folders that can and cannot be put together."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.cli.main import app
from harness.history import load_run, save_run
from tests.unit.history.runs import execution, executions, failed, run


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The halves of a run."""
    monkeypatch.chdir(tmp_path)
    save_run(tmp_path / "1", run("20251116T090000-1", executions()[:9]))
    save_run(tmp_path / "2", run("20251116T090000-2", executions()[9:]))
    return tmp_path


def merge(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["merge", *arguments])


def test_two_halves(shards: Path) -> None:
    done = merge("1", "2")
    whole = load_run(shards / "merged")
    assert done.stdout == f"merged: run {whole.run}, of 2 folders: 7 passed, 10 failed, 1 skipped\n"
    assert len(whole.executions) == 19
    assert merge("2", "1", "1").stdout == done.stdout
    assert load_run(shards / "merged") == whole


def test_for_programs(shards: Path) -> None:
    found = json.loads(merge("1", "2", "3", "--json", "--output", "whole").stdout)
    assert found["tasks"] == {"passed": 7, "failed": 10, "not_judged": 0, "skipped": 1}
    assert found["merged_from"] == ["20251116T090000-1", "20251116T090000-2"]
    assert (found["output"], found["left_out"]) == ("whole", ["3: there is no such folder"])


def test_a_rerun_that_did_not_come_about_has_failed(shards: Path) -> None:
    save_run(shards / "1", run(parts=(execution(failed("T-1", "STEP_TIMEOUT"), "rerun"),)))
    counts = {"passed": 0, "failed": 1, "not_judged": 0, "skipped": 0}
    assert json.loads(merge("1", "--output", "out", "--json").stdout)["tasks"] == counts


def test_a_pipe_is_named_and_left_out(shards: Path) -> None:
    (shards / "1" / "allure-results").mkdir()
    os.mkfifo(shards / "1" / "allure-results" / "a-result.json")
    found = json.loads(merge("1", "2", "--json").stdout)
    assert found["left_out"] == ["1/allure-results/a-result.json: neither a file nor a folder"]
    assert "left out: 1/allure-results/a-result.json: neither" in merge("1", "2").stderr


def test_what_cannot_be_read_is_named_and_left_out(shards: Path) -> None:
    (shards / "3\x1b").mkdir()
    done = merge("1", "3\x1b")
    assert done.exit_code == 0
    assert done.stderr == "left out: 3 : neither .harness/history.sqlite3 nor history.sqlite3 is in it\n"
    assert load_run(shards / "merged").merged_from == ("20251116T090000-1",)


def test_strict(shards: Path) -> None:
    done = merge("1", "3", "--strict")
    assert done.exit_code == 1
    assert done.stderr.endswith("nothing was merged: --strict refuses to leave out a folder\n")
    assert not (shards / "merged").exists()


def test_nothing_to_merge(shards: Path) -> None:
    done = merge("3", "4")
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (1, "nothing was merged")


def test_an_output_that_is_a_project(shards: Path) -> None:
    done = merge("1", "--output", "2")
    assert done.exit_code == 1
    assert done.stderr == "2 is there, and was not made by `harness merge`; name a new folder with --output\n"
