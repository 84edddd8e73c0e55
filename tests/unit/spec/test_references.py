"""`${...}`: in texts, in criteria, twice over."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.criteria import parse
from harness.criteria.syntax import Compare, Literal
from harness.spec.references import (
    BadReferenceError,
    MissingMemory,
    ReferenceScope,
    fill,
    interpolate,
    interpolate_criterion,
    references,
)

INPUTS = {"sku": "WM-1", "max": 30, "deep": {"list": [1, {"x": None}]}, "a.b": "exact", "who": 'O\'Neil \\ "x"'}
SCOPE = ReferenceScope(inputs=INPUTS, persona={"name": "Alex", "vip": True}, environ={"PW": "s3cret"})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${inputs.sku}", "WM-1"),
        ("${inputs.max}", 30),
        ("<= ${inputs.max}", "<= 30"),
        ("${inputs.deep}", {"list": [1, {"x": None}]}),
        ("${inputs.deep.list[0]}", 1),
        ("${inputs.deep.list[1].x}", None),
        ("x${inputs.deep.list}", 'x[1, {"x": null}]'),
        ("${inputs.a.b}", "exact"),
        ("${persona.vip}-${persona.name}", "true-Alex"),
        ("${env:PW}", "s3cret"),
        ("${memory.a.b}", "${memory.a.b}"),
        ("a ${memory.x} ${inputs.max}", "a ${memory.x} 30"),
        ("$${inputs.sku}", "${inputs.sku}"),
        ("$5 {x} $", "$5 {x} $"),
    ],
)
def test_values(text: str, value: Any) -> None:
    assert interpolate(text, SCOPE) == value


def test_lists_and_mappings() -> None:
    value = {"a": ["${inputs.max}", 1], "b": {"c": "${persona.name}!"}, "d": None}
    assert interpolate(value, SCOPE) == {"a": [30, 1], "b": {"c": "Alex!"}, "d": None}
    assert interpolate(("${inputs.max}",), SCOPE) == (30,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${inputs.skuu}", "`inputs` has no `skuu` .did you mean `sku`?"),
        ("${env:NO}", "NO.*not set"),
        ("${foo}", "not a known reference"),
        ("${inputs.}", "not a known reference"),
        ("${env:a-b}", "not a known reference"),
    ],
)
def test_what_is_not_there(text: str, words: str) -> None:
    with pytest.raises(BadReferenceError, match=words):
        interpolate(text, SCOPE)


def test_memory_that_nobody_wrote() -> None:
    with pytest.raises(MissingMemory) as caught:
        interpolate("${memory.orders.last.id}", ReferenceScope(memory={"orders": {}}))
    assert caught.value.key == "orders.last.id"


def test_places_of_references() -> None:
    found = [(offset, str(wanted)) for offset, wanted in references("a ${inputs.x} $${no} ${env:Y}")]
    assert found == [(2, "${inputs.x}"), (21, "${env:Y}")]


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("json('env', 'cart.${inputs.sku}.qty') == 1", "json('env', 'cart.WM-1.qty') == 1"),
        ("mem('x') <= ${inputs.max}", "mem('x') <= 30"),
        ("mem('x') == ${persona.name}", "mem('x') == 'Alex'"),
        ("mem('x') == ${persona.vip}", "mem('x') == true"),
        ("text('#a') == ${memory.orders.last.id}", "text('#a') == mem('orders.last.id')"),
        ("mem('x') == ${inputs.deep}", "mem('x') == {'list': [1, {'x': null}]}"),
        ("exists('#o-${memory.id}')", "exists('#o-${memory.id}')"),
        ("text('#a') == '${inputs.who}'", r"""text('#a') == 'O\'Neil \\ "x"'"""),
        ('text("#a") == "${inputs.who}"', r'''text("#a") == "O'Neil \\ \"x\""'''),
    ],
)
def test_criteria(text: str, filled: str) -> None:
    assert interpolate_criterion(text, SCOPE, last=False) == filled


@given(st.text(max_size=20), st.sampled_from(["'${inputs.x}'", '"${inputs.x}"', "${inputs.x}"]))
def test_no_value_breaks_out_of_its_literal(value: str, written: str) -> None:
    tree = parse(interpolate_criterion(f"mem('k') == {written}", ReferenceScope(inputs={"x": value}))).tree
    assert isinstance(tree, Compare)
    assert isinstance(tree.right, Literal)
    assert tree.right.value == value


@given(st.text(alphabet="${}memory.xinputs: ", max_size=30))
def test_what_comes_out_of_a_value_is_never_interpolated(value: str) -> None:
    early, late = ReferenceScope(inputs={"x": value}), ReferenceScope(memory={"x": "SECRET", "": "SECRET"})
    for text in ("${inputs.x}", "<${inputs.x}>"):
        first = fill(text, early, last=False)
        assert fill(first, late, last=True) == text.replace("${inputs.x}", value)
