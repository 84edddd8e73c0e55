"""Files of tasks that those on the command line depend on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.pytest_plugin.selection import Asked, added_files
from tests.unit.spec.files import task, write

CASES = {"goal": "${param.x}", "parametrize": {"x": ["a", "b"]}}


def put(folder: Path, name: str, *wanted: str, **fields: Any) -> Path:
    return write(folder, task(task_id=name, dependencies=list(wanted), **fields), f"{name}.task.json")


def added(folder: Path, *arguments: str, also: tuple[Path, ...] = ()) -> list[str]:
    asked = [Asked.of(argument, folder) for argument in arguments]
    return [str(path.relative_to(folder)) for path in added_files(asked, also, ())]


@pytest.mark.parametrize(
    ("argument", "path", "name"),
    [
        ("tasks", "tasks", ""),
        ("./tasks/../a.task.json", "a.task.json", ""),
        ("a.task.json::T", "a.task.json", "T"),
        ("a.task.json::T[x-1]", "a.task.json", "T[x-1]"),
        ("a.task.json::T[x::y]", "a.task.json", "T[x::y]"),
    ],
)
def test_arguments_are_read_as_pytest_reads_them(argument: str, path: str, name: str, tmp_path: Path) -> None:
    assert Asked.of(argument, tmp_path) == Asked(tmp_path / path, name)


def test_what_an_argument_reaches(tmp_path: Path) -> None:
    file = tmp_path / "tasks" / "a.task.json"
    assert Asked(tmp_path).reaches(file, "T")
    assert Asked(file).reaches(file, "T[a]")
    assert Asked(file, "T").reaches(file, "T[a]")
    assert Asked(file, "T[a]").reaches(file, "T[a]")
    assert not Asked(file, "T[a]").reaches(file, "T[b]")
    assert not Asked(file, "T").reaches(file, "U")
    assert not Asked(tmp_path / "other").reaches(file, "T")


def test_nothing_is_added_where_all_is_there(tmp_path: Path) -> None:
    put(tmp_path, "A", "B")
    put(tmp_path, "B")
    assert added(tmp_path, ".") == []
    assert added(tmp_path, "B.task.json") == []
    assert added(tmp_path, "A.task.json", "B.task.json") == []


def test_dependencies_of_dependencies_are_added(tmp_path: Path) -> None:
    for name, wanted in (("A", ["B"]), ("B", ["C"]), ("C", []), ("D", ["A"])):
        put(tmp_path, name, *wanted)
    assert sorted(added(tmp_path, "A.task.json")) == ["B.task.json", "C.task.json"]
    assert sorted(added(tmp_path, "A.task.json::A")) == ["B.task.json", "C.task.json"]


def test_other_folders_are_looked_through_too_and_the_nearest_wins(tmp_path: Path) -> None:
    put(tmp_path / "one", "A", "B", "C")
    put(tmp_path / "one", "B")
    put(tmp_path / "two", "B")
    put(tmp_path / "two", "C")
    assert added(tmp_path, "one/A.task.json") == ["one/B.task.json"]
    found = added(tmp_path, "one/A.task.json", also=(tmp_path / "two", tmp_path / "no-such-folder"))
    assert sorted(found) == ["one/B.task.json", "two/C.task.json"]


def test_the_other_cases_of_a_file_are_added(tmp_path: Path) -> None:
    put(tmp_path, "T", **CASES)
    put(tmp_path, "A", "T")
    put(tmp_path, "B", "T[a]")
    assert added(tmp_path, "T.task.json::T[a]", "A.task.json") == ["T.task.json"]
    assert added(tmp_path, "T.task.json::T[a]", "B.task.json") == []
    assert added(tmp_path, "B.task.json") == ["T.task.json"]


def test_a_folder_names_its_task(tmp_path: Path) -> None:
    write(tmp_path / "login", task(task_id="L-1"), "task_spec.json")
    put(tmp_path, "A", "login")
    assert added(tmp_path, "A.task.json") == ["login/task_spec.json"]


def test_what_cannot_be_found_or_read_is_left_to_the_run(tmp_path: Path) -> None:
    put(tmp_path, "A", "B", "GONE")
    write(tmp_path, "task_id: B\nsteps: 3\n", "B.task.yaml")
    (tmp_path / "test_plain.py").write_text("", "utf-8")
    assert added(tmp_path, "A.task.json", "test_plain.py", "no-such-file") == []
