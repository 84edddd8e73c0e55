"""Interpolation happens once, and no value changes what a criterion asks."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.criteria import parse
from harness.criteria.syntax import Compare, ListOf, Literal, ObjectOf, Read, Value
from harness.spec.references import ReferenceScope, interpolate, interpolate_criterion
from tests.unit.conftest import examples

PIECES = ["$", "{", "}", "${", "$${", "${memory.k}", "${inputs.y}", "${env:PW}", "${$}", "memory.k}", "'", '"', "\\"]
PIECES += [
    "\n",
    "]",
    ",",
    " && ",
    " || exists('#x')",
    "' == '",
    '" == "',
    "x",
    "\\u0041",
    "\0",
    "\u95ee",
    "null",
    "\\n",
]
hostile = st.one_of(st.text(max_size=12), st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
LATE = ReferenceScope(memory={"k": "LATE", "": "LATE", "y": "LATE"})


def early(**inputs: Any) -> ReferenceScope:
    return ReferenceScope(inputs=inputs, persona={}, environ={"PW": "s3cret"})


def right_side(criterion: str) -> Value:
    """What `mem('k')` is compared with; nothing else may be in the criterion."""
    tree = parse(criterion).tree
    assert isinstance(tree, Compare)
    assert (tree.operator, tree.left) == ("==", Read("mem", ("k",)))
    return tree.right


def rounds(criterion: str, scope: ReferenceScope) -> list[str]:
    """At once, and as a task does it: inputs when the plan is made, memory when the step runs."""
    planned = interpolate_criterion(criterion, scope, last=False)
    assert parse(planned)
    return [interpolate_criterion(criterion, scope), interpolate_criterion(planned, LATE, last=True)]


@settings(deadline=None, max_examples=examples(200))
@given(hostile, st.sampled_from(["'${inputs.x}'", '"${inputs.x}"', "${inputs.x}", " ( ${inputs.x} ) "]))
def test_a_value_is_compared_as_it_is(value: str, written: str) -> None:
    for criterion in rounds(f"mem('k') == {written}", early(x=value)):
        assert right_side(criterion) == Literal(value)


@settings(deadline=None, max_examples=examples(200))
@given(hostile, hostile, hostile.filter(lambda text: "$" not in text and "\\" not in text), st.sampled_from("'\""))
@example("$", "{memory.k}", "", "'")
@example("$", "", "{memory.k}", "'")
@example("' || exists('#x') || '", "", "", "'")
def test_values_side_by_side_in_one_literal(first: str, second: str, between: str, quote: str) -> None:
    between = between.replace(quote, "")
    text = f"mem('k') == {quote}<${{inputs.x}}${{inputs.y}}{between}{quote}"
    for criterion in rounds(text, early(x=first, y=second)):
        assert right_side(criterion) == Literal(f"<{first}{second}{between}")


@settings(deadline=None)
@given(hostile)
@example("n")
@example("'")
@example('\' || exists("#x") || url() == ')
def test_a_backslash_before_a_reference_is_a_backslash(value: str) -> None:
    for slashes in ("\\", "\\\\", "\\\\\\"):
        read = "\\" * ((len(slashes) + 1) // 2)
        for criterion in rounds(f"mem('k') == '{slashes}${{inputs.x}}'", early(x=value)):
            assert right_side(criterion) == Literal(read + value)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(-1e9, 1e9), hostile),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(hostile, inner, max_size=3)),
    max_leaves=5,
)


def plain(node: Value) -> Any:
    match node:
        case Literal(value=value):
            return value
        case ListOf(items=items):
            return [plain(item) for item in items]
        case ObjectOf(entries=entries):
            return {key: plain(item) for key, item in entries}
    raise AssertionError(f"no constant: {node}")


@settings(deadline=None)
@given(json_values)
def test_a_value_of_any_type_is_a_constant(value: Any) -> None:
    assert plain(right_side(interpolate_criterion("mem('k') == ${inputs.x}", early(x=value)))) == value


@settings(deadline=None, max_examples=examples(200))
@given(hostile, hostile)
@example("$", "{memory.k}")
@example("$$", "")
def test_a_text_is_filled_in_once(first: str, second: str) -> None:
    scope = early(x=first, y=second)
    expected = {
        "${inputs.x}": first,
        "${inputs.x}${inputs.y}": first + second,
        "a${inputs.x}{memory.k}": f"a{first}{{memory.k}}",
        "${inputs.x}${memory.k}": f"{first}LATE",
        "$${inputs.x}${inputs.y}": "${inputs.x}" + second,
    }
    for text, wanted in expected.items():
        assert interpolate(interpolate(text, scope, last=False), LATE) == wanted
    nested = {"a": ["${inputs.x}", {"b": "${inputs.y}"}]}
    assert interpolate(interpolate(nested, scope, last=False), LATE) == {"a": [first, {"b": second}]}


@pytest.mark.parametrize(
    "criterion", ["'" + "\\'" * 100_000 + "${inputs.x}", "'" * 100_001, "${" * 100_000, '"\\' * 90_000]
)
def test_a_long_unfinished_text_takes_no_long_time(criterion: str) -> None:
    started = time.process_time()
    assert interpolate_criterion(criterion + "${memory.k}", ReferenceScope(inputs={"x": "v"}), last=False)
    assert time.process_time() - started < 2


@settings(deadline=None, max_examples=examples(200))
@given(hostile, hostile)
@example("$", "{")
@example("${totp:A}", "$")
@example("${memory.k}", "{x}")
def test_only_one_time_passwords_of_the_file_wait_for_their_step(before: str, after: str) -> None:
    """Through a parameter and an input, beside values that look like references."""
    environ = {"BEFORE": before, "AFTER": after}
    param = interpolate({"code": "${env:BEFORE}${totp:A}${env:AFTER}"}, ReferenceScope(environ=environ))
    inputs = interpolate(
        {"code": "${param.code}", "more": "<${param.code}>"}, ReferenceScope(param=param, environ=environ)
    )
    planned = ReferenceScope(inputs=inputs, environ=environ)
    ready = ReferenceScope(memory={}, one_time={"A": "123456"})
    code = f"{before}123456{after}"
    for text, value in (("${inputs.code}", code), ("${inputs.more}{${env:AFTER}", f"<{code}>{{{after}")):
        assert interpolate(interpolate(text, planned, last=False), ready) == value
    for criterion in ("mem('k') == ${inputs.code}", 'mem("k") == "${inputs.code}"'):
        made = interpolate_criterion(criterion, planned, last=False)
        assert parse(made)
        assert right_side(interpolate_criterion(made, ready)) == Literal(code)
