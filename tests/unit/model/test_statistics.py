"""Wilson's interval and pass^k."""

from __future__ import annotations

from itertools import combinations

import pytest

from harness.model.statistics import pass_hat, wilson


@pytest.mark.parametrize(
    ("passed", "trials", "interval"),
    [(0, 10, (0.0, 0.2775)), (10, 10, (0.7225, 1.0)), (8, 10, (0.4902, 0.9433)), (1, 2, (0.0945, 0.9055))],
)
def test_wilson(passed: int, trials: int, interval: tuple[float, float]) -> None:
    assert wilson(passed, trials) == pytest.approx(interval, abs=1e-4)


def test_without_trials_nothing_is_known() -> None:
    assert wilson(0, 0) is None
    assert pass_hat(0, 0) == ()


def test_pass_hat_is_the_share_of_all_choices_of_k_trials_that_all_passed() -> None:
    verdicts = [True, True, False, True, False]
    for k, found in enumerate(pass_hat(3, 5), 1):
        choices = list(combinations(verdicts, k))
        assert found == pytest.approx(sum(map(all, choices)) / len(choices))


def test_one_failure_makes_all_in_a_row_impossible() -> None:
    assert pass_hat(4, 4) == (1, 1, 1, 1)
    assert pass_hat(3, 4)[-1] == 0
