"""Marks of pytest people in task files, and their options: whole runs, and what each report says of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.acceptance.conftest import Project
from tests.acceptance.warm import warm
from tests.conftest import FULL

WAIT = [{"act": "wait", "value": 0.01}]
NEVER = [{"act": "wait", "selector": "#nowhere"}]
SHOP = [{"act": "open", "url": "http://shop.local/"}]


@pytest.fixture(autouse=True)
def no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)


def outcomes(result: pytest.RunResult) -> dict[str, int]:
    return {name: number for name, number in result.parseoutcomes().items() if not name.startswith("warning")}


def harness(project: Project, *words: str) -> Any:
    """What a command prints as JSON."""
    return json.loads(warm().run("tests.acceptance.command", *words, cwd=project.path, timeout=60).stdout)


def allure(project: Project) -> dict[str, tuple[str, str]]:
    """Id of a task, which its goal ends in -> status and message."""
    found = [json.loads(file.read_text("utf-8")) for file in (project.path / "al").glob("*-result.json")]
    return {
        each["name"].split()[-1]: (each["status"], (each.get("statusDetails") or {}).get("message", ""))
        for each in found
    }


def test_a_run_says_of_each_task_why_it_was_skipped_or_may_fail(project: Project) -> None:
    """One broken world is no excuse: `expected_failure` is about what the site does."""
    project.task("SKIPPED", steps=WAIT, skip="the shop is being rebuilt")
    project.task(
        "COND", steps=WAIT, skip_if=[{"platform": "win32", "reason": "no"}, {"env": "PATH", "reason": "a path"}]
    )
    project.task("KNOWN", steps=[*SHOP, *NEVER], expected_failure="SHOP-12: no such place")
    project.task("MENDED", steps=WAIT, expected_failure="SHOP-13")
    project.task("AFTER", steps=WAIT, dependencies=["KNOWN"])
    project.task("SLOW", steps=[{"act": "wait", "value": 1.5}], step_timeout=1, slow=True)
    (project.path / "conftest.py").write_text(
        "import pytest\n@pytest.fixture(autouse=True)\ndef before(request):\n"
        "    assert request.node.name != 'BROKEN', 'a fixture of the project'\n",
        "utf-8",
    )
    project.task("BROKEN", steps=WAIT, expected_failure="SHOP-14")
    result = project.run("-rxsf", "--junitxml", "junit.xml", "--alluredir", "al")
    text = result.stdout.str()
    assert outcomes(result) == {"passed": 1, "skipped": 3, "xfailed": 1, "failed": 1, "errors": 1}
    assert "1 completed, 1 failed as expected, 1 unexpected outcome, 3 skipped" in text
    assert "  SKIPPED: the shop is being rebuilt\n  COND" not in text
    for line in ("  SKIPPED: the shop is being rebuilt", "  COND: a path", "failed as expected:\n  KNOWN: SHOP-12"):
        assert line in text
    assert "MENDED passed, although `expected_failure` says that it fails: SHOP-13" in text
    assert "remove `expected_failure` (MENDED.task.json:" in text
    assert "AFTER: depends on KNOWN, which did not pass" in text
    cases = {each.get("name"): each for each in ET.parse(project.path / "junit.xml").iter("testcase")}
    skips = {
        name: (s.get("type"), s.get("message")) for name, e in cases.items() if (s := e.find("skipped")) is not None
    }
    assert skips["SKIPPED"] == ("pytest.skip", "the shop is being rebuilt")
    assert skips["COND"] == ("pytest.skip", "a path")
    assert skips["KNOWN"] == ("pytest.xfail", "SHOP-12: no such place")
    told = allure(project)
    assert told["SKIPPED"] == ("skipped", "Skipped: the shop is being rebuilt")
    assert told["KNOWN"][0] == "skipped"
    assert told["KNOWN"][1].startswith("XFAIL SHOP-12: no such place\n\nharness.KnownDefect: KNOWN failed")
    assert (project.path / "errors" / "KNOWN" / "screenshot.png").exists()
    rows: dict[str, Any] = {each["task_id"]: each for each in harness(project, "dashboard", "--json")["tasks"]}
    assert (rows["SKIPPED"]["note"], rows["KNOWN"]["note"]) == (
        "the shop is being rebuilt",
        "xfail: SHOP-12: no such place",
    )
    assert {name: rows[name]["status"] for name in ("SKIPPED", "COND", "KNOWN", "MENDED")} == {
        "SKIPPED": "skipped", "COND": "skipped", "KNOWN": "skipped", "MENDED": "failed",
    }  # fmt: skip
    lost = project.run("--browser-executable", "/bin/false", "KNOWN.task.json")
    assert outcomes(lost) == {"failed": 1}
    assert "`expected_failure` does not excuse a failure of the machine" in lost.stdout.str()


REPEAT = """
def pytest_addoption(parser):
    parser.addoption("--count", type=int, default=1)
    parser.addoption("--repeat-scope", default="function")
