"""Problems read well."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from harness.spec.problems import Problem, SpecError, describe_value, did_you_mean, dotted_path, is_misspelt, join_or


def test_a_problem_in_full() -> None:
    problem = Problem("a.yaml", 3, 5, "steps[0].act", "not a known act", "open or click", "text 'clik'", "look again")
    assert str(problem) == (
        "a.yaml:3:5: steps[0].act: not a known act\n  expected: open or click\n  found: text 'clik'\n  hint: look again"
    )


def test_a_problem_without_a_place() -> None:
    assert str(Problem("T-1", None, None, "", "no steps")) == "T-1: no steps"


def test_an_error_tells_all_and_travels_between_processes() -> None:
    error = SpecError([Problem("a", 1, 1, "", "one"), Problem("a", 2, 1, "", "two")])
    assert str(error) == "a:1:1: one\na:2:1: two"
    assert pickle.loads(pickle.dumps(error)).problems == error.problems


def test_paths() -> None:
    assert dotted_path(("steps", 3, "remember", "orders.last.id")) == "steps[3].remember['orders.last.id']"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "nothing (null)"),
        (True, "true"),
        (3, "a whole number 3"),
        (0.5, "a number 0.5"),
        ("x", "text 'x'"),
        ([1], "a list [1]"),
        ({"a": "é"}, 'a mapping {"a": "é"}'),
    ],
)
def test_values(value: Any, words: str) -> None:
    assert describe_value(value) == words


def test_long_values_are_cut() -> None:
    assert len(describe_value("x" * 1000)) < 80


def test_words() -> None:
    assert join_or(["a"]) == "a"
    assert join_or(["a", "b", "c"]) == "a, b or c"
    assert did_you_mean("clik", ["open", "click"]) == "did you mean `click`?"
    assert did_you_mean("zzz", ["open", "click"]) == ""


@pytest.mark.parametrize(
    ("word", "known", "expected"),
    [
        ("stesp", "steps", True),
        ("step", "steps", True),
        ("gaol", "goal", True),
        ("memroy", "memory", True),
        ("sucess_criteria", "success_criteria", True),
        ("step_timout", "step_timeout", True),
        ("preconditons", "preconditions", True),
        ("steps", "steps", False),
        ("module_group", "goal", False),
        ("name", "time", False),
        ("labels", "inputs", False),
        ("variant_kind", "persona", False),
    ],
)
def test_a_slip_of_the_finger_is_told_from_a_key_of_ones_own(word: str, known: str, expected: bool) -> None:
    assert is_misspelt(word, [known]) is expected
