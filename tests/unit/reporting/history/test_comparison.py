"""What two runs have that is different, and where the history is too short to say so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.reporting.history.comparison import compare, flaky_tasks, passed_last, rate_of, usual
from harness.reporting.history.file import HistoryError
from harness.reporting.history.reading import compare_runs
from harness.reporting.history.record import Execution, Outcome, RunRecord, TaskPoint
from harness.reporting.history.writing import save_run
from tests.unit.conftest import examples
from tests.unit.reporting.history.runs import (
    BEGAN,
    execution,
    executions,
    failed,
    nodeid,
    record,
    run,
    several,
    skipped,
)
from tests.unit.reporting.history.test_store import runs

ONE, TWO = "20251116T090000-1", "20251117T090000-1"


def points(*outcomes: Outcome, seconds: Sequence[float] = (2.0,), executions: int = 1) -> tuple[TaskPoint, ...]:
    """One a day; the seconds in turn."""
    return tuple(
        TaskPoint(
            run=f"202510{number + 1:02}T090000-1",
            started=BEGAN + timedelta(days=number - 40),
            outcome=outcome,
            seconds=seconds[number % len(seconds)],
            executions=executions,
        )
        for number, outcome in enumerate(outcomes)
    )


def two(old: Sequence[Execution], new: Sequence[Execution]) -> tuple[RunRecord, RunRecord]:
    return run(ONE, old), run(TWO, new)


def passed(name: str, seconds: float = 2.0) -> Execution:
    return execution(record(name, seconds=seconds))


def broken(name: str, outcome: Outcome = "failed") -> Execution:
    return execution(failed(name, "STEP_TIMEOUT"), outcome)


@given(runs, st.dictionaries(st.sampled_from(["a::A", "b::B", "c::é\x00"]), st.just(points("passed", "failed"))))
@settings(max_examples=examples(50), deadline=None)
def test_a_run_has_no_difference_to_itself(same: RunRecord, before: dict[str, tuple[TaskPoint, ...]]) -> None:
    assert not compare(same, same, before, {}).different


def test_of_all_kinds_of_tasks(tmp_path: Path) -> None:
    save_run(tmp_path, run())
    found = compare_runs(tmp_path, "last", "last")
    assert not found.different
    assert len(found.still_failing) == 10


def test_failing_fixed_new_and_not_run() -> None:
    old, new = two(
        [passed("T-1"), broken("T-2"), broken("T-3"), passed("T-4"), skipped("T-5"), skipped("T-6")],
        [broken("T-1"), passed("T-2"), broken("T-3", "rerun"), broken("T-5"), skipped("T-6"), broken("T-7")],
    )
    found = compare(old, new, {nodeid("T-5"): points("passed", "skipped")}, {})
    failing = [(each.task_id, each.before, each.code, each.message) for each in found.newly_failing]
    why = ("STEP_TIMEOUT", "the step took longer than 10 s")
    assert failing == [("T-1", "passed", *why), ("T-5", "passed", *why)]
    assert [each.task_id for each in found.fixed] == ["T-2"]
    assert [each.task_id for each in found.still_failing] == ["T-3"]
    assert [(each.task_id, each.outcome, each.code) for each in found.new_tasks] == [("T-7", "failed", "STEP_TIMEOUT")]
    assert found.not_run == (nodeid("T-4"),)
    assert found.different


@pytest.mark.parametrize("code", ["INTERRUPTED", "WORKER_CRASHED"])
def test_what_was_cut_off_from_outside_says_nothing_of_its_task(code: str) -> None:
    cut = [execution(failed(name, code)) for name in ("T-1", "T-2")]
    found = compare(*two([passed("T-1"), passed("T-2")], cut), {}, {})
    assert [each.task_id for each in found.not_judged] == ["T-1", "T-2"]
    assert (found.newly_failing, found.new_tasks, found.different) == ((), (), False)
    known = {nodeid("T-1"): points("passed"), nodeid("T-2"): points("failed")}
    after = compare(*two(cut, [broken("T-1"), passed("T-2")]), known, {})
    assert [each.task_id for each in (*after.newly_failing, *after.fixed)] == ["T-1", "T-2"]
    assert rate_of([point.model_copy(update={"code": code}) for point in points("failed")]) is None
    assert passed_last({"a": [*points("passed"), points("failed")[0].model_copy(update={"code": code})]}) == {"a"}


def test_a_task_that_was_left_out_in_the_old_run_is_judged_by_the_one_before() -> None:
    old, new = two([skipped("T-1")], [passed("T-1")])
    assert [each.task_id for each in compare(old, new, {nodeid("T-1"): points("failed")}, {}).fixed] == ["T-1"]
    assert compare(old, new, {nodeid("T-1"): points("passed")}, {}).fixed == ()


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (2.0, 2.35, "nothing"),
        (2.0, 2.9, "slower"),
        (2.0, 1.2, "faster"),
        (2.9, 3.5, "nothing"),  # the old run was no usual one
        (2.9, 2.0, "nothing"),
    ],
)
def test_slower_is_what_the_spread_does_not_explain(before: float, after: float, said: str) -> None:
    old, new = two([passed("T-1", before)], [passed("T-1", after)])
    earlier = points(*["passed"] * 10, seconds=(1.9, 2.0, 2.1))
    found = compare(old, new, {nodeid("T-1"): earlier}, {})
    assert (bool(found.slower), bool(found.faster)) == (said == "slower", said == "faster")
    for each in (*found.slower, *found.faster):
        assert each.usual == usual([1.9, 2.0, 2.1] * 3 + [1.9])


def test_too_few_runs_to_say() -> None:
    old, new = two([passed("T-1"), passed("T-2")], [passed("T-1", 9), passed("T-2", 2.5)])
    found = compare(old, new, {nodeid("T-1"): points(*["passed"] * 4)}, {})
    assert [each.task_id for each in found.undecided] == ["T-1"]
    assert (found.slower, found.faster) == ((), ())


def test_failures_take_as_long_as_their_patience() -> None:
    old, new = two([passed("T-1")], [broken("T-1")])
    found = compare(old, new, {nodeid("T-1"): points(*["passed"] * 9)}, {})
    assert (found.slower, found.undecided) == ((), ())


def test_one_odd_run_does_not_move_what_is_usual() -> None:
    found = usual([2.0, 2.0, 2.0, 2.0, 60.0])
    assert found is not None
    assert (found.median, found.low, found.high, found.runs) == (2.0, 1.8, 2.2, 5)
    assert usual([2.0] * 4) is None


def test_flakier_with_intervals() -> None:
    old, new = two([passed("T-1"), passed("T-2"), passed("T-3")], [passed("T-1"), passed("T-2"), broken("T-3")])
    before = {nodeid(name): points(*["passed"] * 20) for name in ("T-1", "T-2", "T-3")}
    after = {
        nodeid("T-1"): points(*["failed", "passed"] * 10),
        nodeid("T-2"): points("passed", executions=2),
        nodeid("T-3"): points("failed"),
    }
    found = compare(old, new, before, after).flakier
    assert [(each.task_id, each.significant) for each in found] == [("T-1", True), ("T-2", False)]
    assert found[0].after.failed == 10
    assert found[0].after.interval[0] > found[0].before.interval[1]
    assert found[1].after.interval[0] < found[1].before.interval[1]


def test_flaky_tasks() -> None:
    found = flaky_tasks({
        "steady": points(*["passed"] * 9),
        "broken": points(*["failed"] * 9),
        "mended": points("passed", "failed", "failed", "passed"),
        "flips": points("passed", "failed", "skipped", "passed", "failed"),
        "rerun": points("passed", "passed", executions=2),
        "skipped": points("skipped"),
    })  # fmt: skip
    flips, rerun = found
    assert (flips.nodeid, flips.flips, flips.runs, flips.last) == ("flips", 3, 4, "failed")
    assert (flips.rate.failed, flips.rate.executions, flips.reruns_that_passed) == (2, 4, 0)
    assert (rerun.nodeid, rerun.reruns_that_passed, rerun.rate.failed, rerun.rate.executions) == ("rerun", 2, 2, 4)


def test_no_rate_without_executions() -> None:
    assert rate_of(points("skipped")) is None
    assert rate_of(()) is None


def test_with_the_history_around(tmp_path: Path) -> None:
    days = several(12)
    for each in days:
        save_run(tmp_path, each)
    found = compare_runs(tmp_path, "last-2")
    assert (found.old, found.new) == (days[-3].run, days[-1].run)
    assert [each.task_id for each in found.newly_failing] == ["T-BROKEN"]
    assert [each.task_id for each in found.still_failing] == ["T-FLAKY"]
    (slower,) = found.slower
    assert (slower.task_id, slower.usual and slower.usual.runs) == ("T-SLOWER", 10)
    assert compare_runs(tmp_path, "last-2", "last-2").slower == ()
    assert (compare_runs(tmp_path).old, compare_runs(tmp_path).why) == (days[-2].run, "")
    assert len(executions()) == 19


def selections(root: Path, *several: str) -> list[str]:
    """A run a day of tasks with these letters; their names."""
    names = [f"202511{day:02}T090000-1" for day in range(1, len(several) + 1)]
    for name, letters in zip(names, several, strict=True):
        save_run(root, run(name, [passed(letter) for letter in letters], happenings=()))
    return names


def test_compared_is_the_newest_run_that_ran_much_of_the_same(tmp_path: Path) -> None:
    names = selections(tmp_path, "abcd", "abxy", "a", "abcd")
    found = compare_runs(tmp_path)
    assert (found.old, found.new) == (names[1], names[3])
    assert found.why == (
        f"the run before ({names[2]}) ran 1 of the 4 tasks; this is the newest that has at least half of them: 2"
    )
    assert compare_runs(tmp_path, "last-1").old == names[2]


def test_when_no_earlier_run_ran_much_of_the_same_that_is_said(tmp_path: Path) -> None:
    names = selections(tmp_path, "xy", "z", "abc")
    found = compare_runs(tmp_path)
    assert found.old == names[1]
    assert found.why.endswith("ran 0 of the 3 tasks, because no earlier run has half of them")
    with pytest.raises(HistoryError, match="nothing to compare it with"):
        compare_runs(tmp_path, None, names[0])