"""
"""The options of pytest-repeat, which the tests do not install."""


def test_tasks_run_several_times_each_with_its_like(project: Project) -> None:
    (project.path / "pytest_repeat.py").write_text(REPEAT, "utf-8")
    project.task("A", steps=WAIT)
    project.task("B", steps=WAIT, dependencies=["A"])
    result = project.run("--repeat-each", "2", "-v")
    assert outcomes(result) == {"passed": 4}
    result.stdout.fnmatch_lines(["*::A?1-2? PASSED*", "*::B?1-2? PASSED*"])
    theirs = ("-p", "pytest_repeat", "--collect-only", "-q")
    assert project.run(*theirs, "--count", "3").stdout.str().count("::A[") == 3
    assert "contradict each other" in project.run(*theirs, "--count", "3", "--repeat-each", "2").stderr.str()
    refused = project.run(*theirs, "--repeat-scope", "session").stderr.str()
    assert "--repeat-scope session: it does not act on tasks" in refused


def test_only_leaves_out_all_else_and_is_refused_on_a_ci_system(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("A", "B"):
        project.task(name, steps=WAIT)
    project.task("MINE", steps=WAIT, dependencies=["A"], only=True)
    (project.path / "test_other.py").write_text("def test_other(): pass\n", "utf-8")
    line = "only: 2 of 4 tests run, because of `only: true` in MINE.task.json:"
    for options in ([], ["-n", "1"]) if FULL else ([],):
        result = project.run(*options)
        assert outcomes(result)["passed"] == 2
        assert line in result.stdout.str().partition("= tasks =")[2]
    monkeypatch.setenv("CI", "true")
    result = project.run()
    assert outcomes(result) == {"passed": 3, "failed": 1}
    assert "`only` leaves out all other tasks, and CI is set" in result.stdout.str()


def git(folder: Path, *words: str) -> None:
    names = ["-c", "user.name=t", "-c", "user.email=t@example.test"]
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


def test_only_what_git_says_is_changed_runs(project: Project) -> None:
    (project.path / ".gitignore").write_text(".harness/\nerrors/\n__pycache__/\n", "utf-8")
    (project.path / "look.steps.yaml").write_text("steps: [{act: wait, value: 0.01}]\n", "utf-8")
    (project.path / "rows.csv").write_text("id,x\na,1\n", "utf-8")
    project.task("BASE", steps=WAIT)
    project.task("GROUP", steps=[{"use": "look"}], dependencies=["BASE"])
    project.task("ROWS", steps=WAIT, parametrize={"file": "rows.csv"})
    project.task("OLD", steps=WAIT)
    collect = ("--collect-only", "-q", "--only-changed")
    assert "git does not say what has changed: fatal: not a git" in project.run(*collect).stderr.str()
    git(project.path, "init", "--initial-branch=main", ".")
    git(project.path, "add", ".")
    git(project.path, "commit", "-m", "first")
    nothing = project.run("--only-changed")
    assert (nothing.ret, "0 tasks of 4 by what is not committed" in nothing.stdout.str()) == (pytest.ExitCode.OK, True)
    (project.path / "rows.csv").write_text("id,x\nb,2\n", "utf-8")
    project.task("NEW", steps=WAIT)
    result = project.run("--only-changed", "-v")
    assert outcomes(result) == {"passed": 2, "deselected": 3}
    assert "--task-only-changed: 2 tasks of 5 by what is not committed" in result.stdout.str()
    result.stdout.fnmatch_lines(["*::NEW PASSED*", "*::ROWS?b? PASSED*"])
    git(project.path, "checkout", "-b", "work")
    (project.path / "look.steps.yaml").write_text("steps: [{act: wait, value: 0.02}]\n", "utf-8")
    git(project.path, "commit", "-m", "second", "look.steps.yaml")
    assert "::GROUP" not in project.run(*collect).stdout.str()
    since = project.run("--collect-only", "-q", "--only-changed=main").stdout.str()
    assert [name for name in ("BASE", "GROUP", "ROWS", "NEW", "OLD") if f"::{name}" in since] == [
        "BASE", "GROUP", "ROWS", "NEW",
    ]  # fmt: skip
    assert "it knows no revision 'nope'" in project.run("--only-changed", "nope").stderr.str()


def test_a_run_with_a_flaky_task_fails_if_asked_to(project: Project) -> None:
    heal = {"on_element_not_found": {"wait_seconds": 0.2, "fallback_selectors": {"#gone": ["body"]}}}
    project.task("HEALED", steps=[*SHOP, {"act": "wait", "selector": "#gone"}], error_recovery=heal)
    project.task("FINE", steps=WAIT)
    assert project.run().ret == pytest.ExitCode.OK
    result = project.run("--task-fail-on-flaky")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "so the run fails: HEALED (fallback_selector_used)" in result.stdout.str()
    facts = harness(project, "dashboard", "--json")["facts"]
    assert "1" in json.dumps(facts["Exit status"])
