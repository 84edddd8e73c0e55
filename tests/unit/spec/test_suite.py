"""Tasks against each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.spec.checks import check_suite
from harness.spec.loaded import Loaded
from harness.spec.suite import dependencies
from tests.unit.spec.files import loaded, task


def suite(folder: Path, tasks: dict[str, list[str]]) -> list[Loaded]:
    return [
        loaded(folder, task(task_id=name, dependencies=wanted), f"{number}.task.json")
        for number, (name, wanted) in enumerate(tasks.items())
    ]


def test_a_good_suite(tmp_path: Path) -> None:
    tasks = suite(tmp_path, {"A": [], "B": ["A"], "C": ["A", "B"], "D": ["C", "B"]})
    assert check_suite(tasks) == ()
    assert dependencies(tasks) == {"A": (), "B": ("A",), "C": ("A", "B"), "D": ("C", "B")}


def test_duplicate_ids_name_both_files(tmp_path: Path) -> None:
    tasks = [loaded(tmp_path, task(), f"{name}.task.json") for name in ("one", "two")]
    [problem] = check_suite(tasks)
    assert str(problem).startswith(f"{tmp_path}/two.task.json:2:13: task_id: the task_id `T-1` is taken by")
    assert f"{tmp_path}/one.task.json" in problem.message
    assert problem.severity == "error"


def test_case_does_not_make_an_id_another(tmp_path: Path) -> None:
    [problem] = check_suite(suite(tmp_path, {"Pay-1": [], "pay-1": []}))
    assert "case does not count" in problem.message


def test_circles_are_shown_once_each(tmp_path: Path) -> None:
    tasks = suite(tmp_path, {"A": ["B"], "B": ["C"], "C": ["A"], "D": ["A", "D"], "E": []})
    messages = [problem.message for problem in check_suite(tasks)]
    assert messages == ["tasks depend on each other: A -> B -> C -> A", "tasks depend on each other: D -> D"]


def test_a_long_chain_needs_no_deep_stack(tmp_path: Path) -> None:
    first = loaded(tmp_path, task())
    chain: list[Any] = []
    for number in range(3000):
        spec = first.spec.model_copy(update={"task_id": f"T{number}", "dependencies": (f"T{number + 1}",)})
        chain.append(Loaded(spec, first.path, first.origin))
    assert [problem.severity for problem in check_suite(chain)] == ["warning"]


def test_a_dependency_nobody_has_is_a_warning(tmp_path: Path) -> None:
    [problem] = check_suite(suite(tmp_path, {"PAY-1": [], "B": ["PAY-2"]}))
    assert problem.severity == "warning"
    assert problem.path == "dependencies[0]"
    assert problem.hint == "did you mean `PAY-1`?"


def test_a_directory_may_be_named_instead(tmp_path: Path) -> None:
    first = loaded(tmp_path / "D1-check", task(task_id="D1"), "task_spec.json")
    second = loaded(tmp_path, task(task_id="D2", dependencies=["D1-check"]))
    assert check_suite([first, second]) == ()
    assert dependencies([first, second])["D2"] == ("D1",)
