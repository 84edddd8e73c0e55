"""The statistics: lines, ratios, trends."""

from __future__ import annotations

import pytest

from benchmarks.figures import Estimate, Line, Spread, line_of, paired_ratio, resampled, student, trend


def test_a_spread_is_the_median_with_its_ends() -> None:
    assert Spread.of([3.0, 1.0, 2.0, 9.0]) == Spread(2.5, 1.0, 9.0, 4)


def test_nothing_measured_is_no_spread() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        Spread.of([])


def test_a_line_tells_the_cost_of_a_step_from_that_of_a_task() -> None:
    line = Line.through([(8, 0.2 + 8 * 0.05), (48, 0.2 + 48 * 0.05)])
    assert (line.slope, line.intercept) == (pytest.approx(0.05), pytest.approx(0.2))


def test_what_counts_little_hardly_moves_the_line() -> None:
    line = Line.through([(1, 1), (2, 2), (3, 30)], weights=[1, 1, 1e-9])
    assert line.slope == pytest.approx(1, abs=1e-6)


def test_one_size_makes_no_line() -> None:
    with pytest.raises(ValueError, match="two different sizes"):
        Line.through([(8, 1.0), (8, 2.0)])


def test_a_busy_round_does_not_count() -> None:
    quiet = {8: 0.8, 24: 1.6}
    line = line_of([quiet, quiet, {8: 5.0, 24: 50.0}])
    assert (line.slope, line.intercept) == (pytest.approx(0.05), pytest.approx(0.4))


def test_a_ratio_is_taken_round_by_round() -> None:
    """The second round was twice as slow for both."""
    assert paired_ratio([1.1, 2.2, 1.1], [1.0, 2.0, 1.0]).value == pytest.approx(1.1)


def test_one_round_has_no_interval_and_the_same_draws_come_again() -> None:
    assert paired_ratio([2.0], [1.0]) == Estimate(2.0, 2.0, 2.0)
    rounds = [1.0, 2.0, 3.0, 4.0, 5.0]
    first = resampled(rounds, max)
    assert first == resampled(rounds, max)
    assert first.low < first.value == 5.0 == first.high


def test_a_trend_has_an_interval_that_holds_the_truth() -> None:
    found = trend([(x, 10 + 0.5 * x + (1 if x % 2 else -1)) for x in range(40)])
    assert found.low < 0.5 < found.high
    assert found.high - found.low < 0.1
    flat = trend([(1, 5.0), (2, 5.0), (3, 5.0)])
    assert (flat.value, flat.low, flat.high) == (0, 0, 0)


def test_two_points_are_no_trend() -> None:
    with pytest.raises(ValueError, match="three points"):
        trend([(1, 1.0), (2, 2.0)])


@pytest.mark.parametrize(("free", "point"), [(1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (10, 2.228), (30, 2.042)])
def test_student_is_that_of_the_tables(free: int, point: float) -> None:
    assert student(free) == pytest.approx(point, rel=0.02)
