"""Thresholds of an evaluation, each met or not, with its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.model.consumption import ModelFigures
from harness.model.evaluation import Evaluation
from harness.runner.evaluation.gate import gate_problem, judged_by, read_evaluation
from harness.runner.evaluation.summary import Shape
from harness.spec.evaluation_gate import EvaluationGate
from tests.unit.runner.evaluation.lines import evaluation, lines

GOOD, FAIR = ["pppp"] * 8 + ["pppf"] * 4, ["pppf"] * 6 + ["ppff"] * 6


def judged(found: Evaluation, earlier: Evaluation | None = None, **gate: Any) -> list[tuple[str, bool, str]]:
    return [(each.key, each.met, each.reason) for each in judged_by(EvaluationGate(**gate), found, earlier)]


@pytest.mark.parametrize(("least", "met"), [(0.91, True), (0.92, False)])
def test_min_pass(least: float, met: bool) -> None:
    ((key, found, reason),) = judged(evaluation(lines("a", GOOD)), min_pass=least)
    assert (key, found) == ("min_pass", met)
    assert reason.startswith("92 % passed (95 %: ")
    assert reason.endswith(f" %), wanted at least {least}")


def test_min_pass_of_few_tasks_has_no_interval() -> None:
    ((_, met, reason),) = judged(evaluation(lines("a", ["pf"])), min_pass=0.5)
    assert (met, reason) == (True, "50 % passed (95 %: not given below 10 tasks), wanted at least 0.5")


@pytest.mark.parametrize(("k", "share", "met"), [(4, 0.6, True), (4, 0.7, False), (1, 0.9, True)])
def test_min_pass_k(k: int, share: float, met: bool) -> None:
    ((_, found, reason),) = judged(evaluation(lines("a", GOOD)), min_pass_k={"k": k, "share": share})
    assert found is met
    assert reason == f"pass^{k} is {67 if k == 4 else 92} %, wanted at least {share:g}"


def test_max_cost() -> None:
    found = evaluation(lines("a", ["pppf"]))  # four trials of one cent, three successes
    assert judged(found, max_cost=0.02) == [("max_cost", True, "$0.0133 for each success, wanted at most $0.0200")]
    assert not judged(found, max_cost=0.01)[0][1]


@pytest.mark.parametrize(
    ("word", "used", "why"),
    [
        ("p", ModelFigures(calls=1, unpriced_calls=1), "1 calls have no known price"),
        ("f", ModelFigures(calls=1, cost_usd=0.2), "nothing passed, and $0.20 was spent"),
    ],
)
def test_a_cost_that_is_not_known_does_not_pass(word: str, used: ModelFigures, why: str) -> None:
    ((_, met, reason),) = judged(evaluation(lines("a", [word], models=used)), max_cost=100)
    assert (met, reason) == (False, f"{why}, wanted at most $100.00")


def test_no_worse_than_itself() -> None:
    found = evaluation(lines("a", GOOD))
    ((key, met, reason),) = judged(found, found, no_worse_than="x", margin=0)
    assert (key, met) == ("no_worse_than", True)
    assert reason == "0 points on 12 tasks of both (the same in each), wanted at least 0 points"


def test_worse_than_before_even_if_only_by_the_bound() -> None:
    before, now = evaluation(lines("a", GOOD)), evaluation(lines("a", FAIR))
    ((_, met, reason),) = judged(now, before, no_worse_than="x")
    assert (met, reason.startswith("-29.2 points on 12 tasks of both (95 %: -")) == (False, True)
    slightly = evaluation(lines("a", ["pppp"] * 7 + ["pppf"] * 5))
    ((_, met, reason),) = judged(slightly, before, no_worse_than="x", margin=0.03)
    assert (met, reason.startswith("-2.1 points")) == (False, True)
    assert judged(slightly, before, no_worse_than="x", margin=0.2)[0][1]
    assert judged(before, now, no_worse_than="x", margin=0)[0][1]


def test_few_tasks_are_judged_by_the_difference_itself() -> None:
    before, now = evaluation(lines("a", ["pppp"])), evaluation(lines("a", ["pppf"]))
    ((_, met, reason),) = judged(now, before, no_worse_than="x", margin=0.3)
    assert (met, reason) == (
        True, "-25 points on 1 tasks of both (no interval below 10 tasks), wanted at least -30 points",
    )  # fmt: skip
    assert not judged(now, before, no_worse_than="x", margin=0.2)[0][1]


def test_other_tasks_cannot_be_compared() -> None:
    now = evaluation(lines("a", ["p"]))
    before = now.model_copy(update={"cells": (now.cells[0].model_copy(update={"tasks": ()}),)})
    assert judged(now, before, no_worse_than="x") == [("no_worse_than", False, "no task is in both evaluations")]


def test_only_the_agents_of_the_gate_are_judged_and_only_clean() -> None:
    found = evaluation(lines("a", ["p"]), lines("b", ["f"]), lines("a", ["f"], "cut"))
    gate = EvaluationGate(min_pass=1, agents=("a",))
    assert [(each.agent, each.met) for each in judged_by(gate, found, None)] == [("a", True)]
    assert [(each.agent, each.met) for each in judged_by(EvaluationGate(min_pass=1), found, None)] == [
        ("a", True), ("b", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("gate", "problem"),
    [
        ({"min_pass": 1, "agents": ("c",)}, "agents: `c` is not evaluated: --agents has a, b"),
        ({"min_pass_k": {"k": 6, "share": 1}}, "min_pass_k: k is 6, but there are only 5 trials of each task"),
        ({"no_worse_than": "x"}, "no_worse_than: the earlier evaluation has no agent `b`: it has a"),
        ({"no_worse_than": "x", "agents": ("a",)}, ""),
    ],
)
def test_a_gate_that_cannot_judge_is_refused(gate: dict[str, Any], problem: str) -> None:
    shape = Shape(("a", "b"), ("T00",), (), 5, 0, 10)
    assert gate_problem(EvaluationGate(**gate), shape, evaluation(lines("a", ["p"]))) == problem


@pytest.mark.parametrize(
    ("earlier", "task_id", "problem"),
    [
        (evaluation(lines("a", ["pp"])), "T00", ""),
        (evaluation(lines("a", ["pp"]), planned=4), "T00", "was interrupted after 2 of 4 trials: go on with it (--res"),
        (evaluation(lines("a", ["pv"])), "T00", "has no verdict on `a`, because too many of its trials without faults"),
        (evaluation(lines("a", ["pv"], "cut"), lines("a", ["pp"])), "T00", ""),
        (evaluation(lines("a", ["p"], "cut")), "T00", "has no verdict on `a`"),
        (evaluation(lines("a", ["p"] * 4)), "OTHER", "has none of these tasks: it has T00, T01, T02, ..."),
    ],
)
def test_an_earlier_evaluation_that_says_nothing_is_refused_before_the_first_trial(
    earlier: Evaluation, task_id: str, problem: str
) -> None:
    found = gate_problem(EvaluationGate(no_worse_than="x"), Shape(("a",), (task_id,), (), 5, 0, 5), earlier)
    assert found.startswith(f"no_worse_than: the earlier evaluation {problem}" if problem else "")
    assert bool(found) is bool(problem)


@pytest.mark.parametrize(
    ("was", "edited", "why"),
    [
        ('"share":1.0', '"share":NaN', "cells.0.rate.share: Input should be a finite number"),
        ('"share":1.0', '"share":7', "cells.0.rate.share: Input should be less than or equal to 1"),
        ("{", "", "Invalid JSON"),
    ],
)
def test_an_evaluation_that_cannot_be_is_none(was: str, edited: str, why: str, tmp_path: Path) -> None:
    text = evaluation(lines("a", ["p"])).model_dump_json()
    (tmp_path / "e.json").write_text(text.replace(was, edited, 1), "utf-8")
    with pytest.raises(ValueError, match=rf"e\.json: is no evaluation: {why}"):
        read_evaluation(tmp_path / "e.json")


def test_a_file_that_is_no_evaluation(tmp_path: Path) -> None:
    (tmp_path / "e.json").write_text('{"version": 1}', "utf-8")
    with pytest.raises(ValueError, match=r"e\.json: is no evaluation: started: Field required"):
        read_evaluation(tmp_path / "e.json")
