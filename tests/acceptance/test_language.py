"""The assertion language in whole runs: numbers by the browser's locale, lists, and what `harness validate` says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from tests.acceptance.warm import harness, warm
from tests.conftest import FULL

PAGE = "<!doctype html><title>Cart</title><p id=total>1.234 €</p><p id=page>Page 3 of 10</p><p id=price>24,99 €</p>"
CREW = {"people": [{"id": 1, "name": "Ann"}, {"id": 13, "name": "Joann"}, {"id": 30, "name": "Bob"}]}
RIGHT = """task_id: OK
browser: {locale: de-DE}
steps:
  - {act: open, url: /}
  - {act: assert, selector: "#total", value: ">= 1000"}
  - {act: assert, selector: "#price", value: "<= 25"}
success_criteria:
  - text('#total') > 1000
  - number(text('#page'), '([0-9]+) of') == 3
  - json('crew', 'people[*].id') includes 13
  - json('crew', 'people[*].id') == [1, 13, 30]
  - json('crew', 'people[*]').length == 3
  - ALL[json('crew', 'people[*].id') > 0]
  - NOT[ANY[json('crew', 'people[*].id') == 3]]
  - json('crew', "people[?name=='Ann'].id") == 1
"""
WRONG = """task_id: {name}
steps:
  - {{act: open, url: /}}
  - {step}
"""
STEPS = {
    "NUMBER": """{act: assert, selector: "#total", value: "<= 30"}""",
    "CRITERION": """{act: assert, expr: "NOT[text('#total') > 30]"}""",
    "MEMBER": """{act: assert, expr: "json('crew', 'people[*].id') includes 3"}""",
    "OTHER": """{act: assert, expr: "json('crew', \\"people[?name=='Ann'].id\\") != 1"}""",
    "GONE": """{act: assert, expr: "text('#gone') != 'x'"}""",
}
REASONS = {
    "NUMBER": "`1.234 €` is no number in en-US; declare `locale`",
    "CRITERION": "`1.234 €` is no number in en-US; declare `locale`",
    "MEMBER": "is [1, 13, 30], expected to include 3",
    "OTHER": "is 1, expected anything but 1",
    "GONE": "no element matches '#gone'",
}
UNSAID = """task_id: UNSAID
steps:
  - {act: open, url: /}
success_criteria:
  - title() == 'Cart'
  - json('crew', 'people[*].id') != 13
"""


@pytest.fixture
def folder(tmp_path: Path, httpserver: HTTPServer) -> Path:
    httpserver.expect_request("/").respond_with_data(PAGE, content_type="text/html; charset=utf-8")
    (tmp_path / "crew.json").write_text(json.dumps(CREW), "utf-8")
    settings = (
        f'[tool.harness]\nbase_url = "{httpserver.url_for("")}"\n[tool.harness.channels.crew]\nfile = "crew.json"\n'
    )
    (tmp_path / "pyproject.toml").write_text(settings, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:hypothesispytest -p no:faker\n", "utf-8")
    return tmp_path


@pytest.mark.thorough  # tests/unit/criteria/test_numbers.py
def test_numbers_and_lists_are_what_the_page_and_the_channel_say(folder: Path) -> None:
    (folder / "ok.task.yaml").write_text(RIGHT, "utf-8")
    wrong = list(STEPS) if FULL else ["CRITERION", "MEMBER"]
    for name in wrong:
        (folder / f"{name}.task.yaml").write_text(WRONG.format(name=name, step=STEPS[name]), "utf-8")
    done = warm().run("pytest", cwd=folder)
    assert f"{len(wrong)} failed, 1 passed" in done.stdout, done.stdout + done.stderr
    for name in wrong:
        report = json.loads((folder / "errors" / name / "error_report.json").read_text("utf-8"))
        assert report["code"] == "ASSERTION_FAILED"
        assert REASONS[name] in report["error_message"], report["error_message"]


def test_validate_says_which_lines_to_write_for_a_comparison_with_a_list(folder: Path) -> None:
    (folder / "unsaid.task.yaml").write_text(UNSAID, "utf-8")
    done = harness("validate", "unsaid.task.yaml", cwd=folder)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "unsaid.task.yaml:6:5: success_criteria[1]: `json('crew', 'people[*].id')` is the list" in done.stdout
    assert "write `ALL[json('crew', 'people[*].id') != 13]`" in done.stdout
