"""Tasks against each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.spec.loaded import Loaded
from harness.spec.parametrize import expand
from harness.spec.suite import by_name, check_suite, dependencies, needed_tasks
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


def test_a_task_that_another_one_runs_has_to_exist(tmp_path: Path) -> None:
    plan = {"enabled": True, "alternative_task_id": "PAY-2"}
    rules = {"on_precondition_fail": "attempt_repair"}
    repairs = {"preconditions": ["mem('a') == 1"], "repairs": [{"task": "PAY-3"}], "error_recovery": rules}
    tasks = [loaded(tmp_path, task(task_id="PAY-1", fallback_plan=plan, **repairs))]
    alternative, repair = check_suite(tasks)
    assert (alternative.severity, alternative.path) == ("error", "fallback_plan.alternative_task_id")
    assert (repair.severity, repair.path) == ("error", "repairs[0].task")
    assert alternative.hint == "did you mean `PAY-1`?"
    assert check_suite(tasks, lambda *_: True) == ()


def test_a_directory_may_be_named_instead(tmp_path: Path) -> None:
    first = loaded(tmp_path / "D1-check", task(task_id="D1"), "task_spec.json")
    second = loaded(tmp_path, task(task_id="D2", dependencies=["D1-check"]))
    assert check_suite([first, second]) == ()
    assert dependencies([first, second])["D2"] == ("D1",)


def parametrized(folder: Path, name: str, wanted: list[str], file: str | None = None) -> list[Loaded]:
    fields = {"goal": "${param.x}", "parametrize": {"x": ["a", "b"]}}
    return [*expand(loaded(folder, task(task_id=name, dependencies=wanted, **fields), file or f"{name}.task.json"))]


def test_an_id_stands_for_all_cases_and_a_case_for_itself(tmp_path: Path) -> None:
    tasks = [*parametrized(tmp_path, "T", []), *suite(tmp_path, {"A": ["T"], "B": ["T[b]"], "C": ["T[b]", "T"]})]
    assert check_suite(tasks) == ()
    found = dependencies(tasks)
    assert (found["A"], found["B"], found["C"]) == (("T[a]", "T[b]"), ("T[b]",), ("T[b]", "T[a]"))
    assert by_name(tasks)["T"] == ("T[a]", "T[b]")


def test_a_directory_may_stand_for_all_cases(tmp_path: Path) -> None:
    fields = {"goal": "${param.x}", "parametrize": {"x": ["a", "b"]}}
    cases = expand(loaded(tmp_path / "folder", task(task_id="T", **fields), "task_spec.json"))
    assert dependencies([*cases, *suite(tmp_path, {"A": ["folder"]})])["A"] == ("T[a]", "T[b]")


def test_a_case_that_there_is_not_is_told_once(tmp_path: Path) -> None:
    [problem] = check_suite([*parametrized(tmp_path, "T", []), *parametrized(tmp_path, "U", ["T[c]"])])
    assert problem.message == "no task is called `T[c]`"
    assert problem.hint.startswith("did you mean `T[")


def test_cases_of_one_id_in_two_files_are_told_once(tmp_path: Path) -> None:
    tasks = [*parametrized(tmp_path, "T", []), *parametrized(tmp_path, "t", [], "other.task.json")]
    [problem] = check_suite(tasks)
    assert problem.file.endswith("other.task.json")
    assert "the task_id `t[a]` is taken by" in problem.message
    [alone] = check_suite([*parametrized(tmp_path, "T", []), *suite(tmp_path, {"T": []})])
    assert "the task_id `T` is taken by" in alone.message
    [like] = check_suite([*parametrized(tmp_path, "T", []), *suite(tmp_path, {"T[b]": []})])
    assert "the task_id `T[b]` is taken by" in like.message


def test_circles_through_cases_are_told_once(tmp_path: Path) -> None:
    tasks = [*parametrized(tmp_path, "T", ["A"]), *suite(tmp_path, {"A": ["T[b]"]})]
    assert [problem.message for problem in check_suite(tasks)] == ["tasks depend on each other: T -> A -> T"]
    own = parametrized(tmp_path, "U", ["U[a]"])
    assert [problem.message for problem in check_suite(own)] == ["tasks depend on each other: U -> U"]


def test_what_is_needed_is_found_through_others_and_circles() -> None:
    graph = {"A": ("B",), "B": ("C", "A"), "C": (), "D": ("A",)}
    assert needed_tasks(["B"], graph) == {"A", "B", "C"}
    assert needed_tasks(["C"], graph) == {"C"}
    chain = {str(number): (str(number + 1),) for number in range(5000)}
    assert len(needed_tasks(["0"], chain)) == 5001
