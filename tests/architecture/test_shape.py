"""The elegance budget, as a walk over the syntax trees: a module is a subject, not a size."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness
from tests.architecture.syntax import nodes

ROOT = Path(harness.__file__).parent
MODULES = sorted(path for path in ROOT.rglob("*.py"))
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@pytest.fixture(scope="module", autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    nodes.cache_clear()


def tree(path: Path) -> ast.Module:
    module = nodes(path)[0]
    assert isinstance(module, ast.Module)
    return module


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in nodes(path) if isinstance(node, FUNCTION))


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def size(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_a_module_fits_the_budget() -> None:
    lines = {path: path.read_text("utf-8").count("\n") for path in MODULES}
    assert {shown(path): count for path, count in lines.items() if count > 600} == {}, "two subjects in one?"
    assert {f"{shown(path)}:{f.name}": size(f) for path in MODULES for f in functions(path) if size(f) > 60} == {}
    silent = [shown(path) for path, count in lines.items() if count >= 3 and not ast.get_docstring(tree(path))]
    assert silent == [], "a module says what it is"


def test_no_test_runs_a_second_time_beside_others() -> None:
    """A test that fails now and then is mended. What a busy machine explains is judged alone, by `make test`."""
    mark = "pytest.mark." + "flaky"
    marked = [path for path in (ROOT.parent / "tests").rglob("*.py") if mark in path.read_text("utf-8")]
    assert marked == []


def test_only_the_clock_reads_the_time_and_sleeps() -> None:
    found = {
        str(path.relative_to(ROOT))
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in {("time", "sleep"), ("time", "monotonic"), ("time", "time")}
    }
    assert found <= {"resilience/clock.py"}


def test_one_place_takes_screenshots() -> None:
    calls = [
        path.relative_to(ROOT)
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and node.attr == "screenshot" and "page" in ast.dump(node.value)
    ]
    assert {path.as_posix() for path in calls} == {"browser/context.py"}


def test_no_folder_has_a_name_that_says_nothing() -> None:
    names = {part for path in MODULES for part in path.relative_to(ROOT).with_suffix("").parts}
    assert names & {"utils", "helpers", "managers", "handlers", "common", "misc"} == set()


def test_a_class_name_stands_once() -> None:
    """Whoever searches for a class finds one. A page of markdown and a page of a browser have names of their own."""
    found = [node.name for path in MODULES for node in tree(path).body if isinstance(node, ast.ClassDef)]
    assert {name for name, count in Counter(found).items() if count > 1} == set()


def test_no_struct_has_a_field_of_a_dataclass() -> None:
    """Type checkers accept it, and the value of the field would be the declaration itself."""
    wrong = [
        f"{shown(path)}:{found.name}"
        for path in MODULES
        if "field" in imported_from("dataclasses", path)
        for found in nodes(path)
        if isinstance(found, ast.ClassDef) and not found.decorator_list
        for node in found.body
        if isinstance(node, ast.AnnAssign) and node.value and ast.unparse(node.value).startswith("field(")
    ]
    assert wrong == []


def imported_from(module: str, path: Path) -> set[str]:
    found = (node for node in tree(path).body if isinstance(node, ast.ImportFrom) and node.module == module)
    return {each.name for node in found for each in node.names}
