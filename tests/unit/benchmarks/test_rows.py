"""What the parts make of what they measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import collection, memory, scale, soak, steps, throughput, viewers
from benchmarks.playing import PytestRun


def played(whole: float, work: float, **outcomes: int) -> PytestRun:
    results = {f"t::{name}{n}": [{"outcome": name}] for name, count in outcomes.items() for n in range(count)}
    return PytestRun(whole, {"began": 0.0, "ended": work, "results": results}, "said", 0, 0.0, whole)


def test_a_step_and_a_task_are_told_apart() -> None:
    times = {
        name: [{8: 0.1 * dear + 8 * 0.01 * slow, 24: 0.1 * dear + 24 * 0.01 * slow}] * 3
        for name, dear, slow in (("raw", 1, 1), ("minimal", 1.1, 1.04), ("auto", 1.3, 1.1))
    }
    found = {(row.part[0], row.what.split()[0]): row for row in steps.rows(times)}
    assert found["1", "minimal"].figure is not None
    assert found["1", "minimal"].figure.value == pytest.approx(1.04)
    assert {key: row.verdict for key, row in found.items()} == {
        ("1", "minimal"): "met", ("1", "auto"): "met", ("2", "minimal"): "met", ("2", "auto"): "not met",
    }  # fmt: skip
    assert found["1", "auto"].ours.median == pytest.approx(11)


def test_everybody_begins_in_his_turn() -> None:
    assert [steps.rotate("abc", number)[0] for number in range(4)] == ["a", "b", "c", "a"]


def test_speed_is_compared_with_the_best_of_raw() -> None:
    size = throughput.Size(tasks=24, steps=32, failing=2)
    right = {"passed": 22, "failed": 2}
    runs = {name: [played(10, 8, **right)] for name in throughput.VARIANTS}
    runs |= {
        throughput.PEER: [played(30, 27, **right)],
        "raw 2": [played(9, 8, **right)],
        "raw 3": [played(8, 7, **right)],
    }
    rows = {(row.part, row.what): row for row in throughput.rows(runs, size)}
    whole = "3. tasks a minute, whole process"
    assert rows[whole, f"auto, --task-workers auto / {throughput.PEER}"].verdict == "met"
    against_raw = rows[whole, "minimal, --task-workers auto / raw"]
    assert against_raw.figure is not None
    assert (against_raw.figure.value, against_raw.verdict) == (pytest.approx(0.8), "met")
    assert [row.bound for (part, what), row in rows.items() if part != whole or "-n 2 --task" in what] == [None] * 12


def test_a_run_in_which_other_tasks_failed_is_not_counted() -> None:
    size = throughput.Size(tasks=4, steps=8, failing=1)
    assert size.fault(played(1, 1, passed=3, failed=1)) == ""
    assert "said" in size.fault(played(1, 1, passed=2, failed=2))


def on_slots(seconds: list[float], last: float, whole: float) -> PytestRun:
    results = {f"t::{number}": [{"outcome": "passed", "seconds": each}] for number, each in enumerate(seconds)}
    return PytestRun(whole, {"first": 100.0, "last": 100.0 + last, "results": results}, "said", 0, 0.0, whole)


def test_a_run_on_slots_is_compared_with_busy_slots_and_with_the_longest_task() -> None:
    for seconds in ([10.0] + [1.0] * 10, [10.0, 1.0]):  # both cannot end before 10 seconds are over
        within, whole = scale.balance(on_slots(seconds, last=10.5, whole=14.0), "durations known", "")
        assert (within.ours.median, within.verdict) == (pytest.approx(1.05), "met")
        assert (whole.ours.median, whole.verdict) == (pytest.approx(1.4), "not met")
    (wrong,) = scale.balance(on_slots([1.0], 1.0, 1.0), "durations known", "it failed")
    assert wrong.verdict == "wrong"
    unjudged = scale.balance(on_slots([1.0, 1.0], 1.0, 1.0), "durations unknown", "")
    assert [row.verdict for row in unjudged] == ["-", "-"]


def test_what_a_cluster_costs_is_counted_for_each_test() -> None:
    here = [PytestRun(10.0, {}, "", 0, 0.0, 0.0)] * 2
    there = [PytestRun(10.0 + 4.0 * scale.NOTHING / 1000, {"began": 7.0, "peak": 301.0}, "", 0, 0.0, 0.0)] * 2
    each, _, first, peak = scale.costs(there, here)
    assert each.figure is not None
    assert each.figure.value == pytest.approx(4.0)
    assert [each.verdict, first.verdict, peak.verdict] == ["met", "met", "not met"]


def test_collected_tests_are_counted() -> None:
    assert collection.count_collected("a/test_1.py::test_1\na/test_2.py::test_2\n\n2 tests collected in 0.1s\n") == 2


def test_the_low_water_mark_is_what_grows() -> None:
    samples = [
        {"tasks": float(n), **dict.fromkeys(memory.PARTS, 100.0 + 50 * (n % 3)), **dict.fromkeys(memory.COUNTS, 7.0)}
        for n in range(1, 101)
    ]
    low = memory.lowest(samples)
    assert [each["tasks"] for each in low[:2]] == [5, 10]
    rows = memory.rows(samples)
    assert {row.verdict for row in rows if row.bound} == {"met"}
    assert [row.ours.median for row in rows if row.what == "all processes"] == [100]


def test_what_differs_from_the_serial_run_is_named() -> None:
    same = {"f::A": ("passed",), "f::B": ("failed", "X")}
    assert soak.differences(same, dict(same)) == []
    assert soak.differences(same, {"f::A": ("passed",)}) == ["B: ('failed', 'X') became no result"]


def test_a_task_with_two_results_or_none_and_what_is_left_is_disorder(tmp_path: Path) -> None:
    run = played(1, 1, passed=2)
    run.document["results"]["t::passed0"].append({"outcome": "passed"})
    assert list(soak.disorder(run, 2)) == ["t::passed0 has 2 results"]
    assert "2 of 3 tasks have a result" in next(iter(soak.disorder(run, 3)))
    assert soak.facts(tmp_path, run) == {"t::passed0": ("passed",), "t::passed1": ("passed",)}


@pytest.mark.parametrize("grows", [None, *soak.GROWTH])
def test_a_long_run_names_what_grows(grows: str | None) -> None:
    each = {name: 20.0 * bound / 1000 if name == grows else 0.0 for name, bound in soak.GROWTH.items()}
    samples = [{"tasks": float(n), **{name: 7 + n * step for name, step in each.items()}} for n in range(1, 1001, 20)]
    assert [said.partition(" ")[0] for said in soak.growing_figures(samples)] == ([grows] if grows else [])
    short = [{**each, "tasks": each["tasks"] / 2} for each in samples]
    assert len(list(soak.growing_figures(short))) == (grows in memory.COUNTS), "memory wants a long run"


def test_viewers_that_miss_the_end_of_a_task_make_the_figures_worthless() -> None:
    size = throughput.Size(tasks=4, steps=8, failing=1)
    right = {"passed": 3, "failed": 1}
    runs = {
        viewers.WITH: [played(10.2, 8, **right), played(20.4, 8, **right)],
        viewers.WITHOUT: [played(10, 8, **right), played(20, 8, **right)],
    }
    run, server = viewers.rows(runs, size, 50, seen=[50, 50], served=[0.5, 0.7])
    assert run.figure is not None
    assert (run.figure.value, run.verdict) == (pytest.approx(1.02), "met")
    assert (server.ours.median, server.verdict) == (pytest.approx(0.6), "-")
    blind, _ = viewers.rows(runs, size, 50, seen=[50, 49], served=[0.5, 0.7])
    assert (blind.verdict, blind.wrong) == ("wrong", "only 49 of 50 viewers saw the end of every task")
