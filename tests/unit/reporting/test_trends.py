"""What Allure knows of earlier runs outlives the folder of results."""

from __future__ import annotations

import json
from pathlib import Path

from harness.reporting.allure.results import (
    KEPT,
    earlier_points,
    keep_points,
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
