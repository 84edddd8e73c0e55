"""Plots, as far as they concern others."""

from __future__ import annotations

import re
import sys
from datetime import timedelta

import pytest

from harness.reporting.dashboard.page import durations, outcomes
from tests.unit.reporting.dashboard.pages import trend


def test_the_library_leaves_no_finder_behind() -> None:
    """pygal's own knows no `find_spec`: under `-W error` every import that fails would raise an ImportWarning."""
    assert "<svg" in str(durations(trend(2)))
    assert all(hasattr(finder, "find_spec") for finder in sys.meta_path)


@pytest.mark.parametrize(
    ("apart", "written"),
    [(5, ["09:00", "09:00", "09:00"]), (3600, ["09:00", "11:00", "13:00"]), (86400, ["11-05 09:00", "11-07 09:00"])],
)
def test_few_runs_are_labelled_and_of_one_day_by_the_time_only(apart: int, written: list[str]) -> None:
    """Five runs of a minute have one time; each of them would be written, one over the other."""
    first, *_ = several = trend(5)
    began = [first.started + timedelta(seconds=apart * number) for number in range(5)]
    drawn = str(durations([each.model_copy(update={"started": at}) for each, at in zip(several, began, strict=True)]))
    texts = re.findall(r">(\d[\d: -]*:\d\d)</text>", drawn)
    assert texts[: len(written)] == written
    assert len(texts) == 3


def test_declared_failures_are_counted_apart_as_in_the_tiles() -> None:
    several = [each.model_copy(update={"expected": 2}) for each in trend(2)]
    assert ": 3</title>" in str(outcomes(several))
    assert ": 2</title>" in str(outcomes(several))
