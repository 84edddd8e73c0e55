"""What Allure knows of earlier runs outlives the folder of results."""

from __future__ import annotations

import json
from pathlib import Path

from harness.reporting.allure.results import (
    KEPT,
    earlier_points,
    keep_history,
    keep_points,
    lend_history,
    run_of_starts,
)


def point(start: int, test: str = "tasks.b1#B1") -> str:
    """As Allure 3 writes it; the ids of tests are its own."""
    return json.dumps({"uuid": str(start), "testResults": {"id.id": {"fullName": test, "start": start}}})


def began(*starts: int) -> frozenset[tuple[str, int]]:
    return frozenset(("tasks.b1#B1", start) for start in starts)


def test_a_run_that_is_built_again_is_no_new_run(tmp_path: Path) -> None:
    history = tmp_path / "allure-history.jsonl"
    history.write_text(f"{point(1)}\n{point(2)}\n")
    assert earlier_points(history, began(2, 7)) == ([point(1)], [])
    assert earlier_points(history, began(3)) == ([point(1), point(2)], [])


def test_a_run_of_which_only_a_part_is_there_keeps_its_point(tmp_path: Path) -> None:
    history = tmp_path / "allure-history.jsonl"
    items = {name: {"fullName": "tasks.b1#B1", "start": start} for name, start in (("a", 1), ("b", 2))}
    line = json.dumps({"testResults": items})
    history.write_text(f"{line}\n")
    assert earlier_points(history, began(2, 3)) == ([line], [])
    assert earlier_points(history, began(1, 2, 3)) == ([], [])  # the first of three was an attempt


def test_a_history_that_broke_off_is_named_and_the_rest_kept(tmp_path: Path) -> None:
    history = tmp_path / "allure-history.jsonl"
    history.write_text(f'{point(1)}\n{{"uuid": "2", "testRe\n[]\n{{"testResults": {{"h": 7}}}}\n')
    lines, left_out = earlier_points(history, began(9))
    assert lines == [point(1), '{"testResults": {"h": 7}}']
    assert left_out == [f"allure-history.jsonl:{n}: not a run, maybe half-written" for n in (2, 3)]


def test_so_many_runs_are_kept(tmp_path: Path) -> None:
    history = tmp_path / "allure-history.jsonl"
    history.write_text("".join(f"{point(n)}\n" for n in range(KEPT + 9)))
    lines, _ = earlier_points(history, frozenset())
    assert len(lines) == KEPT
    assert lines[-1] == point(KEPT + 8)


def test_what_allure_wrote_is_kept(tmp_path: Path) -> None:
    keep_points(tmp_path / "none.jsonl", tmp_path / ".harness/h.jsonl")
    assert not (tmp_path / ".harness").exists()
    (tmp_path / "built.jsonl").write_text(f"{point(1)}\n")
    keep_points(tmp_path / "built.jsonl", tmp_path / ".harness/h.jsonl")
    assert (tmp_path / ".harness/h.jsonl").read_text() == f"{point(1)}\n"


def build(folder: Path, run: str) -> str:
    """As Allure 2 does it: what was lent, and this run. Returns what was lent."""
    staged, report, kept = folder / "staged", folder / "report", folder / "kept"
    for each in (staged, report / "history"):
        each.mkdir(parents=True)
    lend_history(kept, staged, run)
    lent = (staged / "history/trend").read_text() if (staged / "history").is_dir() else ""
    (report / "history/trend").write_text(f"{lent} {run}".strip())
    keep_history(report, kept, run)
    for each in (staged / "history/trend", staged / "history", staged, report / "history/trend", report / "history"):
        if each.exists():
            each.rmdir() if each.is_dir() else each.unlink()
    report.rmdir()
    return lent


def test_allure_2_is_lent_the_runs_before_this_one(tmp_path: Path) -> None:
    assert [build(tmp_path, run) for run in ("r1", "r1", "r2", "r2", "r3")] == ["", "", "r1", "r1", "r1 r2"]


def test_a_report_without_history_leaves_what_is_kept(tmp_path: Path) -> None:
    build(tmp_path, "r1")
    keep_history(tmp_path / "no-report", tmp_path / "kept", "r2")
    assert (tmp_path / "kept/run").read_text() == "r1"


def test_a_run_is_named_by_its_tests() -> None:
    assert run_of_starts(frozenset({("a", 5), ("b", 7)})) == "5-7-2"
    assert run_of_starts(frozenset()) == "0-0-0"
