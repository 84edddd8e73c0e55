"""Step groups in a project: run, listed, and told with the lines of both files."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from tests.acceptance.warm import warm

GROUP = """description: Looks for an element.
parameters: {what: {description: A selector}}
steps: [{act: wait, selector: "${with.what}", timeout: 1}]
outputs: {found: "count('${with.what}')"}
"""
TASK = """task_id: T
goal: Looks twice
steps:
  - {act: open, url: /}
  - {use: look, with: {what: "#a"}}
  - {act: assert, expr: "mem('look.found') == 1"}
  - {use: look, with: {what: "#b"}, remember: {b: found}}
"""


@pytest.fixture
def folder(tmp_path: Path, httpserver: HTTPServer) -> Path:
    httpserver.expect_request("/").respond_with_data("<!doctype html><p id=a>a", content_type="text/html")
    (tmp_path / "pyproject.toml").write_text(f'[tool.harness]\nbase_url = "{httpserver.url_for("")}"\n', "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:hypothesispytest -p no:faker\n", "utf-8")
    for name, text in {"steps/look.steps.yaml": GROUP, "tasks/t.task.yaml": TASK}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def test_a_failure_in_a_group_names_the_lines_of_both_files(folder: Path) -> None:
    done = warm().run("pytest", "--task-github-annotations", cwd=folder)
    assert "1 failed" in done.stdout, done.stdout + done.stderr
    assert "steps/look.steps.yaml:3 (used in tasks/t.task.yaml:7)" in done.stdout
    assert "::error file=steps/look.steps.yaml,line=3" in done.stdout
    assert "STEP_TIMEOUT at step 3 (of 0-3): wait #b" in done.stdout


def test_a_group_is_listed_checked_and_no_task(folder: Path) -> None:
    listed = warm().run("tests.acceptance.command", "validate", ".", "--list", cwd=folder)
    assert "use: look  steps/look.steps.yaml  1 step\n    Looks for an element.\n" in listed.stdout, listed.stderr
    assert "    with what (text, required): A selector\n    output found = count('${with.what}')\n" in listed.stdout
    assert "T  tasks/t.task.yaml  4 steps\n    Looks twice\n" in listed.stdout
    named = warm().run("pytest", "steps/look.steps.yaml", cwd=folder)
    assert "look.steps.yaml is a step group, not a task: a task runs its steps with `use: look`" in named.stdout
    assert "Traceback" not in named.stdout
    (folder / "steps" / "look.steps.yaml").write_text(GROUP.replace("act: wait", "act: wit"), "utf-8")
    checked = warm().run("tests.acceptance.command", "validate", "steps", cwd=folder)
    assert checked.returncode == 1
    assert "1 step group, 1 with errors" in checked.stdout
