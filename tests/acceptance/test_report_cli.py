"""`harness report` as a command; Allure is a stand-in in the project's node_modules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.warm import harness
from tests.unit.reporting.test_allure_results import result
from tests.unit.reporting.test_npm import program


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with results, one of them half-written."""
    script = 'if [ "$1" = --version ]; then echo 3.18.0; else mkdir -p "$6"; echo "<head></head>" > "$6/index.html"; fi'
    program(tmp_path / "node_modules/.bin/allure", script)
    (tmp_path / "pyproject.toml").write_text("[tool.harness]\n")
    result(tmp_path / "allure-results", "a")
    (tmp_path / "allure-results/b-result.json").write_text('{"uuid"')
    return tmp_path


def test_what_was_left_out_is_named(folder: Path) -> None:
    done = harness("report", cwd=folder)
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].startswith("left out: b-result.json: not JSON, maybe half-written")
    assert done.stdout.splitlines()[1] == "report: allure-report/index.html (1 results, Allure 3.18.0)"


def test_json_stands_alone(folder: Path) -> None:
    done = harness("report", "--json", cwd=folder)
    document = json.loads(done.stdout)
    assert (document["report"], document["results"], document["allure"]) == ("allure-report/index.html", 1, "3.18.0")
    assert len(document["left_out"]) == 1


def test_without_results_it_says_what_to_do(tmp_path: Path) -> None:
    done = harness("report", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "no Allure results in allure-results: run pytest with --alluredir=allure-results\n"


def test_the_browser_opens_one_file(folder: Path) -> None:
    opened = folder / "opened"
    browser = program(folder / "browser", f'echo "$1" > "{opened}"')
    done = harness("report", "--single-file", "--open", cwd=folder, BROWSER=str(browser))
    assert done.returncode == 0
    assert opened.read_text().strip() == (folder / "allure-report/index.html").as_uri()


def test_history_lies_with_the_project(folder: Path) -> None:
    (folder / "deep").mkdir()
    done = harness("report", "--results", "../allure-results", "--output", "out", cwd=folder / "deep")
    assert done.returncode == 0
    assert (folder / ".harness/allure-history.jsonl").is_file()
    assert (folder / "deep/out/index.html").is_file()
