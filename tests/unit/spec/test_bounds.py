"""How large a task may be: what its file multiplies is refused while it is counted, and never built first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.recovery.failure import Failed
from harness.spec.expressions import checked_cases
from harness.spec.load import check_group, load_file
from harness.spec.problems import SpecError
from harness.spec.references import MOST_FILLED, resolve
from harness.spec.steps import Type
from harness.spec.task import TaskSpec
from harness.spec.validation import MOST_ITEMS, MOST_STEPS
from tests.unit.spec.files import problems, write

WAIT = {"act": "wait", "value": 0}


def groups(folder: Path, count: int, step: Callable[[int], str], last: str, head: str = "") -> None:
    """Groups g0, g1, ...: the steps of each use the next one, and those of the last one do something."""
    for number in range(count):
        steps = step(number + 1) if number < count - 1 else last
        write(folder, f"{head}steps:\n{steps}", f"g{number}.steps.yaml")


def told(folder: Path, **keys: Any) -> str:
    data = {"task_id": "T", "goal": "g", "steps": [WAIT], **keys}
    return "\n".join(map(str, problems(write(folder, json.dumps(data), "T.task.json"))))


NOTHING = "- {act: wait, value: 0}\n"


def test_groups_that_multiply_their_steps_end_at_the_bound_with_the_chain_of_use(tmp_path: Path) -> None:
    groups(tmp_path, 21, lambda number: f"- {{use: g{number}}}\n" * 4, NOTHING * 4)
    found = told(tmp_path, steps=[{"use": "g0"}])
    assert "g20.steps.yaml:2:3: steps[0]: step 2,001 of the task: too many steps (used in" in found
    assert "expected: at most 2,000, those of all groups included" in found
    assert "hint: use groups less often, or split the task; here `use` follows `use`: `g0` -> `g1` -> " in found
    assert "`g20`" in found
    assert "step 2,001 of the task" in "\n".join(map(str, check_group(tmp_path / "g0.steps.yaml")))


def test_groups_that_do_not_exist_are_counted_too(tmp_path: Path) -> None:
    groups(tmp_path, 12, lambda number: f"- {{use: g{number}}}\n" * 4, "- {use: nobody}\n" * 4)
    assert "step 2,001 of the task: too many steps" in told(tmp_path, steps=[{"use": "g0"}])


def test_two_thousand_steps_are_allowed_in_repairs_and_steps_together(tmp_path: Path) -> None:
    write(tmp_path, f"steps:\n{NOTHING * 1000}", "many.steps.yaml")
    use = [{"use": "many"}]
    repairs = [{"precondition": "exists('#a')", "steps": use}]
    keys = {"preconditions": ["exists('#a')"], "repairs": repairs}
    keys |= {"error_recovery": {"on_precondition_fail": "attempt_repair"}}
    assert told(tmp_path, steps=use, **keys) == ""
    assert "step 2,001 of the task" in told(tmp_path, steps=[WAIT, *use], **keys)


def test_the_groups_of_a_task_may_not_use_each_other_too_deep(tmp_path: Path) -> None:
    groups(tmp_path, 60, lambda number: f"- {{use: g{number}}}\n", NOTHING)
    assert "step groups are nested too deep" in told(tmp_path, steps=[{"use": "g0"}])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("'${with.x}${with.x}'", "values of parameters make the steps too long"),
        ("['${with.x}', '${with.x}']", "values of parameters make the steps too long"),
        (f"{'[' * 30}'${{with.x}}'{']' * 30}", "nested more than 50 levels deep"),
    ],
)
def test_values_that_grow_from_group_to_group(tmp_path: Path, more: str, words: str) -> None:
    last = "- {act: tool, server: s, tool: t, arguments: {a: '${with.x}'}}\n"
    groups(
        tmp_path,
        40,
        lambda number: f"- {{use: g{number}, with: {{x: {more}}}}}\n",
        last,
        "parameters: {x: {type: any}}\n",
    )
    assert words in told(tmp_path, steps=[{"use": "g0", "with": {"x": "ha"}}])


ROWS = [f"v{number}" for number in range(1000)]
LARGE: dict[str, tuple[dict[str, Any], str]] = {
    "steps": (
        {"steps": [WAIT] * (MOST_STEPS + 1)},
        "steps: too many values\n  expected: at most 2,000 values\n  found: 2,001",
    ),
    "criteria": ({"success_criteria": ["exists('#a')"] * (MOST_ITEMS + 1)}, "success_criteria: too many values"),
    "dependencies": ({"dependencies": [f"T{number}" for number in range(20_000)]}, "dependencies: too many values"),
    "keys": ({f"key{number}": 1 for number in range(20_000)}, "too many keys"),
    "keys of a step": (
        {"steps": [WAIT | {"remember": dict.fromkeys(ROWS, "1") | {"x": "1"}}]},
        "remember: too many keys",
    ),
    "names": ({"parametrize": {f"p{number}": [1, 2] for number in range(5000)}}, "too many names of parameters"),
    "names of rows": ({"parametrize": [{f"p{number}": 1} for number in ROWS]}, "too many names of parameters"),
    "cases": ({"parametrize": {f"p{number}": [1, 2] for number in range(90)}}, "too many cases"),
    "an input in a criterion": (
        {"inputs": {"x": "a" * 400_000}, "success_criteria": [f"text('#a') == '{'${inputs.x}' * 900}'"]},
        "success_criteria[0]: references multiply what they refer to",
    ),
    "a parameter in an input": (
        {"parametrize": {"x": ["b" * 300_000]}, "inputs": {"x": "${param.x}" * 20_000}},
        "inputs.x: references multiply what they refer to",
    ),
    "lists of lists": (
        {
            "parametrize": [{"x": [0] * 5000}],
            "inputs": {"x": ["${param.x}"] * 500},
            "page_values": {"a": ["${inputs.x}"] * 500},
        },
        "references multiply what they refer to",
    ),
    "a reference": ({"inputs": {"a": 1}, "goal": "${inputs.a" + ".a" * 100_000 + "}"}, "a reference has at most 1,000"),
    "a selector": (
        {"steps": [{"act": "click", "selector": ":has(" * 300 + "a" + ")" * 300}]},
        "nested more than 50 levels",
    ),
    "a number": ({"timeout": 10**12}, "timeout: out of range"),
    "a wait": ({"steps": [{"act": "wait", "value": 10**300}]}, "`wait` takes 0 to 3600 seconds"),
}


@pytest.mark.parametrize("name", LARGE)
def test_what_is_too_large_is_refused_with_its_place(tmp_path: Path, name: str) -> None:
    keys, words = LARGE[name]
    found = told(tmp_path, **keys)
    assert words in found
    assert "T.task.json:1:" in found


def test_quotes_are_read_in_one_pass(tmp_path: Path) -> None:
    selector = "text=" + "a'" * 900 + " >> b"
    assert told(tmp_path, steps=[{"act": "click", "selector": selector}] * 200) == ""


def test_of_many_cases_with_many_references_some_are_checked_before_the_run() -> None:
    spec = TaskSpec.model_validate({"task_id": "T", "parametrize": {"x": ROWS}, "goal": "${param.x}"})
    assert len(checked_cases(spec)) == 1000
    criteria = [f"text('#a{number}') == ${{param.x}}" for number in range(499)]
    assert len(checked_cases(spec.model_copy(update={"success_criteria": tuple(criteria)}))) == 10


def test_a_task_of_many_cases_and_criteria_loads(tmp_path: Path) -> None:
    criteria = [f"text('#a{number}') == ${{param.x}}" for number in range(500)]
    data = {"task_id": "T", "goal": "g", "steps": [WAIT], "parametrize": {"x": ROWS}, "success_criteria": criteria}
    assert load_file(write(tmp_path, json.dumps(data), "T.task.json")).spec.task_id == "T"


def test_memory_that_multiplies_is_refused_when_the_step_runs() -> None:
    memory = {"a": "x" * (MOST_FILLED // 4)}
    assert len(resolve(Type(selector="#a", value="${memory.a}" * 3), lambda: memory).value) == 3 * len(memory["a"])
    with pytest.raises(Failed, match=f"more than {MOST_FILLED:,} characters"):
        resolve(Type(selector="#a", value="${memory.a}" * 5), lambda: memory)


def test_a_fault_plan_and_a_group_have_the_same_bound(tmp_path: Path) -> None:
    from harness.spec.fault_plan import load_fault_plan

    plan = {"faults": [{"kind": "storage_cleared"}] * (MOST_ITEMS + 1)}
    with pytest.raises(SpecError, match="faults: too many values"):
        load_fault_plan(write(tmp_path, json.dumps(plan), "x.faults.json"))
    group = write(tmp_path, json.dumps({"steps": [WAIT], "outputs": dict.fromkeys([*ROWS, "x"], "1")}), "g.steps.yaml")
    assert "outputs: too many keys" in "\n".join(map(str, check_group(group)))


def test_an_unknown_key_of_a_route_that_is_one_of_the_task_is_told(tmp_path: Path) -> None:
    routes = [{"url": "http://a/*", "status": 503}, {"url": "http://a/*", "steps": [1], "json": {"a": 1}}]
    assert "steps" in told(tmp_path, routes=routes)
