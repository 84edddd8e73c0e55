"""The page and the annotations of a run with xdist, beside plugins that want the same names."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.acceptance.warm import warm

CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--summary", action="store_true", help="of this project")
"""
OTHER = "pytest_github_actions_annotate_failures"
INI = "[pytest]\naddopts = -p no:hypothesispytest -p no:faker -p no:cacheprovider\n"
STEPS = [{"act": "open", "url": "about:blank"}, {"act": "click", "selector": "#none"}]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("project")
    (folder / "pytest.ini").write_text(INI, "utf-8")
    (folder / "conftest.py").write_text(CONFTEST, "utf-8")
    (folder / f"{OTHER}.py").write_text("", "utf-8")
    (folder / "broken.task.yaml").write_text("task_id: [", "utf-8")
    recovery = {"on_element_not_found": {"wait_seconds": 0.1}}
    for name, steps in (("A", STEPS), ("B", STEPS), ("C", STEPS[:1])):
        document = {"task_id": name, "goal": "g", "timeout": 60, "error_recovery": recovery, "steps": steps}
        (folder / f"{name}.task.json").write_text(json.dumps(document), "utf-8")
    options = ("--task-summary", "ci/page.md", "--summary", "-n", "2", "-p", OTHER, "--junitxml=out.xml")
    return folder, warm().run("pytest", *options, cwd=folder, GITHUB_ACTIONS="true", PYTHONPATH=str(folder))


def test_the_page_has_the_tasks_of_all_workers(run: tuple[Path, CompletedProcess[str]]) -> None:
    folder, done = run
    text = (folder / "ci" / "page.md").read_text("utf-8")
    assert text.startswith("## ❌ 3 of 4 tasks failed\n"), done.stdout + done.stderr
    assert "| 2 | <code>ELEMENT\\_NOT\\_FOUND</code> |" in text
    assert "| 1 | <code>SPEC\\_INVALID</code> | broken.task.yaml:" in text


def test_nothing_is_annotated_twice(run: tuple[Path, CompletedProcess[str]]) -> None:
    assert "::error" not in run[1].stdout


def test_properties_travel_from_the_workers(run: tuple[Path, CompletedProcess[str]]) -> None:
    cases = ET.parse(run[0] / "out.xml").iter("testcase")
    found = {case.attrib["name"]: [each.attrib["name"] for each in case.iter("property")] for case in cases}
    assert {"code", "step_index", "artifacts", "healed"} < set(found["A"])
    assert all(len(names) == len(set(names)) for names in found.values())


def test_a_page_that_cannot_be_written_is_said_and_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(INI, "utf-8")
    (tmp_path / "test_it.py").write_text("def test_it():\n    pass\n", "utf-8")
    done = warm().run("pytest", "--summary", ".", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--task-summary: " in done.stdout
    assert "Is a directory" in done.stdout


def test_what_task_files_say_commands_nothing_in_the_lines_of_pytest_itself(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(INI, "utf-8")
    task = {"task_id": "A", "goal": "g", "dependencies": ["##[error]gone"], "steps": STEPS}
    (tmp_path / "A.task.json").write_text(json.dumps(task), "utf-8")
    broken = {"task_id": "B", "goal": "g", "steps": [{"act": "##[error]what"}]}
    (tmp_path / "B.task.json").write_text(json.dumps(broken), "utf-8")
    odd = {**task, "task_id": "C", "dependencies": ["A"], "unknown ##[group]y": 1}
    (tmp_path / "C.task.json").write_text(json.dumps(odd), "utf-8")
    done = warm().run("pytest", "-rs", "--continue-on-collection-errors", cwd=tmp_path, GITHUB_ACTIONS="true")
    for text in ("[error]gone", "[error]what", "[group]y"):
        assert f"##\u200b{text}" in done.stdout, done.stdout
        assert f"##{text}" not in done.stdout, done.stdout
