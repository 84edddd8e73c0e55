"""The hint of a failed comparison, on a real page: what would hold in its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from tests.acceptance.warm import warm

PAGE = "<!doctype html><title>Shop</title><h1>Site</h1><h1 hidden>Sold</h1><h1 id=a>Stock</h1><p id=n>$24.99</p>"
TASK = """task_id: {name}
steps:
  - {{act: open, url: /}}
{end}
"""
TASKS = {
    "MATCH": "success_criteria: [\"text('h1') == 'Stock'\"]",
    "HIDDEN": "success_criteria: [\"text('h1') == 'Sold'\"]",
    "STEP": "  - {act: assert, selector: h1, value: Stock}",
    "NUMBER": "success_criteria: [\"text('#n') == 24.99\"]",
    "VALUE": "  - {act: assert, selector: '#n', value: 24.99}",
}


@pytest.mark.thorough  # tests/unit/criteria has each hint
def test_what_would_hold_in_place_of_a_failed_comparison_is_the_hint(tmp_path: Path, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/").respond_with_data(PAGE, content_type="text/html")
    (tmp_path / "pyproject.toml").write_text(f'[tool.harness]\nbase_url = "{httpserver.url_for("")}"\n', "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:hypothesispytest -p no:faker\n", "utf-8")
    for name, end in TASKS.items():
        (tmp_path / f"{name}.task.yaml").write_text(TASK.format(name=name, end=end), "utf-8")
    run = warm().run("pytest", cwd=tmp_path)
    assert f"{len(TASKS)} failed" in run.stdout, run.stdout + run.stderr

    def report(name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((tmp_path / "errors" / name / "error_report.json").read_text("utf-8"))
        return found

    for name in ("MATCH", "STEP"):
        assert report(name)["hint"].startswith("h1 matches 3 elements, and the first that is shown was read; number 3")
        assert report(name)["suspect"] == "task"
    assert "nth" not in report("HIDDEN")["hint"]
    for name in ("NUMBER", "VALUE"):
        assert "write the criterion `number(text('#n')) == 24.99`" in report(name)["hint"]
