"""Cases from a data file, with made-up values and moments, in whole runs."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.acceptance.conftest import Project
from tests.acceptance.warm import warm

USERS = "name,query,expected\nann,mouse,mouse\nbob,mouse,card\ncarl,${inputs.word},mouse\n"
TASK = """
task_id: SEARCH
seed: 7
inputs: {mail: "${fake.email}", day: "${now | %Y-%m-%d}"}
parametrize: {file: data/users.csv, id: name}
error_recovery: {on_element_not_found: {wait_seconds: 1}}
steps:
  - {act: open, url: "http://shop.local/"}
  - {act: type, selector: "#search-box", value: "${inputs.mail} ${fake.email} ${inputs.day}"}
  - {act: assert, expr: "value('#search-box') == '${fake.email} ${inputs.mail} ${now | %Y-%m-%d}'"}
  - {act: open, url: "http://shop.local/search?q=${param.query}"}
success_criteria: ["url() includes 'q=${param.expected}'"]
"""


EXAMPLES = Path(__file__).parents[2] / "examples"


def run(folder: Path, *arguments: str) -> CompletedProcess[str]:
    return warm().run("pytest", *arguments, cwd=folder)


def failed(folder: Path) -> dict[str, dict[str, Any]]:
    """Task id -> manifest of the failed tasks."""
    found = [json.loads(each.read_text("utf-8")) for each in (folder / "errors").glob("*/manifest.json")]
    return {each["task_id"]: each for each in found}


@pytest.mark.thorough  # tests/unit/spec/test_data_file.py
def test_the_example_passes(project: Project) -> None:
    for name in ("DATA-2025-001.task.yaml", "customers.csv", "conftest.py"):
        shutil.copy(EXAMPLES / name, project.path)
    done = run(project.path)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.thorough
def test_cases_of_a_data_file_run_are_repeated_and_judged_again_like_listed_ones(project: Project) -> None:
    folder = project.path
    (folder / "search.task.yaml").write_text(TASK, "utf-8")
    (folder / "data").mkdir()
    users = folder / "data/users.csv"
    users.write_text(USERS, "utf-8")
    broken = run(folder)
    assert "data/users.csv:4:6: parametrize[2].query: ${inputs.word}: `parametrize` can refer to" in broken.stdout
    users.write_text(USERS.replace("${inputs.word}", "mouse"), "utf-8")
    before = datetime.now(UTC)
    parallel = run(folder, "-n", "2")
    assert "1 failed, 2 passed" in parallel.stdout, parallel.stdout + parallel.stderr
    ((name, manifest),) = failed(folder).items()
    assert name == "SEARCH[bob]"
    made = manifest["grading"]["generated"]
    assert "@" in made["${fake.email}"]
    assert made["${now | %Y-%m-%d}"] in {each.astimezone().strftime("%Y-%m-%d") for each in (before, datetime.now(UTC))}
    again = run(folder, "--lf", "-v")
    assert "SEARCH[bob] FAILED" in again.stdout
    assert "1 failed" in again.stdout
    assert failed(folder)[name]["grading"]["generated"]["${fake.email}"] == made["${fake.email}"]
    (folder / "search.task.yaml").write_text(TASK.replace("param.expected", "param.query"), "utf-8")
    regraded = warm().run("tests.acceptance.command", "regrade", "errors", cwd=folder)
    assert "newly passing" in regraded.stdout, regraded.stdout + regraded.stderr
