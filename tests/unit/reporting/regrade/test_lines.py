"""What a regrading says to people: what changed, what is open and why, and nothing that steers a terminal."""

from __future__ import annotations

from typing import Any

from harness.reporting.regrade import lines


def criterion(text: str, now: str, **fields: Any) -> dict[str, Any]:
    return {"text": text, "relaxed": False, "new": False, "before": None, "now": now, "why": f"why {text}", **fields}


def told(*criteria: dict[str, Any], **fields: Any) -> list[str]:
    """The lines of one task, without the first and the count."""
    task = {
        "task_id": "T", "folder": "errors/T", "before": "fail", "now": "pass", "why": "", "criteria": criteria,
        "gone": [], "score": None,
    }  # fmt: skip
    counts = dict.fromkeys(("tasks", "pass", "fail", "undecided", "newly_failing", "newly_passing", "left_out"), 0)
    return list(lines({"tasks": [{**task, **fields}], "left_out": [], "counts": counts}))[1:-1]


def test_what_holds_as_before_is_not_said() -> None:
    assert told(criterion("a", "held", before="held"), criterion("b", "held")) == []
    assert told(criterion("a", "held", before="unmet")) == ["    + a  (unmet before)"]
    assert told(criterion("a", "held", new=True)) == ["    + a  (new)"]


def test_what_does_not_hold_and_what_is_open_have_their_reason() -> None:
    assert told(criterion("a", "unmet", before="held"), criterion("b", "undecided", before="held", relaxed=True)) == [
        "    x a  (held before)",
        "        why a",
        "    ? b  (relaxed)",
        "        undecided: why b",
    ]


def test_the_reason_of_the_verdict_is_said_once() -> None:
    assert told(criterion("a", "unmet"), why="why a") == ["    x a", "        why a"]
    assert told(why="it ended in step 2") == ["    it ended in step 2"]
    assert told() == ["    it has no success criteria"]


def test_criteria_that_are_gone_and_the_score() -> None:
    before = criterion("a", "held")
    assert told(before, gone=["b"]) == ["    - gone: b"]
    assert told(before, score={"before": 1.0, "now": 0.75, "why": ""}) == ["    score: 1 -> 0.75"]
    assert told(before, score={"before": None, "now": 0.0, "why": ""}) == ["    score: 0"]
    assert told(before, score={"before": 0.5, "now": None, "why": "undecided: p"}) == ["    score: 0.5 -> undecided: p"]


def test_texts_of_pages_are_cut_and_steer_no_terminal() -> None:
    (line, *_) = told(criterion(f"\x1b[31m{'x' * 500}", "unmet"))
    assert "\x1b" not in line
    assert line.endswith("x...")
    assert len(line) < 320


def test_what_was_left_out_and_how_many_there_are() -> None:
    counts = {"tasks": 2, "pass": 1, "fail": 1, "undecided": 0, "newly_failing": 1, "newly_passing": 0, "left_out": 1}
    left = [{"folder": "errors/half", "why": "half-written"}]
    assert list(lines({"tasks": [], "left_out": left, "counts": counts})) == [
        "left out: errors/half: half-written",
        "2 tasks: 1 pass, 1 fail, 0 undecided (1 newly failing), 1 left out",
    ]
