"""What this version does not do: refused in clear words, and never offered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.spec.origin import Origin
from harness.spec.planned import planned_problems
from harness.spec.task import TaskSpec
from tests.unit.spec.files import HEAD, STEPS, loaded, problems, task, write

REFUSED = "not available in this version"


@pytest.mark.parametrize("word", ["skip_task", "skip_stp", "retry_from_checkpont"])
def test_planned_strategies_are_not_offered(word: str, tmp_path: Path) -> None:
    [problem] = problems(write(tmp_path, task(error_recovery={"on_timeout": word})))
    assert problem.expected == "capture_state_and_abort or abort"
    assert problem.hint == ""


@pytest.mark.parametrize("act", ["hovr", "uncheckk", "dialogue"])
def test_planned_acts_are_not_offered(act: str, tmp_path: Path) -> None:
    [problem] = problems(write(tmp_path, task(steps=[{"act": act, "selector": "a"}])))
    assert not {"hover", "uncheck", "dialog"} & set(problem.expected.replace(" or ", ", ").split(", "))
    assert not any(f"`{planned}`" in problem.hint for planned in ("hover", "uncheck", "dialog"))


@pytest.mark.parametrize(
    "lines", ["checkpoint: [0]\n", "budgett: 3\n", "error_recovery: {on_state_inconsistensy: abort}\n"]
)
def test_planned_keys_are_not_offered(lines: str, tmp_path: Path) -> None:
    [problem] = problems(write(tmp_path, HEAD + lines))
    assert "unknown key" in problem.message
    assert not any(f"`{key}`" in problem.hint for key in ("checkpoints", "budget", "on_state_inconsistency"))
    assert "on_state_inconsistency" not in problem.expected


def test_it_is_told_beside_structural_errors(tmp_path: Path) -> None:
    document = task(
        inputs=[],
        steps={},
        timeout="x",
        checkpoints=[{"id": "a"}],
        budget=3,
        fallback_plan={"enabled": True, "relaxed_success_criteria": 5},
        error_recovery={"on_network_error": 7, "on_timeout": "skip_step", "on_state_inconsistency": {}},
    )
    found = {problem.path: problem.message for problem in problems(write(tmp_path, document))}
    refused = {path for path, message in found.items() if REFUSED in message}
    assert refused == {
        "checkpoints",
        "budget",
        "fallback_plan.enabled",
        "error_recovery.on_timeout",
        "error_recovery.on_state_inconsistency",
    }
    assert set(found) - refused == {
        "inputs",
        "steps",
        "timeout",
        "fallback_plan.relaxed_success_criteria",
        "error_recovery.on_network_error",
    }


def test_strict_tells_the_rest_and_holds_a_refused_rule_for_declared(tmp_path: Path) -> None:
    path = write(tmp_path, task(error_recovery={"on_timeout": {"strategy": "skip_step"}}, module_group="shop"))
    paths = [problem.path for problem in problems(path, strict=True)]
    assert paths.count("error_recovery.on_timeout") == 1
    assert "module_group" in paths


@pytest.mark.parametrize(
    "fields",
    [
        {"repairs": [], "checkpoints": [], "state_bindings": {}, "budget": {}, "parametrize": []},
        {"repairs": {}, "state_bindings": [], "fallback_plan": {}, "error_recovery": {}},
        {"error_recovery": {"on_state_inconsistency": None}, "budget": None, "repairs": None},
    ],
)
def test_what_declares_nothing_is_fine(fields: dict[str, Any], tmp_path: Path) -> None:
    assert loaded(tmp_path, task(**fields)).warnings == ()


def test_a_task_made_in_python() -> None:
    rules = {"on_timeout": "skip_step", "on_state_inconsistency": {}}
    spec = TaskSpec.model_validate(
        {
            "task_id": "T",
            "steps": STEPS,
            "checkpoints": [0],
            "fallback_plan": {"enabled": True},
            "error_recovery": rules,
        }
    )
    found = [(problem.path, problem.message) for problem in planned_problems(spec, Origin("T"))]
    assert all(REFUSED in message for _, message in found)
    assert [path for path, _ in found] == [
        "checkpoints",
        "fallback_plan.enabled",
        "error_recovery.on_timeout",
        "error_recovery.on_state_inconsistency",
    ]
    assert "the strategy `trust_env` of" in found[3][1]
