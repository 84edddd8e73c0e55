"""A file that cannot be loaded is a failure like others; what a failed fixture and a rerun leave behind is told."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.acceptance.warm import harness, warm

OPEN = 'steps: [{act: open, url: "about:blank"}]\n'
FILES = {
    "wrong.task.yaml": 'task_id: WRONG\ngoal: g\nsteps:\n  - {act: clik, selector: "#a"}\n',
    "selector.task.yaml": f"task_id: SELECTOR\ngoal: g\n{OPEN}success_criteria: [\"NOT[exists('button[name=')]\"]\n",
    "unreadable.task.yaml": "goal: g\ntask_id: [",
    "needs.task.yaml": f"task_id: NEEDS\ngoal: g\ndependencies: [WRONG]\n{OPEN}",
    "torn.task.yaml": f"task_id: TORN\ngoal: g\ntags: [torn]\n{OPEN}",
    "flaky.task.yaml": f"task_id: FLAKY\ngoal: g\ntags: [counted]\n{OPEN}"
    "success_criteria: [\"json('count', 'n') == 2\"]\n",
}
PYPROJECT = '[tool.harness]\nisolation = "none"\n[tool.harness.channels.count]\npython = "counted:read"\n'
COUNTED = """
from pathlib import Path

def read(world):
    return {"n": Path(__file__).with_name("turns").stat().st_size}
"""
CONFTEST = """
from pathlib import Path
import pytest

@pytest.fixture(autouse=True)
def around(request):
    if request.node.get_closest_marker("counted"):
        with Path(__file__).with_name("turns").open("a") as file:
            file.write("x")
    yield
    assert not request.node.get_closest_marker("torn"), "the log of the server has an error"
