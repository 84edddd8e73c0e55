"""Which tasks of a run its fault plans strike."""

from __future__ import annotations

from pathlib import Path

from harness.pytest_plugin.xdist import tasks_of
from harness.reporting.summary import header_lines, idle_lines, reach_lines
from harness.spec.fault_plan import load_fault_plan
from harness.spec.task import TaskSpec
from tests.unit.spec.files import task, write

TASKS = [TaskSpec(task_id=name, goal="g") for name in ("A-1", "A-2", "B-1")]


def plan(folder: Path, *faults: str) -> Path:
    file = folder / "n.faults.yaml"
    file.write_text("faults:\n" + "".join(f"  - {each}\n" for each in faults), "utf-8")
    return file


def test_what_a_plan_strikes_is_counted(tmp_path: Path) -> None:
    plans = [load_fault_plan(plan(tmp_path, "{tasks: A-*, kind: page_crash}", "{tasks: A-1, kind: driver_kill}"))]
    assert [line.partition("(")[2] for line in reach_lines(plans, TASKS)] == ["2 faults, 2 tasks)"]
    assert [line.partition("(")[2] for line in header_lines(plans)] == ["2 faults)"]
    assert list(idle_lines(plans, TASKS)) == []


def test_what_strikes_nothing_is_named(tmp_path: Path) -> None:
    crash = "{tasks: Z-*, kind: page_crash}"
    part = load_fault_plan(plan(tmp_path, crash, "{tasks: [Y, X], id: mine, kind: driver_kill}", "{kind: dialog}"))
    (line,) = idle_lines([part], TASKS)
    assert line.endswith(
        "n.faults.yaml: 2 of 3 faults strike no task of this run: page_crash-0 (tasks: Z-*), mine (tasks: Y, X)"
    )
    whole = load_fault_plan(plan(tmp_path, *[crash] * 5))
    (line,) = idle_lines([whole], TASKS)
    assert ": strikes no task of this run: page_crash-0 (tasks: Z-*), " in line
    assert line.endswith("page_crash-2 (tasks: Z-*) and 2 more")


def test_under_xdist_tasks_are_known_by_their_node_ids(tmp_path: Path) -> None:
    write(tmp_path, task(task_id="T"), "T.task.json")
    found = tasks_of(tmp_path, iter(["T.task.json::T", "T.task.json::gone", "test_x.py::test_a"]))
    assert [(name, each.spec.task_id) for name, each in found.items()] == [("T.task.json::T", "T")]
