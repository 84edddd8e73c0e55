"""The rows that have bounds on processor time, and those that tell acts apart."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks import each_act, further, light
from benchmarks.each_act import Done
from benchmarks.playing import PytestRun


def ran(cpu: float, passed: int = 1, said: str = "1 passed", code: int = 0) -> PytestRun:
    results = {f"t::{number}": [{"outcome": "passed"}] for number in range(passed)}
    return PytestRun(9.0, {"results": results}, said, code, 0.0, cpu)


def case(*, rival: bool = True) -> light.Case:
    return light.Case("a session", 0.25, "1 passed", lambda: ran(0), (lambda: ran(0)) if rival else None)


def test_a_difference_is_taken_round_by_round() -> None:
    """The second round was slow for both."""
    played = {"ours": [ran(1.2), ran(5.3), ran(1.2)], "rival": [ran(1.0), ran(5.0), ran(1.0)]}
    row = light.row(case(), played)
    assert row.figure is not None
    assert (row.figure.value, row.figure.high) == (pytest.approx(0.2), pytest.approx(0.3))
    assert (row.ours.median, row.verdict) == (1.2, "met?")


def test_without_a_rival_the_time_itself_has_the_bound() -> None:
    row = light.row(case(rival=False), {"ours": [ran(0.3), ran(0.4)]})
    assert (row.theirs, row.figure, row.verdict) == (None, None, "not met")


@pytest.mark.parametrize("bad", [ran(1, code=1), ran(1, said="nothing was collected")])
def test_a_run_that_did_something_else_is_wrong(bad: PytestRun) -> None:
    row = light.row(case(), {"ours": [ran(1), bad], "rival": [ran(1), ran(1)]})
    assert row.verdict == "wrong"


def test_what_all_runs_have_in_common_is_no_part_of_a_further_task() -> None:
    each = {"minimal": 1.04, further.RAW: 1.0, "auto": 1.2, further.PEER: 3.0}
    start = {"minimal": 7.0, further.RAW: 1.0, "auto": 9.0, further.PEER: 4.0}
    played = {
        name: {size: [ran(start[name] + size * cost, passed=size)] * 3 for size in (6, 24)}
        for name, cost in each.items()
    }
    rows = further.rows(played)
    assert [row.figure and round(row.figure.value, 3) for row in rows] == [1.04, 1.2, 0.4]
    assert [row.verdict for row in rows] == ["met", "not met", "met"]
    played["auto"][24] = [ran(33, passed=23)] * 3
    assert [row.verdict for row in further.rows(played)] == ["met", "wrong", "wrong"]


def test_an_act_is_told_from_its_task_and_names_its_calls() -> None:
    def rounds(each: float, **calls: int) -> list[dict[int, Done]]:
        return [
            {size: Done(0.5 + size * each, Counter({k: 3 + v * size for k, v in calls.items()})) for size in (4, 44)}
        ]

    played = {
        "raw": rounds(0.010, fill=1),
        "minimal": rounds(0.012, fill=1, queryCount=2, close=0),
        "auto": rounds(0.015, fill=1),
    }
    minimal, auto = each_act.rows("type", played)
    assert minimal.what == "type, minimal: fill + 2 queryCount / fill"
    assert [row.figure and row.figure.value for row in (minimal, auto)] == [pytest.approx(1.2), pytest.approx(1.5)]
    assert minimal.ours.median == pytest.approx(12)


def test_an_act_of_every_second_step_makes_half_a_call() -> None:
    sizes = {4: Done(0, Counter(check=2, uncheck=2)), 44: Done(0, Counter(check=22, uncheck=22))}
    assert each_act.named_calls(sizes) == "0.5 check + 0.5 uncheck"