"""
CODE = "SPEC_INVALID"
UNLOADED = {
    "WRONG": ("wrong.task.yaml", 4),
    "SELECTOR": ("selector.task.yaml", 4),
    "unreadable": ("unreadable.task.yaml", 2),
}
"""The id of a task -> its file and the line of what is wrong."""


@pytest.fixture(scope="module", params=[(), pytest.param(("-n2",), marks=pytest.mark.thorough)], ids=["alone", "xdist"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("project")
    more = {
        "test_broken.py": "import no_such_module\n",
        "pyproject.toml": PYPROJECT,
        "counted.py": COUNTED,
        "conftest.py": CONFTEST,
        "pytest.ini": "[pytest]\n",
    }
    for name, text in {**FILES, **more}.items():
        (folder / name).write_text(text, "utf-8")
    options = ("--alluredir=allure", "--junitxml=out.xml", "--task-summary=page.md", "--reruns=1", *request.param)
    options += ("--continue-on-collection-errors",)
    done = warm().run("pytest", *options, cwd=folder, GITHUB_ACTIONS="true", PYTHONPATH=str(folder), timeout=120)
    assert done.returncode == 1, done.stdout + done.stderr
    return folder, done


def test_a_file_that_cannot_be_loaded_is_in_every_view_with_its_line(
    run: tuple[Path, CompletedProcess[str]],
) -> None:
    folder, done = run
    for name, (file, line) in UNLOADED.items():
        assert f"{name} aborted: {CODE} before the first step: {file}:{line}:" in done.stdout
        assert f"::error file={file},line={line},title={name}%3A {CODE}::" in done.stdout
        report = json.loads((folder / "errors" / name / "error_report.json").read_text("utf-8"))
        assert (report["code"], report["suspect"], report["context"]["line"]) == (CODE, "task", line)
    assert "did you mean `click`?" in done.stdout
    assert done.stdout.count("\n  suspect: task\n  artifacts: errors/") >= len(UNLOADED)
    assert (folder / "page.md").read_text("utf-8").count("<code>SPEC\\_INVALID</code>") == 2 * len(UNLOADED)
    tests = [json.loads(each.read_bytes()) for each in (folder / "allure").glob("*-result.json")]
    labels = [{each["name"]: each["value"] for each in test["labels"]} for test in tests]
    found = [
        (test["status"], label["suspect"])
        for test, label in zip(tests, labels, strict=True)
        if label.get("code") == CODE
    ]
    assert len(found) >= len(UNLOADED)
    assert set(found) == {("broken", "task")}
    cases = {case.get("name"): case for case in ET.parse(folder / "out.xml").iter("testcase")}
    for name in UNLOADED:
        told = {each.get("name"): each.get("value") for each in cases[name].iter("property")}
        assert (told["code"], told["suspect"]) == (CODE, "task")


def test_triage_history_and_dashboard_have_it_too(run: tuple[Path, CompletedProcess[str]]) -> None:
    folder, _ = run
    told = json.loads(harness("triage", "--json", cwd=folder).stdout)
    causes = {each["tasks"][0]["task_id"]: each for each in told["causes"]}
    for name, (file, line) in UNLOADED.items():
        assert (causes[name]["code"], causes[name]["suspect"], causes[name]["look"]) == (CODE, "task", file)
        assert causes[name]["what"].startswith(f"{file}:{line}:")
    assert f"suspect: task  look: {UNLOADED['WRONG'][0]}" in harness("triage", cwd=folder).stdout
    shown = json.loads(harness("dashboard", "--json", cwd=folder).stdout)
    assert [each["suspect"] for each in shown["causes"] if CODE in each["codes"]] == ["task"] * len(UNLOADED)
    assert shown["uncollected"] == {"test_broken.py": "ModuleNotFoundError: No module named 'no_such_module'"}


def test_a_task_that_needs_one_is_skipped_and_says_why(run: tuple[Path, CompletedProcess[str]]) -> None:
    assert "NEEDS: depends on WRONG, which did not pass" in run[1].stdout


def test_a_fixture_that_fails_after_a_passed_task_keeps_its_evidence(
    run: tuple[Path, CompletedProcess[str]],
) -> None:
    folder, done = run
    kept = "the directory of the task has its screenshot, trace and state"
    assert kept in done.stdout
    errors = folder / "errors"
    assert {"screenshot.png", "dom_snapshot.html", "trace.zip", "manifest.json"} <= set(os.listdir(errors / "TORN"))
    report = json.loads((errors / "TORN" / "error_report.json").read_text("utf-8"))
    assert (report["code"], report["suspect"]) == ("FIXTURE_FAILED", "project")
    assert "the log of the server has an error" in report["error_message"]
    cases = [case for case in ET.parse(folder / "out.xml").iter("testcase") if case.get("name") == "TORN"]
    properties = {each.get("name"): each.get("value") for case in cases for each in case.iter("property")}
    assert (properties["suspect"], properties["artifacts"]) == ("project", str(errors / "TORN"))
    told = json.loads(harness("triage", "--json", cwd=folder).stdout)
    torn = next(each for each in told["causes"] if each["tasks"][0]["task_id"] == "TORN")
    assert torn["suspect"] == "project"
    assert "the log of the server has an error" in torn["what"]
    assert kept in torn["tasks"][0]["hint"]
    attached = (each.read_text("utf-8") for each in (folder / "allure").glob("*-attachment.txt"))
    assert any(kept in each for each in attached)


def test_what_is_held_of_a_task_goes_when_its_fixtures_are_torn_down_without_failure(
    run: tuple[Path, CompletedProcess[str]],
) -> None:
    folder, done = run
    assert "FLAKY" not in {each.name for each in (folder / "errors").iterdir()}, done.stdout
    assert not list((folder / "errors").rglob("*-held*"))


def test_the_last_lines_name_flaky_tasks_and_count_reruns(run: tuple[Path, CompletedProcess[str]]) -> None:
    assert "flaky: 1 task passed only in a rerun: FLAKY (at first CRITERIA_UNMET)" in run[1].stdout
    assert "\nreruns: " in run[1].stdout


def test_what_is_only_collected_is_an_error_of_the_collection(run: tuple[Path, CompletedProcess[str]]) -> None:
    done = warm().run("pytest", "--collect-only", "-q", "wrong.task.yaml", cwd=run[0])
    assert "ERROR collecting wrong.task.yaml" in done.stdout


def test_a_run_that_ends_before_its_first_task_is_the_last_one_and_no_part_of_a_strict_merge(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.harness]\n", "utf-8")
    (tmp_path / "first.task.yaml").write_text(f"goal: g\n{OPEN}success_criteria: [exists('html')]\n", "utf-8")
    (tmp_path / "test_plain.py").write_text("def test_plain(): assert not 'right'\n", "utf-8")
    done = warm().run("pytest", "--task-summary", "s.md", cwd=tmp_path)
    assert done.returncode == 1, done.stdout
    assert "## ❌ 1 task, none failed; 1 other test failed" in (tmp_path / "s.md").read_text("utf-8")
    (tmp_path / "test_broken.py").write_text("import no_such_module\n", "utf-8")
    assert warm().run("pytest", cwd=tmp_path).returncode == 2
    told = harness("triage", cwd=tmp_path).stdout
    assert "1 file could not be collected; no task ran" in told
    assert "not collected: test_broken.py: ModuleNotFoundError" in told
    merged = harness("merge", str(tmp_path), "--strict", cwd=tmp_path)
    assert merged.returncode == 1
    assert "test_broken.py could not be collected" in merged.stderr
