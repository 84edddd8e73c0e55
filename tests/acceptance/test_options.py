"""Options of a project's conftest.py and of pytest-playwright, beside ours."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from harness.pytest_plugin.options import ALIASES
from tests.acceptance.warm import warm

INI = "[pytest]\naddopts = -p no:hypothesispytest -p no:faker -p no:cacheprovider\n"
TASK = {"task_id": "T", "goal": "g", "timeout": 20, "steps": [{"act": "open", "url": "about:blank"}]}
SHARED = {
    "--headed",
    "--slowmo",
    "--browser-channel",
    "--tracing",
    "--video",
    "--base-url",
    "--device",
    "--full-page-screenshot",
}
THEIRS = sorted(set(ALIASES) - SHARED)
"""Aliases that pytest-playwright leaves free."""
CONFTEST = f"""
def pytest_addoption(parser):
    for name in {THEIRS!r}:
        parser.addoption(name, default="their default")
"""
TEST = f"""
def test_theirs(pytestconfig):
    assert pytestconfig.getoption("--agent") == "WORD"
    assert all(pytestconfig.getoption(name) is not None for name in {THEIRS!r})
"""
FIREFOX = (
    "ERROR: --browser firefox: tasks run in Chromium only, because host rules, allowed domains and crash handling are "
    "Chromium's. Leave it out, or deselect the tasks."
)


def project(folder: Path, **files: str) -> Path:
    """A folder with one task; `a__b` is the file b.py in the folder a."""
    (folder / "pytest.ini").write_text(INI, "utf-8")
    (folder / "T.task.json").write_text(json.dumps(TASK), "utf-8")
    for name, text in files.items():
        file = folder / f"{name.replace('__', '/')}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
    return folder


def run(folder: Path, *arguments: str, **environment: str) -> CompletedProcess[str]:
    return warm().run("pytest", *arguments, cwd=folder, **environment)


def test_the_options_of_a_first_conftest_are_its_own(tmp_path: Path) -> None:
    folder = project(tmp_path, tests__conftest=CONFTEST, tests__test_it=TEST.replace("WORD", "ann"))
    (folder / "pytest.ini").write_text(f"{INI}testpaths = tests\n", "utf-8")
    done = run(folder, "--agent", "ann", "--breaker=loud")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.thorough
def test_under_xdist_the_options_of_a_first_conftest_are_its_own(tmp_path: Path) -> None:
    folder = project(tmp_path, tests__conftest=CONFTEST, tests__test_it=TEST.replace("WORD", "ann"))
    (folder / "pytest.ini").write_text(f"{INI}testpaths = tests\n", "utf-8")
    assert "1 passed" in run(folder, "tests", "--agent=ann", "-n", "1").stdout


@pytest.mark.thorough
def test_the_options_of_a_later_conftest_are_its_own(tmp_path: Path) -> None:
    folder = project(tmp_path, deep__conftest=CONFTEST, deep__test_it=TEST.replace("WORD", "their default"))
    done = run(folder, "--deselect", "T.task.json", "--no-heal")
    assert "1 passed, 1 deselected" in done.stdout, done.stdout + done.stderr


def test_an_alias_acts_and_its_value_is_no_path(tmp_path: Path) -> None:
    folder = project(tmp_path, tests__conftest='def pytest_addoption(parser):\n    parser.addoption("--mine")\n')
    (folder / "pytest.ini").write_text(f"{INI}testpaths = tests\n", "utf-8")
    (folder / "plan.faults.yaml").write_text("faults: [{kind: refus}]", "utf-8")
    done = run(folder, "--mine=x", "--faults", "plan.faults.yaml")
    assert "did you mean `refuse`?" in done.stderr, done.stdout + done.stderr
    assert "unrecognized" not in done.stderr


def test_an_option_that_stands_twice_is_refused(tmp_path: Path) -> None:
    folder = project(tmp_path)
    done = run(folder, "--collect-only", "--task-workers", "2", "--task-workers=3")
    assert (done.returncode, done.stderr.strip()) == (
        4,
        "ERROR: --task-workers is given twice with different values: leave one out",
    )
    over = run(folder, "--collect-only", "--task-workers", "2", PYTEST_ADDOPTS="--task-workers 3")
    assert over.returncode == 0, over.stderr


REFUSED = {
    "": (),
    "xdist": ("-n", "1"),
}


@pytest.mark.parametrize("more", REFUSED.values(), ids=REFUSED)
@pytest.mark.sampled(1)
def test_what_cannot_act_on_tasks_is_refused(tmp_path: Path, more: tuple[str, ...]) -> None:
    done = run(project(tmp_path), "--browser", "firefox", *more)
    assert (done.returncode, FIREFOX in done.stderr.splitlines()) == (4, True), done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.thorough
def test_each_that_is_refused_has_a_line(tmp_path: Path) -> None:
    arguments = ("--browser=webkit", "--screenshot", "on")
    lines = run(project(tmp_path), *arguments, PYTEST_ADDOPTS="--output=out").stderr.splitlines()
    assert [line.removeprefix("ERROR: ").partition(":")[0] for line in lines if line] == [
        "--browser webkit",
        "--output out",
        "--screenshot on",
    ]


def test_tests_that_are_no_tasks_keep_all_options(tmp_path: Path) -> None:
    folder = project(tmp_path, test_it="def test_it():\n    pass\n")
    assert "1 passed" in run(folder, "test_it.py", "--browser", "firefox", "--video=on", "--output=out").stdout
    deselected = run(folder, "--deselect", "T.task.json", "--screenshot=on")
    assert "1 passed, 1 deselected" in deselected.stdout, deselected.stderr


@pytest.mark.thorough
def test_values_that_say_what_tasks_do_anyway_are_fine(tmp_path: Path) -> None:
    fine = ("--browser", "chromium", "--video=off", "--screenshot=only-on-failure")
    done = run(project(tmp_path), *fine, "--base-url", "http://x")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.thorough
def test_without_the_other_plugin_its_options_are_refused_in_the_same_words(tmp_path: Path) -> None:
    done = run(project(tmp_path), "-p", "no:playwright", "--screenshot=on")
    assert done.returncode == 4
    assert "unrecognized argument --screenshot: a failed task always has a screenshot" in done.stderr
    fine = ("--tracing=off", "--base-url=http://x", "--browser", "chromium", "--video=off", "--video", "off")
    assert "1 passed" in run(tmp_path, "-p", "no:playwright", *fine).stdout
    both = run(tmp_path, "-p", "no:playwright", "--browser", "chromium", "--browser=firefox")
    assert "unrecognized argument --browser: tasks run in Chromium only" in both.stderr


@pytest.mark.thorough
def test_a_device_that_playwright_does_not_have_is_told_by_its_option(tmp_path: Path) -> None:
    done = run(project(tmp_path), "--device", "iPhone 133")
    assert done.stderr.startswith("ERROR: --device iPhone 133: Playwright has no device 'iPhone 133': did you mean")


@pytest.mark.parametrize("more", REFUSED.values(), ids=REFUSED)
@pytest.mark.sampled(1)
def test_folders_that_cannot_be_used_are_told_in_one_line(tmp_path: Path, more: tuple[str, ...]) -> None:
    folder = project(tmp_path)
    (folder / "errors").symlink_to("/nowhere/at-all")
    (folder / ".harness").write_text("a file", "utf-8")
    advice = "move it away, or name another with `--task-artifacts`"
    expected = [
        f"ERROR: errors is a link that leads nowhere (/nowhere/at-all); failed tasks are kept there: {advice}",
        ".harness is a file, where a folder is needed; the events of a run are kept there: move it away",
    ]
    done = run(folder, *more)
    assert (done.returncode, [line for line in done.stderr.splitlines() if line]) == (4, expected), done.stdout


@pytest.mark.parametrize("more", REFUSED.values(), ids=REFUSED)
@pytest.mark.sampled(1)
def test_a_link_in_the_place_of_a_tasks_folder_is_moved_aside_and_said(tmp_path: Path, more: tuple[str, ...]) -> None:
    for name in ("project", "elsewhere"):
        (tmp_path / name).mkdir()
    folder = project(tmp_path / "project")
    (folder / "errors").mkdir()
    (folder / "errors" / "T").symlink_to("../../elsewhere")
    (folder / "errors" / "OTHER").symlink_to("../../elsewhere")
    shown = run(folder, *more).stdout
    line = "errors/T was a link to ../../elsewhere: the link is under .previous now; its target is unchanged"
    assert shown.splitlines().count(line) == 1, shown
    assert "errors/OTHER" not in shown
