"""Steps with references, when the plan is made and when the step runs."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from harness.recovery.failure import Failed
from harness.spec.references import BadReferenceError, MissingMemory, ReferenceScope, interpolate_step, resolve
from harness.spec.steps import Step

STEP: TypeAdapter[Step] = TypeAdapter(Step)
MEMORY = {"orders.last.id": "O-1", "n": 3, "flag": True, "pair": {"a": [1]}, "who": "O'Neil"}


def step(**fields: Any) -> Step:
    return STEP.validate_python(fields)


def test_a_step_without_references_is_itself() -> None:
    click = step(act="click", selector="#a")
    assert resolve(click, lambda: MEMORY) is click


@pytest.mark.parametrize(
    ("fields", "changed"),
    [
        ({"act": "click", "selector": "#o-${memory.orders.last.id}"}, {"selector": "#o-O-1"}),
        ({"act": "click", "selector": "${memory.n}"}, {"selector": "3"}),
        ({"act": "type", "selector": "a", "value": "${memory.n}"}, {"value": 3}),
        ({"act": "type", "selector": "a", "value": "${memory.flag}"}, {"value": "true"}),
        ({"act": "scroll", "value": 5, "selector": "${memory.who}"}, {"selector": "O'Neil"}),
        ({"act": "select", "selector": "a", "value": ["${memory.n}", "b"]}, {"value": ["3", "b"]}),
        ({"act": "api", "url": "/${memory.n}", "value": {"x": ["${memory.pair}"]}}, {"value": {"x": [{"a": [1]}]}}),
        ({"act": "api", "url": "/", "headers": {"X": "${memory.n}"}}, {"headers": {"X": "3"}}),
        ({"act": "assert", "expr": "text('#a') == '${memory.who}'"}, {"expr": r"text('#a') == 'O\'Neil'"}),
        ({"act": "click", "selector": "a", "done_when": "mem('${memory.n}')==1"}, {"done_when": "mem('3')==1"}),
        ({"act": "wait", "value": 1, "remember": {"k": "text('#${memory.n}')"}}, {"remember": {"k": "text('#3')"}}),
        ({"act": "type", "selector": "a", "value": "$${memory.n}"}, {"value": "${memory.n}"}),
    ],
)
def test_memory_as_it_is_now(fields: dict[str, Any], changed: dict[str, Any]) -> None:
    made = resolve(step(**fields), lambda: MEMORY)
    assert {name: getattr(made, name) for name in changed} == changed


def test_missing_memory_is_named() -> None:
    with pytest.raises(MissingMemory) as caught:
        resolve(step(act="click", selector="#${memory.no.such}"), lambda: MEMORY)
    assert caught.value.key == "no.such"


def test_memory_that_the_step_cannot_use() -> None:
    with pytest.raises(Failed) as caught:
        resolve(step(act="type", selector="a", value="${memory.pair}"), lambda: MEMORY)
    assert caught.value.failure.code == "INVALID_INPUT"


def test_the_plan_leaves_memory_for_later() -> None:
    scope = ReferenceScope(inputs={"x": "${memory.n}"}, persona={}, environ={})
    made = interpolate_step(step(act="type", selector="#${memory.n}", value="${inputs.x}"), scope)
    assert resolve(made, lambda: MEMORY) == step(act="type", selector="#3", value="${memory.n}")


def test_an_input_that_the_step_cannot_use() -> None:
    with pytest.raises(BadReferenceError, match="cannot be used"):
        interpolate_step(step(act="press", value="${inputs.x}"), ReferenceScope(inputs={"x": {"a": 1}}))
