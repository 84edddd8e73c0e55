"""What a saved file concerns."""

from __future__ import annotations

import queue
from pathlib import Path

import pytest

from harness.cli.watch import Input, WatchSession, concerned, is_watched
from harness.model.settings import Settings
from harness.spec.load import load_file
from harness.spec.loaded import Loaded
from tests.unit.spec.files import write

GROUP = "steps: [{act: wait, value: 0}]\n"
NAMES = ("A", "B")


@pytest.fixture
def tasks(tmp_path: Path) -> list[Loaded]:
    write(tmp_path, GROUP, "look.steps.yaml")
    (tmp_path / "a.csv").write_text("x", "utf-8")
    steps = {
        "A": "- {use: look}",
        "B": "- {act: upload, selector: '#f', value: a.csv}\n  - {act: assert, screenshot: looks/b.png}",
    }
    files = [write(tmp_path, f"task_id: {name}\nsteps:\n  {steps[name]}\n", f"{name}.task.yaml") for name in NAMES]
    return [load_file(file) for file in files]


@pytest.mark.parametrize(
    ("file", "failed", "expected"),
    [
        ("A.task.yaml", [], ["A"]),
        ("look.steps.yaml", [], ["A"]),
        ("a.csv", [], ["B"]),
        ("looks/b-linux-phone.png", [], ["B"]),
        ("other.csv", [], []),
        ("conftest.py", ["B"], ["B"]),
        ("conftest.py", [], ["A", "B"]),
        ("pyproject.toml", ["A", "B"], ["A", "B"]),
    ],
)
def test_a_change_concerns(
    tmp_path: Path, tasks: list[Loaded], file: str, failed: list[str], expected: list[str]
) -> None:
    assert [task.spec.task_id for task in concerned([tmp_path / file], tasks, failed)] == expected


def test_a_task_is_concerned_by_the_files_of_its_login(tmp_path: Path) -> None:
    write(tmp_path, GROUP, "look.steps.yaml")
    login = load_file(write(tmp_path, "task_id: L\nsteps: [{use: look}]\n", "in.task.yaml"))
    steps = "steps: [{act: wait, value: 0}]"
    tasks = [
        load_file(write(tmp_path, f"task_id: A\nlogin: ann\n{steps}\n", "A.task.yaml")),
        load_file(write(tmp_path, f"task_id: B\n{steps}\n", "B.task.yaml")),
    ]
    for name in ("in.task.yaml", "look.steps.yaml"):
        assert [task.spec.task_id for task in concerned([tmp_path / name], tasks, [], {"ann": login})] == ["A"]


def test_what_runs_write_is_not_watched(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    watched = ("tasks/a.task.yaml", "a.py", "pyproject.toml", "steps/x.steps.yaml")
    others = ("errors/T/error_report.json", ".harness/x", "a/.git/HEAD", "x/__pycache__/a.pyc", "node_modules/a.js")
    assert all(is_watched(tmp_path / name, tmp_path, errors) for name in watched)
    assert not any(is_watched(tmp_path / name, tmp_path, errors) for name in others)
    assert not is_watched(tmp_path.parent / "a.py", tmp_path, errors)


def test_settings_that_are_half_written_end_nothing_and_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs: queue.Queue[Input] = queue.Queue()
    file = tmp_path / "pyproject.toml"
    file.write_text("[tool.harness]\nisolation = ", "utf-8")
    inputs.put(Input(changed=frozenset({file})))
    inputs.put(Input("q"))
    ended: list[bool] = []
    session = WatchSession([tmp_path], Settings(root=tmp_path), inputs)
    monkeypatch.setattr(session, "end_harness", lambda: ended.append(True))
    session.run()
    assert ended == []
    told = "".join(capsys.readouterr())
    assert "pyproject.toml" in told, told
