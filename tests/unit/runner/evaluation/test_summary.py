"""What the trials of an evaluation say: rates, void trials, comparisons, costs, causes."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from harness.cli.schema import schemas
from harness.model.consumption import ModelFigures
from harness.model.evaluation import Evaluation, hat_text, more_text
from tests.unit.runner.evaluation.lines import evaluation, line, lines

STRONG, WEAK = ["ppppp"] * 12, ["ppfff"] * 12


def test_rates_of_tasks_are_averaged() -> None:
    (cell,) = evaluation(lines("a", ["pppp", "ff"])).cells
    assert (cell.rate.share, cell.rate.tasks, cell.rate.interval) == (0.5, 2, None)
    assert cell.rate.pass_hat == (0.5, 0.5, 1, 1)
    assert cell.rate.pass_hat_tasks == (2, 2, 1, 1)
    texts = [hat_text(cell, k) for k in (2, 4, 5)]
    assert texts == ["50 %", "100 % (1 of 2 tasks)", ""], "of the others nobody knows how often four pass"
    assert [(each.passed, each.failed, each.rate) for each in cell.tasks] == [(4, 0, 1), (0, 2, 0)]


def test_a_provider_that_is_dead_for_half_the_run_changes_no_rate() -> None:
    """And there is no verdict, because nobody knows what the void trials would have said."""
    whole = evaluation(lines("a", ["ppfp"] * 12), lines("b", ["pfpf"] * 12))
    half = evaluation(lines("a", ["ppfpvvvv"] * 12), lines("b", ["pfpfvvvv"] * 12))
    assert [each.rate for each in half.cells] == [each.rate for each in whole.cells]
    assert [(each.void, each.worst, each.best) for each in half.cells] == [(48, 0.375, 0.875), (48, 0.25, 0.75)]
    assert whole.no_verdict == ()
    assert half.no_verdict[0] == "a, clean: 48 of 96 trials are void (50%, at most 5% may be)"
    assert half.comparisons[0].difference == whole.comparisons[0].difference
    assert (half.comparisons[0].better, half.comparisons[0].too_void) == ("open", True)
    assert half.verdict == "no verdict"


def test_a_twentieth_of_void_trials_is_not_too_many() -> None:
    assert evaluation(lines("a", ["p" * 19 + "v"])).no_verdict == ()
    assert evaluation(lines("a", ["p" * 18 + "v"])).no_verdict != ()


def test_a_trial_that_was_made_again_counts_once_and_is_paid_for_twice() -> None:
    found = evaluation([line("T", "a", 0, "v"), line("T", "a", 0, "p", attempt=2)])
    assert (found.made, found.again, found.cells[0].void, found.cells[0].rate.share) == (1, 1, 0, 1)
    assert found.totals[0].models.calls == 4
    assert found.totals[0].cost_per_success == 0.02


def test_each_fault_is_beside_clean() -> None:
    found = evaluation(lines("a", STRONG), lines("a", WEAK, "cut"), lines("b", STRONG), lines("b", STRONG, "cut"))
    cells = {(each.agent, each.fault): each for each in found.cells}
    assert list(cells) == [("a", None), ("b", None), ("a", "cut"), ("b", "cut")]
    assert cells["a", "cut"].rate.pass_hat[:3] == (0.4, 0.1, 0)
    assert cells["b", "cut"].rate.pass_hat[:3] == (1, 1, 1)
    assert cells["a", "cut"].struck == 60
    assert [(each.fault, each.better) for each in found.comparisons] == [(None, "open"), ("cut", "second")]


def test_two_agents_are_compared_in_pairs() -> None:
    (found,) = evaluation(lines("a", STRONG), lines("b", WEAK)).comparisons
    assert (found.pairs, found.both, found.only_first, found.only_second, found.neither) == (60, 24, 36, 0, 0)
    assert (found.difference, found.interval, found.better) == (0.6, (0.3575, 0.8425), "first")
    assert found.p_value < 0.001
    (back,) = evaluation(lines("b", WEAK), lines("a", STRONG)).comparisons
    assert (back.difference, back.better, back.p_value) == (-0.6, "second", found.p_value)


def test_a_pair_with_a_void_trial_is_none() -> None:
    (found,) = evaluation(lines("a", ["pv"]), lines("b", ["fp"])).comparisons
    assert (found.pairs, found.only_first) == (1, 1)
    assert evaluation(lines("a", ["v"]), lines("b", ["p"])).comparisons == ()


def test_few_pairs_decide_nothing_and_it_is_told_how_many_would() -> None:
    (found,) = evaluation(lines("a", ["pp", "pp"]), lines("b", ["pf", "pp"])).comparisons
    assert (found.better, found.difference, found.p_value) == ("open", 0.25, 1)
    assert found.more_trials == 13
    assert found.more_trials_for_5_points is not None
    assert found.more_trials_for_5_points > found.more_trials
    assert more_text(found).startswith("more trials of each task: 13 would show this difference and ")
    assert more_text(found).endswith(" in four of five evaluations, if pairs go on to differ as often as here")
    (same,) = evaluation(lines("a", ["pp"]), lines("b", ["pp"])).comparisons
    assert (same.more_trials, same.difference) == (None, 0)


def test_with_an_interval_over_tasks_nobody_can_say_how_many_trials_would_do() -> None:
    """If one of twelve tasks differs, no number of trials decides: the interval over tasks always contains 0."""
    for trials in (2, 40):
        one = evaluation(lines("a", ["p" * trials] * 12), lines("b", ["f" * trials, *["p" * trials] * 11]))
        (found,) = one.comparisons
        assert (found.better, found.more_trials, found.more_trials_for_5_points) == ("open", None, None)
    assert found.p_value < 0.001


def test_three_agents_are_three_comparisons() -> None:
    found = evaluation(lines("a", ["p"]), lines("b", ["p"]), lines("c", ["p"]))
    assert [(each.first, each.second) for each in found.comparisons] == [("a", "b"), ("a", "c"), ("b", "c")]


def test_costs_and_times_are_summed() -> None:
    (found,) = evaluation(lines("a", ["ppf"])).totals
    assert (found.trials, found.passed, found.models.calls, found.models.cost_usd) == (3, 2, 6, 0.03)
    assert (found.cost_per_success, found.thinking, found.acting, found.waiting) == (0.015, 9, 12, 9)


@pytest.mark.parametrize(
    ("word", "used"), [("f", ModelFigures(calls=1, cost_usd=1)), ("p", ModelFigures(calls=1, unpriced_calls=1))]
)
def test_a_cost_per_success_that_nobody_knows_is_none(word: str, used: ModelFigures) -> None:
    assert evaluation(lines("a", [word], models=used)).totals[0].cost_per_success is None


def test_causes_are_side_by_side() -> None:
    found = evaluation(lines("a", ["ffp"]), lines("b", ["fpv"]), lines("b", ["f"], "cut"))
    assert [(each.code, each.fault, each.outcome, each.counts) for each in found.causes] == [
        ("AGENT_STUCK", None, "failed", {"a": 2, "b": 1}),
        ("AGENT_STUCK", "cut", "failed", {"a": 0, "b": 1}),
        ("MODEL_UNAVAILABLE", None, "void", {"a": 0, "b": 1}),
    ]
    assert found.causes[0].example == "message of AGENT_STUCK"


def test_an_interrupted_evaluation_says_how_far_it_came() -> None:
    assert evaluation(lines("a", ["p"]), planned=10).verdict == "interrupted after 1 of 10 trials"


def test_the_document_is_as_its_schema_says() -> None:
    found = evaluation(lines("a", STRONG), lines("b", WEAK), lines("b", ["v"], "cut"))
    document = json.loads(found.model_dump_json())
    Draft202012Validator(schemas()["evaluation.schema.json"]).validate(document)
    assert Evaluation.model_validate_json(json.dumps(document)) == found


def test_a_fault_that_never_struck_decides_nothing() -> None:
    whole = [*lines("a", STRONG), *lines("b", STRONG)]
    missed = [
        each.model_copy(update={"struck": 0}) for each in (*lines("a", STRONG, "missing"), *lines("b", WEAK, "missing"))
    ]
    found = evaluation(whole, missed)
    assert [(each.fault, each.better) for each in found.comparisons] == [(None, "open"), ("missing", "open")]
    assert found.no_verdict == ("missing: the fault struck in none of its trials, so they tell nothing about it",)
    struck = evaluation(whole, missed, lines("a", ["p"], "missing"))
    assert struck.no_verdict == ()
