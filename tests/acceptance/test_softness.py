"""Soft assertions and ARIA baselines, in whole runs."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from tests.acceptance.warm import warm

PAGE = "<!doctype html><title>Cart</title><h1>Cart</h1><p id=total>12</p><ul><li>Mouse<li>Card</ul>"
SOFT = """task_id: T
error_recovery: {on_element_not_found: {wait_seconds: 1}}
steps:
  - {act: open, url: /}
  - {act: assert, selector: "#total", value: 13, soft: true}
  - {act: assert, selector: "#gone", value: x, soft: true}
  - {act: assert, selector: h1, value: Cart, soft: true}
  - {act: assert, expr: "count('li') == 3", soft: true}
  - {act: wait, selector: h1}
"""
ARIA = """task_id: T
steps:
  - {act: open, url: /}
  - {act: assert, selector: ul, aria: "- list:\\n  - listitem: Mouse"}
  - {act: assert, aria: baselines/cart.aria.yaml}
"""


@pytest.fixture
def folder(tmp_path: Path, httpserver: HTTPServer) -> Path:
    httpserver.expect_request("/").respond_with_data(PAGE, content_type="text/html")
    (tmp_path / "pyproject.toml").write_text(f'[tool.harness]\nbase_url = "{httpserver.url_for("")}"\n', "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:hypothesispytest -p no:faker\n", "utf-8")
    return tmp_path


def run(folder: Path, task: str, *options: str) -> CompletedProcess[str]:
    (folder / "t.task.yaml").write_text(task, "utf-8")
    return warm().run("pytest", *options, cwd=folder)


def report(folder: Path, task: str = "T") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "errors" / task / "error_report.json").read_text("utf-8"))
    return found


def test_soft_assertions_and_baselines_that_are_not_there(folder: Path) -> None:
    """One run of four tasks."""
    steps = "  - {act: open, url: /}\n  - {act: accessibility, soft: true}\n  - {act: assert, selector: h1, value: x}\n"
    tasks = {
        "SOFT": SOFT.partition("\n")[2],
        "ACCESS": f"steps:\n{steps}",
        "MISSING": ARIA.partition("\n")[2],
        "UNREADABLE": ARIA.partition("\n")[2].replace("- list:", "- list [levl=1]:"),
    }
    for name, text in tasks.items():
        (folder / f"{name}.task.yaml").write_text(f"task_id: {name}\n{text}", "utf-8")
    done = warm().run("pytest", cwd=folder)
    assert "4 failed" in done.stdout, done.stdout + done.stderr
    _a_soft_assertion_lets_the_task_go_on_and_fails_it_at_its_end_with_all_others(folder, done)
    _violations_of_accessibility_may_be_soft_and_the_result_is_kept(folder, done)
    assert "there is no baseline baselines/cart.aria.yaml beside the task" in done.stdout, done.stdout
    assert "--task-update-baselines" in done.stdout
    assert "UNREADABLE failed: INVALID_INPUT at step 1" in done.stdout, done.stdout
    assert "Playwright cannot read the ARIA snapshot of the step: Unsupported attribute [levl]" in done.stdout


def _a_soft_assertion_lets_the_task_go_on_and_fails_it_at_its_end_with_all_others(
    folder: Path, done: CompletedProcess[str]
) -> None:
    assert "SOFT failed: ASSERTION_FAILED at step 1 (of 0-5): assert #total = 13" in done.stdout
    assert "expected: 13\n" in done.stdout
    assert "at step 2: no element matches #gone" in done.stdout
    assert "at step 4: Assertion failed: count('li') == 3" in done.stdout
    found = report(folder, "SOFT")
    assert (found["code"], found["step_index"]) == ("ASSERTION_FAILED", 1)
    assert all(text in found["error_message"] for text in ("13", "#gone", "count('li')"))
    trace = json.loads((folder / "errors" / "SOFT" / "partial_trace.json").read_text("utf-8"))["steps"]
    assert [step["act"] for step in trace][:6] == ["open", "assert", "assert", "assert", "assert", "wait"]
    shots = folder / "errors" / "SOFT" / "files" / "screenshots"
    assert sorted(file.name for file in shots.iterdir()) == ["soft-1.png", "soft-2.png", "soft-4.png"]


@pytest.mark.thorough
def test_what_fails_later_is_told_with_the_soft_ones(folder: Path) -> None:
    done = run(folder, SOFT + '  - {act: click, selector: "#none"}\n')
    assert "T failed: ELEMENT_NOT_FOUND at step 6" in done.stdout, done.stdout
    assert "at step 1: Assertion failed: #total" in done.stdout
    unmet = run(folder, SOFT + "success_criteria: [\"title() == 'x'\"]\n")
    assert "CRITERIA_UNMET at the success criteria" in unmet.stdout
    assert "at step 4: Assertion failed: count('li') == 3" in unmet.stdout


def test_an_aria_baseline_is_written_compared_and_renewed(folder: Path) -> None:
    assert "1 passed" in run(folder, ARIA, "--task-update-baselines").stdout
    baseline = folder / "baselines" / "cart.aria.yaml"
    written = baseline.read_text("utf-8")
    assert '- heading "Cart" [level=1]' in written
    (folder / "baselines" / "same.aria.yaml").write_text(written, "utf-8")
    baseline.write_text(written.replace("Cart", "Basket"), "utf-8")
    same = ARIA.replace("task_id: T", "task_id: SAME").replace("cart.aria", "same.aria")
    (folder / "same.task.yaml").write_text(same, "utf-8")
    differs = run(folder, ARIA)
    assert "1 failed, 1 passed" in differs.stdout, differs.stdout
    assert "Assertion failed: the ARIA snapshot of body differs" in report(folder)["error_message"]
    assert "Basket" in differs.stdout
    assert "1 passed" in run(folder, ARIA, "t.task.yaml", "--update-baselines").stdout
    assert "Basket" not in baseline.read_text("utf-8")


def _violations_of_accessibility_may_be_soft_and_the_result_is_kept(folder: Path, done: CompletedProcess[str]) -> None:
    assert "ACCESS failed: ASSERTION_FAILED at step 2" in done.stdout, done.stdout + done.stderr
    assert "at step 1: 3 rules of accessibility violated" in done.stdout
    found = report(folder, "ACCESS")
    assert "html-has-lang (serious): html" in found["error_message"]
    kept = json.loads((folder / "errors" / "ACCESS" / "files" / "accessibility" / "result.json").read_text("utf-8"))
    assert "html-has-lang" in [each["id"] for each in kept[0]["violations"]]
