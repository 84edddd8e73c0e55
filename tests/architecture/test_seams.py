"""Tests use what the code offers: none reaches into a private name of another object or module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.syntax import tree

TESTS = Path(__file__).parents[1]
OWN = {"self", "cls"}
BY_NAME = {"setattr", "delattr", "getattr", "hasattr", "object", "patch"}
"""Functions that take the name of what they reach as a text: those of Python, `monkeypatch` and `mock`."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name != "_exit"  # `os._exit` is public


def reached(tree: ast.AST) -> Iterator[str]:
    """The private names of others that a module uses: attributes, imports, and names given as texts."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner)) if owner in OWN:
                pass
            case ast.Attribute(value=ast.Name(id="os"), attr="_exit"):
                pass  # it is public: its name only warns
            case ast.Attribute(attr=name):
                yield name
            case ast.ImportFrom(module=module, names=names):
                yield from (module or "").split(".")
                yield from (each.name for each in names)
            case ast.Import(names=names):
                yield from (part for each in names for part in each.name.split(".")[1:])
            case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called)) if called in BY_NAME:
                texts = (each.value for each in node.args if isinstance(each, ast.Constant))
                yield from (text.rpartition(".")[2] for text in texts if isinstance(text, str))


NAME = r"_(?!\w*__\b)\w"
PERHAPS = re.compile(
    rf"(?<!self)(?<!cls)\.{NAME}|[\"']{NAME}|\bfrom {NAME}|\bimport\b.*\b{NAME}|^\s*{NAME}[\w ]*,$", re.MULTILINE
)
"""What may be such a name; to parse all tests takes seconds."""


def test_no_test_reaches_into_a_private_name() -> None:
    found = {
        (path.relative_to(TESTS).as_posix(), name)
        for path in TESTS.rglob("*.py")
        if PERHAPS.search(path.read_text("utf-8"))
        for name in reached(tree(path))
        if is_private(name)
    }
    assert found == set(), "use what is public there, or make public what several tests need"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("session._tab.page", "_tab"),
        ("self.harness._loop", "_loop"),
        ("from harness.cli.report import _lines", "_lines"),
        ("from playwright._impl import errors", "_impl"),
        ("import playwright._impl.errors", "_impl"),
        ("monkeypatch.setattr(command, '_run', fake)", "_run"),
        ("monkeypatch.setattr('harness.history.file._known', fake)", "_known"),
        ("getattr(world, '_plan')", "_plan"),
    ],
)
def test_each_way_to_reach_one_is_seen(line: str, name: str) -> None:
    assert PERHAPS.search(line)
    assert [each for each in reached(ast.parse(line)) if is_private(each)] == [name]


@pytest.mark.parametrize("line", ["self._own", "cls._own", "module.__name__", "import _thread", "_local = 1"])
def test_what_is_ones_own_or_public_is_not(line: str) -> None:
    assert [each for each in reached(ast.parse(line)) if is_private(each)] == []
