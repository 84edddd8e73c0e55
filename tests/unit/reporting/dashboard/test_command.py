"""`harness dashboard`, from a history on disk."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from harness.cli.main import app
from harness.reporting.history.writing import save_run
from tests.unit.reporting.history.runs import run, several


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.harness]\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["dashboard", *arguments])


@pytest.fixture
def kept(project: Path) -> Path:
    for each in several(3):
        save_run(project, each)
    return project


def test_the_page_is_written_beside_the_project(kept: Path) -> None:
    found = call()
    assert (found.exit_code, found.output) == (0, "dashboard: dashboard.html\n")
    assert "Element not found: #checkout" in (kept / "dashboard.html").read_text("utf-8")


def test_an_earlier_run_goes_where_it_is_asked_to(kept: Path) -> None:
    assert call("--run", "last-2", "--output", "out/d.html").exit_code == 0
    text = (kept / "out/d.html").read_text("utf-8")
    assert several(3)[0].run in text
    assert "This is the only run in the history so far" in text


def test_json_is_the_data_and_writes_no_page(kept: Path) -> None:
    found = call("--json")
    assert json.loads(found.output)["run"] == several(3)[-1].run
    assert not (kept / "dashboard.html").exists()


def test_without_a_history_it_says_so(project: Path) -> None:
    found = call()
    assert found.exit_code == 1
    assert "no history" in found.output


def test_a_run_that_is_not_there_is_named(kept: Path) -> None:
    found = call("--run", "nope")
    assert found.exit_code == 1
    assert "'nope'" in found.output


@pytest.mark.parametrize("option", [("--open",), ("--output", "x.html")])
def test_json_and_a_page_exclude_each_other(kept: Path, option: tuple[str, ...]) -> None:
    found = call("--json", *option)
    assert found.exit_code == 1
    assert "--json prints the data" in found.output


def test_a_page_that_cannot_be_written_is_said(kept: Path) -> None:
    (kept / "dir").mkdir()
    found = call("--output", "dir")
    assert found.exit_code == 1
    assert "dir cannot be written" in found.output


def test_it_is_opened_when_asked(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("typer.launch", opened.append)
    assert call("--open").exit_code == 0
    assert opened == [(kept / "dashboard.html").as_uri()]


def test_artifacts_are_linked_from_where_the_page_is(kept: Path) -> None:
    found = several(4)[-1]
    broken = next(each for each in found.executions if each.outcome == "failed")
    folder = kept / "errors" / broken.task_id
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"run": found.run, "task_id": broken.task_id}), "utf-8")
    (folder / "trace.zip").write_bytes(b"x")
    save_run(kept, found)
    assert call("--output", "site/d.html").exit_code == 0
    text = (kept / "site/d.html").read_text("utf-8")
    links = re.findall(r'href="([^"#][^"]*trace\.zip)"', text)
    assert links
    assert all((kept / "site" / link).resolve() == folder / "trace.zip" for link in links)


def test_a_merged_run_is_told(kept: Path) -> None:
    save_run(kept, run("20251201T090000-1", merged_from=("a", "b")))
    assert json.loads(call("--json").output)["notices"][0] == "This run was merged from 2 runs: a, b."
