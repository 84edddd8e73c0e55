"""`parametrize: {file: ...}`: the cases of a task in a CSV or JSON file, and every problem with its place there."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.spec.data_file import DataSource
from harness.spec.load import load_file
from harness.spec.parametrize import Case, cases, expand
from harness.spec.problems import Problem
from tests.unit.spec.files import HEAD, problems, write

GOAL = "goal: ${param.email}\n"


def task(folder: Path, declared: str = "{file: users.csv}", more: str = GOAL) -> Path:
    return write(folder, f"{HEAD}{more}parametrize: {declared}\n")


def found(folder: Path, data: str | bytes, name: str = "users.csv", declared: str = "") -> tuple[Case, ...]:
    write(folder, data, name)
    return cases(load_file(task(folder, declared or f"{{file: {name}}}")).spec)


def told(folder: Path, data: str | bytes | None, name: str = "users.csv", declared: str = "") -> list[str]:
    """The problems as lines; paths are those of the folder."""
    if data is not None:
        write(folder, data, name)
    every: tuple[Problem, ...] = problems(task(folder, declared or f"{{file: {name}}}"))
    return [f"{each} ".replace(f"{folder}/", "").replace("\n", "") for each in every]


def test_a_csv_file_has_a_case_in_each_row_and_every_value_is_a_text(tmp_path: Path) -> None:
    text = '\ufeffid,email,note\r\nann,a@b.c,"one, ""two""\r\nthree"\r\n\r\nbob,,007\r\n   \r\n'
    assert found(tmp_path, text) == (
        Case("ann", {"email": "a@b.c", "note": 'one, "two"\nthree'}),
        Case("bob", {"email": "", "note": "007"}),
    )


def test_a_column_names_the_cases_and_stays_a_parameter(tmp_path: Path) -> None:
    declared = "{file: users.csv, id: email}"
    assert found(tmp_path, "email,n\na@b.c,1\n", declared=declared) == (Case("a@b.c", {"email": "a@b.c", "n": "1"}),)
    numbers = '[{"email": "x", "n": 7}, {"email": "y", "n": 8}]'
    assert [case.id for case in found(tmp_path, numbers, "u.json", "{file: u.json, id: n}")] == ["7", "8"]


def test_a_json_file_keeps_the_types_of_its_values(tmp_path: Path) -> None:
    assert found(tmp_path, '[{"email": "a", "n": 1.5, "ok": true, "no": null}]', "u.json") == (
        Case("a-1.5-true-null", {"email": "a", "n": 1.5, "ok": True, "no": None}),
    )


def test_the_cases_are_tasks_like_listed_ones(tmp_path: Path) -> None:
    write(tmp_path, "id,email\na,x\nb,y\n", "users.csv")
    listed = write(tmp_path, f"{HEAD}{GOAL}parametrize: [{{id: a, email: x}}, {{id: b, email: 'y'}}]\n", "l.task.yaml")
    ours, theirs = ([each.spec for each in expand(load_file(path))] for path in (task(tmp_path), listed))
    assert ours == theirs
    assert [spec.task_id for spec in ours] == ["T-1[a]", "T-1[b]"]


def test_a_parameter_may_be_called_file_if_it_has_a_list(tmp_path: Path) -> None:
    path = task(tmp_path, "{file: [a.txt, b.txt]}", "goal: ${param.file}\n")
    assert [case.values for case in cases(load_file(path).spec)] == [{"file": "a.txt"}, {"file": "b.txt"}]


def test_a_folder_task_finds_its_data_in_its_folder(tmp_path: Path) -> None:
    write(tmp_path, '{"steps": [{"act": "open", "url": "${param.url}"}]}', "T/oracle_trace.json")
    write(tmp_path, "id,url\na,http://a.b/\n", "T/data/urls.csv")
    spec = {"task_id": "T", "goal": "g", "parametrize": {"file": "data/urls.csv"}}
    path = write(tmp_path, json.dumps(spec), "T/task_spec.json")
    assert [each.spec.task_id for each in expand(load_file(path))] == ["T[a]"]


PROBLEMS: dict[str, tuple[str | bytes | None, tuple[str, ...]]] = {
    "missing": (None, ("t.task.yaml:6:21: parametrize.file: there is no such file", "found: text 'users.csv'")),
    "empty": ("", ("users.csv:1:1: the file is empty", "a header row")),
    "only-a-header": ("id,email\n", ("users.csv:2:1: parametrize: the file has no rows",)),
    "no-header": ("a@b.c,x\n1,2\n", ("users.csv:1:1: parametrize: not a name for a column", "the first row names")),
    "semicolons": ("id;email\na;b\n", ("users.csv:1:1:", "separate the cells with commas")),
    "blank-name": ("id,,email\n1,2,3\n", ("users.csv:1:4: parametrize: not a name for a column",)),
    "same-name": ("id,email,email\n1,2,3\n", ("users.csv:1:10: parametrize: there are two columns `email`",)),
    "too-many": ('id,email\na,"x\ny"\nb,y,z\n', ("users.csv:4:5: parametrize[1]: the row has too many", "expected: 2")),
    "too-few": ("id,email\n\na,x\nb\n", ("users.csv:4:1: parametrize[1]: the row has too few cells", "found: 1")),
    "same-id": ("id,email\na,x\nA,y\n", ("users.csv:3:1: parametrize[1].id: the id `A` is already the id of case 0",)),
    "bad-id": ("email,id\nx,a/b\n", ("users.csv:2:3: parametrize[0].id: not an id for a case", "'a/b'")),
    "open-quote": ('id,email\na,"x\nb,y\n', ("users.csv:2:1: a cell that begins with a quote has no closing quote",)),
    "text-after-quote": ('id,email\na,"x"y\n', ("users.csv:2:1: the row is not CSV",)),
    "not-utf-8": (b"id,email\na,\xe9\n", ("users.csv:2:3: the file is not UTF-8", "0xe9")),
    "utf-16": ("id,email\n".encode("utf-16"), ("users.csv:1:1: the file is not UTF-8",)),
    "too-many-cases": ("email\n" + "x\n" * 1001, ("users.csv:1:1: parametrize: too many cases", "found: 1001")),
    "reference": ('id,email\na,"a""b ${inputs.x}"\n', ("users.csv:2:9: parametrize[0].email: ${inputs.x}",)),
    "bare-reference": ("id,email\na,|'${envv:X}\n", ("users.csv:2:5: parametrize[0].email: ${envv:X}",)),
}


@pytest.mark.parametrize(("data", "words"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_problem_of_a_csv_file_has_its_place(tmp_path: Path, data: Any, words: tuple[str, ...]) -> None:
    only = told(tmp_path, data)
    assert len(only) == 1, only
    assert only[0].startswith(words[0])
    assert all(word in only[0] for word in words), only


JSON_PROBLEMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "no-list": ('{"email": "x"}', ("u.json:1:1: parametrize: not a list of cases",)),
    "no-rows": ("[]", ("u.json:1:1: parametrize: the file has no rows",)),
    "no-object": ('[{"email": "x"},\n ["x"]]', ("u.json:2:2: parametrize[1]: not a case",)),
    "nested": ('[{"email":\n {"x": 1}}]', ("u.json:2:2: parametrize[0].email: a nested value", "found: a mapping")),
    "not-json": ("[{'email': 1}]", ("u.json:1:3:",)),
    "missing-name": (
        '[{"email": "x", "n": 1},\n {"email": "y"}]',
        ("u.json:2:2: parametrize[1]: the case has no `n`",),
    ),
    "id-as-a-number": ('[{"id": 7, "email": "x"}]', ("u.json:1:9: parametrize[0].id: the id of a case is a text",)),
}


@pytest.mark.parametrize(("data", "words"), JSON_PROBLEMS.values(), ids=JSON_PROBLEMS)
def test_a_problem_of_a_json_file_has_its_place(tmp_path: Path, data: str, words: tuple[str, ...]) -> None:
    only = told(tmp_path, data, "u.json")
    assert len(only) == 1, only
    assert only[0].startswith(words[0])
    assert all(word in only[0] for word in words), only


DECLARED = {
    "{file: users.csv, ids: email}": "t.task.yaml:6:32: parametrize.ids: unknown key `ids`",
    "{file: users.csv, sku: [a, b]}": "t.task.yaml:6:32: parametrize.sku: unknown key `sku`",
    "{file: users.csv, id: 3}": "t.task.yaml:6:36: parametrize.id: wrong type",
    "{file: users.csv, id: emial}": "t.task.yaml:6:36: parametrize.id: users.csv has no column `emial`",
    "{file: users.csv, id: email}": "t.task.yaml:6:36: parametrize.id: users.csv has a column `id`",
    "{file: user.csv}": "t.task.yaml:6:21: parametrize.file: there is no such file",
    "{file: t.task.yaml}": "t.task.yaml:6:21: parametrize.file: not a data file",
    "{file: ../users.csv}": "t.task.yaml:6:21: parametrize.file: the path leaves the task's folder",
    "{file: /users.csv}": "t.task.yaml:6:21: parametrize.file: the path is absolute",
    "{file: link.csv}": "t.task.yaml:6:21: parametrize.file: the path leaves the task's folder through a link",
}


@pytest.mark.parametrize("declared", DECLARED)
def test_a_wrong_declaration_is_refused_where_it_stands(tmp_path: Path, declared: str) -> None:
    write(tmp_path, "id,email\na,x\n", "outside.csv")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link.csv").symlink_to(tmp_path / "outside.csv")
    only = told(tmp_path / "in", "id,email\na,x\n", declared=declared)
    assert len(only) == 1, only
    assert only[0].startswith(DECLARED[declared]), only
    if "emial" in declared or "user.csv" in declared:
        assert "did you mean" in only[0]


def test_columns_of_other_tasks_are_no_problem_but_one_must_be_used(tmp_path: Path) -> None:
    write(tmp_path, "id,email,other\na,x,1\n", "users.csv")
    assert load_file(task(tmp_path)).warnings == ()
    (warning,) = load_file(task(tmp_path, more="goal: g\n")).warnings
    assert (warning.line, warning.path) == (6, "parametrize")
    assert "nothing refers to a column of" in warning.message


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), max_size=8)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5))
def test_each_cell_has_its_place(rows: list[tuple[str, str]]) -> None:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    writer.writerows([("a", "b"), *rows])
    table = DataSource("f.csv", written.getvalue(), [], is_json=False)
    lines = table.text.split("\n")
    for number, row in enumerate(rows):
        for name, cell in zip("ab", row, strict=True):
            line, column = table.place((number, name))
            there = lines[line - 1][column - 1 :]
            first = cell.partition("\n")[0].replace('"', '""')
            assert there.startswith((first, f'"{first}'))
