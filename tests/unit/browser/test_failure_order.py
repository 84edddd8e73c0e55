"""The order in which a failure is classified, as the room's first page tells it, is the one that the code has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from harness.browser import failures
from harness.browser.failures import classify

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
FOUND = {
    node.name: node
    for path in Path(failures.__file__).parent.glob("*.py")
    for node in ast.walk(ast.parse(path.read_text("utf-8")))
    if isinstance(node, FUNCTION) and node.returns is not None
    if ast.unparse(node.returns) in ("Failure", "Failure | None")
}


def asked(function: str) -> list[str]:
    """What it calls that makes a Failure, in the order in which the calls are over."""
    calls = [node for node in ast.walk(FOUND[function]) if isinstance(node, ast.Call)]
    calls.sort(key=lambda call: (call.end_lineno, call.end_col_offset))
    return [call.func.id for call in calls if isinstance(call.func, ast.Name) and call.func.id in FOUND]


def told() -> dict[str, list[str]]:
    parts = re.split(r"^`(\w+)`: ", failures.__doc__ or "", flags=re.MULTILINE)[1:]
    lists = [re.findall(r"^- `(\w+)`", part, re.MULTILINE) for part in parts[1::2]]
    return dict(zip(parts[::2], lists, strict=True))


def test_the_order_of_classification_is_told_as_it_is() -> None:
    assert told() == {function: asked(function) for function in told()}


def test_no_function_of_the_classifier_that_asks_several_is_left_out() -> None:
    module = ast.parse(Path(classify.__file__).read_text("utf-8"))
    own = {node.name for node in module.body if isinstance(node, FUNCTION)}
    assert {name for name in own & set(FOUND) if len(asked(name)) > 1} - set(told()) == set()


def test_each_list_is_asked_by_one_above_it() -> None:
    first, *others = told()
    assert first == "failure_of"
    assert set(others) - {name for names in told().values() for name in names} == set()
