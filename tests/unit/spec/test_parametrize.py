"""One file, many cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.spec.checks import check_spec
from harness.spec.loaded import Loaded
from harness.spec.parametrize import base_id, case_of, cases, expand, is_case_id, param, parametrize_problems, undecided
from harness.spec.source import Origin
from harness.spec.task import TaskSpec
from tests.unit.spec.files import STEPS, loaded, problems, task, write

FILE = Origin("t.task.yaml")


def spec(parametrize: Any, **fields: Any) -> TaskSpec:
    return TaskSpec(task_id="T", steps=STEPS, parametrize=parametrize, **fields)


def ids(parametrize: Any) -> list[str]:
    return [case.id for case in cases(spec(parametrize))]


def test_a_task_without_cases_is_itself(tmp_path: Path) -> None:
    one = loaded(tmp_path, task())
    assert cases(one.spec) == ()
    assert expand(one) == (one,)
    assert (param(one.spec), base_id(one.spec), case_of(one.spec)) == ({}, "T-1", None)


def test_listed_cases_keep_their_order_ids_and_values() -> None:
    found = cases(spec([{"id": "b", "x": 1}, {"id": "a", "x": [2, {"y": None}]}]))
    assert [(case.id, case.values) for case in found] == [("b", {"x": 1}), ("a", {"x": [2, {"y": None}]})]


def test_lists_of_values_are_crossed_as_they_are_written() -> None:
    found = cases(spec({"x": ["a", "b"], "y": [1, 2]}))
    assert [case.id for case in found] == ["a-1", "a-2", "b-1", "b-2"]
    assert found[1].values == {"x": "a", "y": 2}


@pytest.mark.parametrize(
    ("values", "id_"),
    [
        ({"x": "wireless mouse"}, "wireless mouse"),
        ({"x": 1, "y": 2.5, "z": True, "n": None}, "1-2.5-true-null"),
        ({"x": "WM-1", "y": -3}, "WM-1--3"),
        ({"x": "日本"}, "日本"),
        ({"x": "a/b"}, "case0"),
        ({"x": "a..b"}, "case0"),
        ({"x": "http://shop.local"}, "case0"),
        ({"x": "a::b"}, "case0"),
        ({"x": "[a]"}, "case0"),
        ({"x": "a\n"}, "case0"),
        ({"x": " a"}, "case0"),
        ({"x": ""}, "case0"),
        ({"x": "${env:PW}"}, "case0"),
        ({"x": [1]}, "case0"),
        ({"x": []}, "case0"),
        ({"x": {"a": 1}}, "case0"),
        ({"x": "a" * 61}, "case0"),
    ],
)
def test_ids_out_of_values(values: dict[str, Any], id_: str) -> None:
    assert ids([values]) == [id_]


def test_no_two_cases_have_one_id() -> None:
    assert ids({"x": ["a", "A", "a"]}) == ["a", "case1", "case2"]
    assert ids([{"x": "a-b", "y": "c"}, {"x": "a", "y": "b-c"}]) == ["a-b-c", "case1"]
    assert ids([{"x": "/"}, {"id": "case0", "x": 1}, {"id": "b", "x": 2}, {"x": "b"}]) == [
        "case0_",
        "case0",
        "b",
        "case3",
    ]


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.lists(st.integers(), max_size=2))


@given(st.lists(st.fixed_dictionaries({"x": VALUES, "y": VALUES}), min_size=1, max_size=20))
def test_ids_are_safe_and_different_where_case_does_not_count(rows: list[dict[str, Any]]) -> None:
    names = ids(rows)
    assert len({name.casefold() for name in names}) == len(rows)
    assert all(map(is_case_id, names))
    assert names == ids(rows)


def test_each_case_is_a_task_of_its_own(tmp_path: Path) -> None:
    one = loaded(tmp_path, task(goal="buy ${param.sku}", parametrize={"sku": ["WM-1", "MP-2"]}))
    found = expand(one)
    assert [each.spec.task_id for each in found] == ["T-1[WM-1]", "T-1[MP-2]"]
    assert [param(each.spec) for each in found] == [{"sku": "WM-1"}, {"sku": "MP-2"}]
    assert {base_id(each.spec) for each in found} == {"T-1"}
    assert all((each.path, each.origin) == (one.path, one.origin) for each in found)


def test_a_case_is_not_taken_apart_again(tmp_path: Path) -> None:
    for declared in ([{"id": "only", "sku": 1}], {"sku": [1]}, {"sku": ["/"]}):
        (case,) = expand(loaded(tmp_path, task(goal="${param.sku}", parametrize=declared)))
        assert expand(case) == (case,)
        assert case_of(case.spec) == cases(case.spec)[0]


def test_a_case_can_be_checked_like_a_file(tmp_path: Path) -> None:
    text = task(goal="buy ${param.sku}", inputs={"x": "${param.sku}"}, parametrize={"sku": ["wireless mouse", "/"]})
    for case in expand(loaded(tmp_path, text)):
        assert check_spec(case.spec, case.origin, tmp_path, environ={}) == []


def test_which_case_must_be_said_before_a_run() -> None:
    several = spec([{"x": 1}, {"x": 2}])
    assert param(several) is None
    [problem] = undecided(several, FILE)
    assert problem.message == "2 cases, and it is not clear which one to run"
    assert problem.expected == "T[1] or T[2]"
    assert list(undecided(spec([{"x": 1}]), FILE)) == []
    [many] = undecided(spec({"x": list(range(500))}), FILE)
    assert many.expected == "T[0], T[1], T[2], ... T[499]"


def test_a_run_is_refused_while_the_case_is_open(tmp_path: Path) -> None:
    one = loaded(tmp_path, task(goal="${param.x}", parametrize={"x": [1, 2]}))
    [problem] = check_spec(one.spec, one.origin, tmp_path, environ={})
    assert "which one to run" in problem.message


def test_no_cases_are_not_the_same_as_no_key() -> None:
    assert [problem.message[:8] for problem in parametrize_problems(spec([]), FILE)] == ["no cases"]
    assert list(parametrize_problems(TaskSpec(task_id="T"), FILE)) == []


def test_a_huge_product_is_counted_not_made() -> None:
    huge = spec({name: list(range(1000)) for name in "abcdef"})
    [problem] = parametrize_problems(huge, FILE)
    assert problem.found == str(1000**6)


def test_the_most_cases_that_there_may_be(tmp_path: Path) -> None:
    most = task(goal="${param.a}${param.b}", parametrize={"a": list(range(100)), "b": list(range(10))})
    assert problems(write(tmp_path, most)) == ()
    assert len(expand(loaded(tmp_path, most))) == 1000


def test_a_misspelt_name_is_guessed() -> None:
    found = [*parametrize_problems(spec([{"sku": 1, "qty": 1}, {"sku": 2, "qyt": 2}, {"sku": 1, "qty": 1}]), FILE)]
    assert any(problem.hint == "`qyt`: did you mean `qty`?" for problem in found)


def test_a_long_task_id_leaves_room_for_its_cases() -> None:
    long = spec([{"id": "abc", "x": 1}]).model_copy(update={"task_id": "a" * 197})
    assert [problem.path for problem in parametrize_problems(long, FILE)] == ["task_id"]


def test_a_parameter_that_nothing_refers_to_is_a_warning(tmp_path: Path) -> None:
    found = loaded(tmp_path, task(goal="${param.a.deep}", parametrize=[{"a": {"deep": 1}, "b": 1}])).warnings
    assert [(each.path, each.message) for each in found] == [("parametrize[0].b", "nothing refers to `${param.b}`")]


EVERYWHERE: list[dict[str, Any]] = [
    {"goal": "${param.p}"},
    {"inputs": {"a": "${param.p}"}},
    {"persona": {"a": "${param.p}"}},
    {"memory": {"a": "${param.p}"}},
    {"expected_memory": {"a": "${param.p}"}},
    {"preconditions": ["mem('a') == ${param.p}"]},
    {"success_criteria": ["mem('${param.p}') == 1"]},
    {"scoring_checkpoints": [{"id": "a", "assertion": "mem('a') == ${param.p}"}]},
    {"scoring_checkpoints": [{"id": "a", "assertion": "true == true", "when": "mem('a') == ${param.p}"}]},
    {"fallback_plan": {"enabled": True, "relaxed_success_criteria": ["mem('a') == ${param.p}"]}},
    {"state_bindings": {"a": "env.${param.p}.b"}},
    {"steps": [{"act": "open", "url": "http://shop.local/${param.p}"}]},
    {"steps": [{"act": "open", "url": "/", "done_when": "mem('a') == ${param.p}"}]},
    {"steps": [{"act": "open", "url": "/", "remember": {"k": "text('${param.p}')"}}]},
    {"steps": [{"act": "assert", "expr": "mem('a') == ${param.p}"}]},
    {"repairs": [{"memory": {"a": "${param.p}"}}]},
    {"repairs": [{"steps": [{"act": "open", "url": "/${param.p}"}]}]},
    {"repairs": [{"steps": [{"act": "assert", "expr": "mem('a') == ${param.p}"}]}]},
    {"faults": [{"kind": "hang", "url": "http://shop.local/${param.p}"}]},
    {"error_recovery": {"on_element_not_found": {"fallback_selectors": {"#${param.p}": ["b"]}}}},
    {"error_recovery": {"on_element_not_found": {"fallback_selectors": {"a": ["#${param.p}"]}}}},
]


@pytest.mark.parametrize("fields", EVERYWHERE, ids="-".join)
def test_a_reference_is_found_wherever_it_stands(fields: dict[str, Any], tmp_path: Path) -> None:
    good = task(**fields, parametrize=[{"p": "x"}, {"p": 2}])
    assert not [each for each in loaded(tmp_path, good).warnings if "nothing refers" in each.message]
    [problem] = problems(write(tmp_path, task(**fields, parametrize=[{"pp": "x"}])))
    assert problem.message == "${param.p}: `param` has no `p`"
    assert problem.hint == "did you mean `pp`?"
    [none] = problems(write(tmp_path, task(**fields)))
    assert none.message == "${param.p}: the task has no `parametrize`"


def test_a_criterion_is_read_with_the_values_of_every_case(tmp_path: Path) -> None:
    fields = {"success_criteria": ["WITHIN(${param.s}, exists('#a'))"], "parametrize": {"s": [1, "soon"]}}
    [problem] = problems(write(tmp_path, task(**fields)))
    assert problem.path == "success_criteria[0]"
    through = {"inputs": {"s": "${param.s}"}, "success_criteria": ["WITHIN(${inputs.s}, exists('#a'))"]}
    assert problems(write(tmp_path, task(**through, parametrize={"s": [1, 2]}))) == ()


def test_a_path_into_a_value_must_be_there_in_every_case(tmp_path: Path) -> None:
    cart = [{"cart": {"qty": 1}}, {"cart": {}}]
    [problem] = problems(write(tmp_path, task(goal="${param.cart.qty}", parametrize=cart)))
    assert "`param` has no `cart.qty`" in problem.message


def test_what_is_odd_about_a_file_is_told_once(tmp_path: Path) -> None:
    one: Loaded = loaded(tmp_path, task(parametrize={"x": [1, 2]}))
    assert len(one.warnings) == 1
    assert [each.warnings for each in expand(one)] == [(), ()]
