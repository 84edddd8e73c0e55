"""What a step says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from harness.spec.steps import Assert, Step
from harness.spec.validation import ACTS, FAULTS, RULES, keys_at
from tests.unit.spec.files import loaded, problems, task, write

STEP: TypeAdapter[Step] = TypeAdapter(Step)


@pytest.mark.parametrize(
    ("fields", "effect"),
    [
        ({"act": "click", "selector": "a"}, "idempotent"),
        ({"act": "click", "selector": "a", "effect": "write"}, "write"),
        ({"act": "submit", "selector": "a"}, "write"),
        ({"act": "submit", "selector": "a", "effect": "read"}, "read"),
        ({"act": "api", "url": "/a"}, "read"),
        ({"act": "api", "url": "/a", "method": "DELETE"}, "write"),
        ({"act": "assert", "selector": "a", "value": "b"}, "read"),
    ],
)
def test_effects(fields: dict[str, Any], effect: str) -> None:
    assert STEP.validate_python(fields).effect_class == effect


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"act": "open", "url": "http://a/"}, "open http://a/"),
        ({"act": "type", "selector": "#a", "value": 5}, "type #a = '5'"),
        ({"act": "press", "value": "Enter"}, "press Enter"),
        ({"act": "wait", "value": 2}, "wait 2 s"),
        ({"act": "wait", "selector": "#a", "value": "done"}, "wait #a"),
        ({"act": "assert", "expr": "url() == 'x'"}, "assert url() == 'x'"),
        ({"act": "api", "url": "/a", "method": "PUT"}, "api PUT /a"),
        ({"act": "scroll"}, "scroll"),
    ],
)
def test_descriptions(fields: dict[str, Any], words: str) -> None:
    assert STEP.validate_python(fields).describe() == words


@pytest.mark.parametrize("act", ["click", "type", "select", "check", "download"])
def test_acts_that_take_force(act: str) -> None:
    value = {"value": "b"} if act in ("type", "select") else {}
    assert STEP.validate_python({"act": act, "selector": "a", "force": True, **value}).model_dump()["force"] is True


def test_no_other_act_takes_force() -> None:
    assert {act for act, model in ACTS.items() if "force" in model.model_fields} == {
        "click",
        "tap",
        "clear",
        "type",
        "select",
        "check",
        "uncheck",
        "hover",
        "drag",
        "download",
    }


def test_the_vocabulary_is_read_off_the_models() -> None:
    assert list(ACTS)[:3] == ["open", "click", "tap"]
    assert {"refuse", "hang", "delayed_state", "browser_kill", "renamed"} <= set(FAULTS)
    assert list(RULES["on_timeout"]) == ["capture_state_and_abort", "abort", "retry_from_checkpoint", "skip_step"]
    assert "max_retries" in keys_at(("error_recovery", "on_network_error"), {"strategy": "retry"})
    assert "max_retries" not in keys_at(("error_recovery", "on_network_error"), {"strategy": "abort"})


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"aria": "- list", "value": "x", "selector": "ul"}, "`assert` with `aria` takes neither"),
        ({"aria": "- list", "expr": "title() == 'x'"}, "`assert` with `aria` takes neither"),
        ({"selector": "ul"}, "or an `aria` snapshot"),
        ({}, "or `expr`, or `aria`"),
        ({"expr": "title() == 'x'", "soft": True, "optional": True}, "`soft` and `optional` contradict each other"),
        ({"aria": "../x.aria.yaml"}, "the path leaves the task's folder"),
        ({"screenshot": "x.png", "value": "x", "selector": "ul"}, "`assert` with `screenshot` takes neither"),
        ({"screenshot": "x.png", "aria": "- list"}, "takes either `aria` or `screenshot`"),
        ({"screenshot": "x.jpg"}, "`screenshot` of an `assert` names a file `*.png`"),
        ({"screenshot": "../x.png"}, "the path leaves the task's folder"),
        ({"screenshot": "/x.png"}, "the path is absolute"),
        ({"screenshot": "x.png", "selector": "ul", "full_page": True}, "leave out `selector` and `frame`"),
        ({"screenshot": "x.png", "max_diff_pixels": -1}, "max_diff_pixels"),
        ({"screenshot": "x.png", "max_diff_pixel_ratio": 1.1}, "max_diff_pixel_ratio"),
        ({"screenshot": "x.png", "threshold": 2}, "threshold"),
        ({"screenshot": "x.png", "mask": "#a"}, "mask"),
        ({"expr": "title() == 'x'", "mask": ["#a"]}, "`mask` of an `assert` needs `screenshot`"),
        ({"expr": "title() == 'x'", "threshold": 0.2, "max_diff_pixels": 1}, "`max_diff_pixels`, `threshold` of an"),
    ],
)
def test_the_forms_of_an_assertion(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    found = problems(write(tmp_path, task(steps=[{"act": "assert", **keys}])))
    assert message in "\n".join(map(str, found))


def test_a_baseline_need_not_be_there_and_has_a_place_of_its_own(tmp_path: Path) -> None:
    steps = [{"act": "assert", "aria": "x.aria.yaml", "soft": True}, {"act": "assert", "aria": "- list"}]
    found = loaded(tmp_path, task(steps=steps)).spec.steps
    assert [step.baseline for step in found if isinstance(step, Assert)] == ["x.aria.yaml", None]
    assert [step.describe() for step in found] == ["assert ARIA snapshot of the page"] * 2
