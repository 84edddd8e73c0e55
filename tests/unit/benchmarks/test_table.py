"""What is said of a bound, and how it is shown."""

from __future__ import annotations

import json

import pytest

from benchmarks.figures import Estimate, Spread
from benchmarks.table import Bound, Row, lines

TIMES = Spread(10.0, 9.0, 12.0, 5)


def row(figure: Estimate | None = None, bound: Bound | None = None, wrong: str = "") -> Row:
    return Row("1. a step", "auto / raw", "ms", TIMES, TIMES, figure, bound, wrong)


@pytest.mark.parametrize(
    ("figure", "bound", "verdict"),
    [
        (Estimate(1.0, 0.9, 1.04), Bound(1.05), "met"),
        (Estimate(1.0, 0.9, 1.10), Bound(1.05), "met?"),
        (Estimate(1.2, 1.0, 1.30), Bound(1.05), "not met?"),
        (Estimate(1.2, 1.1, 1.30), Bound(1.05), "not met"),
        (Estimate(2.6, 2.5, 2.70), Bound(2.5, at_least=True), "met"),
        (Estimate(2.4, 2.3, 2.45), Bound(2.5, at_least=True), "not met"),
        (Estimate(1.0, 1.0, 1.0), None, "-"),
        (None, Bound(11.0), "met?"),
    ],
)
def test_a_bound_is_judged_by_figure_and_interval(figure: Estimate | None, bound: Bound | None, verdict: str) -> None:
    assert row(figure, bound).verdict == verdict


def test_figures_of_work_that_went_wrong_are_worth_nothing() -> None:
    assert row(Estimate(1.0, 0.9, 1.04), Bound(1.05), "3 tasks failed").verdict == "wrong"


def test_the_table_shows_medians_spread_bound_and_what_went_wrong() -> None:
    text = "\n".join(lines([row(Estimate(1.234, 1.1, 1.3), Bound(1.05), "3 tasks failed"), row()]))
    for part in ("1. a step", "10 ms (9 .. 12)", "1.23", "1.1 .. 1.3", "<= 1.05", "wrong", "3 tasks failed"):
        assert part in text
    assert text.count("1. a step") == 1


def test_a_row_is_json() -> None:
    document = json.loads(json.dumps(row(Estimate(1.0, 0.9, 1.0), Bound(2.5, at_least=True)).as_json()))
    assert document["bound"] == ">= 2.5"
    assert document["verdict"] == "not met"
    assert document["ours"] == {"median": 10.0, "low": 9.0, "high": 12.0, "count": 5}
