"""Results of several runs in one folder: which is the last is known even when it was killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.reporting.allure.results import read_results
from tests.acceptance.conftest import Project

CONFTEST = """
import os


def pytest_runtest_call(item):
    if item.name == "SLOW" and "DIE" in os.environ:
        os._exit(9)
"""


def runs_of(folder: Path) -> list[str]:
    documents = [json.loads(file.read_text("utf-8")) for file in folder.glob("*-result.json")]
    return sorted(label["value"] for each in documents for label in each["labels"] if label["name"] == "run")


@pytest.mark.thorough
def test_a_run_that_was_killed_is_the_last_one(project: Project, monkeypatch: Any) -> None:
    project.task("A")
    project.task("SLOW", depends_on=["A"])
    (project.path / "conftest.py").write_text(CONFTEST)
    project.run("--alluredir=results", "A.task.json")
    folder = project.path / "results"
    monkeypatch.setenv("DIE", "1")
    project.run("--alluredir=results")
    first, second = runs_of(folder)
    found = read_results(folder)
    assert (len(found.tests), found.run) == (1, second)
    assert first < second
    assert f"Run={second}\n" in (folder / "environment.properties").read_text("utf-8")
    assert found.left_out == ("1 of 2 results, which are from earlier runs (--all-runs keeps them)",)
