"""What a session loads before it knows that it has, or runs, a task."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.pytest_plugin.activation import finds_tasks, place_of

FOREIGN = ("pydantic", "lark", "playwright", "typer", "yaml", "psutil", "tenacity")
MOST = 15
"""The number of our modules that a session without task files may import."""
SHOWN = """
import sys

def pytest_unconfigure():
    print("loaded:", *sys.modules)
"""
SEARCHES = """
import gc

def searched(phase, info):
    if phase == "start" and info["generation"] == 2:
        print("exempt:", gc.get_freeze_count())

def pytest_sessionfinish():
    gc.callbacks.append(searched)
"""
"""Says how much of what exists each full search for garbage leaves out."""
TEST = "def test_ordinary() -> None:\n    assert True\n"


def loaded_by(folder: Path, *arguments: str) -> set[str]:
    """The modules that pytest has loaded at the end of a session in the folder, without the plugins of others."""
    folder.joinpath("conftest.py").write_text(SHOWN, "utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-s", "-p", "harness.pytest_plugin.plugin", *arguments]
    found = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=True)
    return set(found.stdout.partition("loaded:")[2].split())


def test_a_session_without_task_files_does_not_notice_the_plugin(tmp_path: Path) -> None:
    tmp_path.joinpath("test_ordinary.py").write_text(TEST, "utf-8")
    tmp_path.joinpath("pyproject.toml").write_text("[tool.harness]\nrecording = 'minimal'\n", "utf-8")
    tmp_path.joinpath("data.yaml").write_text("task_id: no task, since its name does not say so\n", "utf-8")
    loaded = loaded_by(tmp_path)
    ours = {name for name in loaded if name.partition(".")[0] == "harness"}
    assert "harness.pytest_plugin.plugin" in ours
    assert len(ours) <= MOST, sorted(ours)
    assert not loaded & set(FOREIGN)


def test_collecting_needs_no_engine_and_no_browser(tmp_path: Path) -> None:
    task = '{"task_id": "t", "goal": "g", "steps": [{"act": "open", "url": "http://x/"}]}'
    tmp_path.joinpath("a.task.json").write_text(task, "utf-8")
    loaded = loaded_by(tmp_path, "--collect-only")
    assert "harness.pytest_plugin.items" in loaded
    assert not loaded & {
        "playwright", "sqlite3", "harness.browser", "harness.engine", "harness.reporting.history",
        "harness.reporting.telemetry", "harness.reporting.triage", "harness.runner.harness",
    }  # fmt: skip


def test_what_tasks_have_loaded_is_not_searched_for_garbage_at_the_end(tmp_path: Path) -> None:
    tmp_path.joinpath("a.task.json").write_text('{"task_id": "t", "goal": "g", "skip": "no", "steps": []}', "utf-8")
    tmp_path.joinpath("conftest.py").write_text(SEARCHES, "utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-s", "-p", "harness.pytest_plugin.plugin"]
    found = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    searches = [int(line.split()[1]) for line in found.stdout.splitlines() if line.startswith("exempt:")]
    assert searches, found.stdout + found.stderr
    assert min(searches) > 1000


def test_only_a_session_that_collects_tasks_cares_about_bad_settings(tmp_path: Path) -> None:
    tmp_path.joinpath("test_ordinary.py").write_text(TEST, "utf-8")
    tmp_path.joinpath("a.task.json").write_text("{}", "utf-8")
    tmp_path.joinpath("pyproject.toml").write_text("[tool.harness]\nrecordin = 'minimal'\n", "utf-8")
    options = ["-p", "no:cacheprovider", "-p", "harness.pytest_plugin.plugin"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for arguments, status in (["test_ordinary.py"], 0), (["."], 4), (["a.task.json::x"], 4):
        command = [sys.executable, "-m", "pytest", *options, *arguments]
        found = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
        assert found.returncode == status
        assert ("unknown key `recordin` (did you mean `recording`?)" in found.stderr) == (status == 4)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ([""], True),
        (["tests"], False),
        (["tests", "flows/a.task.yaml"], True),
        (["flows/a.task.yaml::T[case]"], True),
        (["loop"], False),
        (["odd.yaml"], True),
        (["more"], True),
        (["venv"], False),
        (["nowhere"], False),
    ],
)
def test_the_controller_of_xdist_finds_the_tasks_of_its_workers(
    tmp_path: Path, arguments: list[str], found: bool
) -> None:
    for name in ("tests/test_a.py", "flows/a.task.yaml", "odd.yaml", "more/x/a.spec.yml", "venv/lib/b.task.yaml"):
        tmp_path.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        tmp_path.joinpath(name).write_text("", "utf-8")
    tmp_path.joinpath("loop").mkdir()
    tmp_path.joinpath("loop", "again").symlink_to(tmp_path / "loop")
    skipped = ["venv"] if arguments != ["venv"] else ["lib"]
    places = [tmp_path / place_of(each) for each in arguments]
    assert finds_tasks(places, ("*.spec.yml",), skipped) is found
