"""Wilson's interval, pass^k, means over tasks with their intervals, and pairs of trials."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, pairwise, product
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.statistics import (
    FEWEST_TASKS,
    PairTally,
    TaskTally,
    difference_interval,
    mcnemar,
    mean_bounds,
    mean_pass_hat,
    mean_rate,
    pass_hat,
    rate_interval,
    wilson,
)

OUTCOMES = st.lists(st.sampled_from([True, False, None]), max_size=8)
TALLIES = st.lists(OUTCOMES.map(TaskTally.of), max_size=15)


@pytest.mark.parametrize(
    ("passed", "trials", "interval"),
    [(0, 10, (0.0, 0.2775)), (10, 10, (0.7225, 1.0)), (8, 10, (0.4902, 0.9433)), (1, 2, (0.0945, 0.9055))],
)
def test_wilson(passed: int, trials: int, interval: tuple[float, float]) -> None:
    assert wilson(passed, trials) == pytest.approx(interval, abs=1e-4)


def test_without_trials_nothing_is_known() -> None:
    assert wilson(0, 0) is None
    assert pass_hat(0, 0) == ()
    assert mean_rate([TaskTally(void=3)]).mean is None
    assert mean_bounds([]) is None


def test_pass_hat_is_the_share_of_all_choices_of_k_trials_that_all_passed() -> None:
    verdicts = [True, True, False, True, False]
    for k, found in enumerate(pass_hat(3, 5), 1):
        choices = list(combinations(verdicts, k))
        assert found == pytest.approx(sum(map(all, choices)) / len(choices))


def test_one_failure_makes_all_in_a_row_impossible() -> None:
    assert pass_hat(4, 4) == (1, 1, 1, 1)
    assert pass_hat(3, 4)[-1] == 0


# Means over tasks.


@given(OUTCOMES)
def test_the_rate_of_a_task_lies_within_its_bounds(outcomes: list[bool | None]) -> None:
    tally = TaskTally.of(outcomes)
    assert tally.counted + tally.void == len(outcomes)
    if tally.rate is not None and tally.bounds is not None:
        assert tally.bounds[0] <= tally.rate <= tally.bounds[1]


@given(TALLIES)
def test_void_trials_change_no_rate(tallies: list[TaskTally]) -> None:
    more = [TaskTally(each.passed, each.failed, each.void + 3) for each in tallies]
    assert mean_rate(more) == mean_rate(tallies)
    assert mean_pass_hat(more) == mean_pass_hat(tallies)


@given(TALLIES)
def test_pass_hat_falls_with_k_for_the_same_tasks(tallies: list[TaskTally]) -> None:
    hats = mean_pass_hat(tallies)
    for one, other in pairwise(hats):
        if one.tasks == other.tasks:
            assert one.mean is not None
            assert other.mean is not None
            assert other.mean <= one.mean + 1e-12


def test_each_task_counts_the_same() -> None:
    """Two tasks at 100 % and 0 % pass twice in a row in one of two cases, however often each was tried."""
    hats = mean_pass_hat([TaskTally(passed=10), TaskTally(failed=2)])
    assert [each.mean for each in hats[:2]] == [0.5, 0.5]
    assert [each.tasks for each in hats] == [2, 2, *[1] * 8]
    assert mean_rate([TaskTally(passed=10), TaskTally(failed=2)]).mean == 0.5


def test_below_ten_tasks_there_is_no_interval() -> None:
    assert FEWEST_TASKS == 10
    assert mean_rate([TaskTally(4, 1)] * 9).interval is None
    assert difference_interval([0.1] * 9) is None
    assert mean_rate([TaskTally(4, 1)] * 10).interval is not None


@given(st.lists(st.sampled_from([0, 0.2, 0.4, 0.6, 0.8, 1.0]), min_size=10, max_size=40), st.integers(0, 9))
def test_an_interval_has_the_mean_and_stays_within_0_and_1(rates: list[float], seed: int) -> None:
    found = rate_interval(rates, seed)
    assert found is not None
    assert 0 <= found[0] <= fmean(rates) + 1e-9
    assert fmean(rates) - 1e-9 <= found[1] <= 1
    assert found == rate_interval(rates, seed)


def test_tasks_that_all_pass_are_no_certainty() -> None:
    assert rate_interval([1.0] * 40) == wilson(40, 40)


@pytest.mark.parametrize(
    ("difference", "tasks", "interval"),
    [(0.0, 12, (-0.2425, 0.2425)), (1.0, 12, (0.7575, 1.0)), (-1.0, 40, (-1.0, -0.9124)), (0.2, 40, (0.1124, 0.2876))],
)
def test_a_difference_that_all_tasks_have_is_no_certainty(
    difference: float, tasks: int, interval: tuple[float, float]
) -> None:
    assert difference_interval([difference] * tasks) == pytest.approx(interval, abs=1e-4)


BRAINS: dict[str, tuple[float, Callable[[Random], float]]] = {
    "0.9": (0.9, lambda _: 0.9),
    "0.6": (0.6, lambda _: 0.6),
    "tasks of many kinds": (0.7, lambda random: random.betavariate(1.4, 0.6)),
    "some tasks are impossible": (0.82, lambda random: 1.0 if random.random() < 0.8 else 0.1),
}


@pytest.mark.parametrize(
    ("simulated", "least", "most"),
    [(60, 0.85, 1.0), pytest.param(1000, 0.93, 0.97, marks=pytest.mark.thorough)],
    ids=["60", "1000"],
)
@pytest.mark.parametrize("name", BRAINS)
def test_intervals_cover_the_true_rate(name: str, simulated: int, least: float, most: float) -> None:
    """Evaluations of 40 tasks with 5 trials, whose true rates are known."""
    true, draw = BRAINS[name]
    random, covered = Random(11), 0
    for number in range(simulated):
        rates = [draw(random) for _ in range(40)]
        tallies = [TaskTally.of(random.random() < rate for _ in range(5)) for rate in rates]
        interval = mean_rate(tallies, number).interval
        assert interval is not None
        covered += interval[0] - 1e-9 <= true <= interval[1] + 1e-9
    assert least <= covered / simulated <= most


# Two agents in pairs.


@pytest.mark.parametrize(
    ("first", "second", "p"), [(0, 0, 1), (1, 1, 1), (5, 0, 0.0625), (10, 2, 0.0386), (1, 9, 0.0215)]
)
def test_mcnemar(first: int, second: int, p: float) -> None:
    assert mcnemar(first, second) == pytest.approx(p, abs=1e-4)
    assert mcnemar(second, first) == mcnemar(first, second)


@given(st.integers(0, 9), st.integers(0, 9))
def test_mcnemar_counts_the_outcomes_that_are_as_uneven(first: int, second: int) -> None:
    uneven = first + second
    far = abs(first - second)
    all_of_them = list(product([1, -1], repeat=min(uneven, 12)))
    if uneven <= 12:
        share = sum(abs(sum(each)) >= far for each in all_of_them) / len(all_of_them)
        assert mcnemar(first, second) == pytest.approx(share)


def test_pairs_are_counted() -> None:
    tally = PairTally.of([(True, True), (True, False), (True, False), (False, True), (False, False)])
    assert (tally.both, tally.only_first, tally.only_second, tally.neither, tally.pairs) == (1, 2, 1, 1, 5)
    assert tally.difference == pytest.approx(0.2)


def test_how_many_pairs_are_needed() -> None:
    """The formula of Connor (1987), for 80 % power at 5 %: checked by simulation below."""
    tally = PairTally(both=60, only_first=25, only_second=10, neither=5)
    assert tally.needed(0.15) == 120
    assert tally.needed(0.05) == 1097
    assert tally.needed(0) is None
    assert PairTally().needed(0.1) is None
    assert PairTally(both=100).needed(0.05) is not None


@pytest.mark.parametrize("pairs", [1, 4, 20])
def test_the_exact_test_can_show_what_the_pairs_that_are_needed_hold(pairs: int) -> None:
    """Pairs that all differ: four of them have p = 0.125, so four are not enough."""
    needed = PairTally(only_second=pairs).needed(-1)
    assert needed == 6
    assert mcnemar(0, needed) < 0.05 < mcnemar(0, needed - 1)


def test_so_many_pairs_show_the_difference_in_four_of_five_evaluations() -> None:
    tally = PairTally(both=60, only_first=25, only_second=10, neither=5)
    pairs, random, shown = tally.needed(tally.difference), Random(3), 0
    assert pairs is not None
    for _ in range(400):
        draws = random.choices(("first", "second", "same"), (25, 10, 65), k=pairs)
        shown += mcnemar(draws.count("first"), draws.count("second")) < 0.05
    assert 0.7 <= shown / 400 <= 0.87
