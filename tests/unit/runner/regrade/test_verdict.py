"""From the grades of criteria to what the task would be, and to its score."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.reporting.redaction import MARK
from harness.runner.regrade.criteria import Grade, Judge, score_again
from harness.runner.regrade.recorded import Recorded, RecordedSources
from harness.runner.regrade.regrading import Ends, standing
from harness.spec.loaded import Loaded
from harness.spec.source import Origin
from harness.spec.task import Expect, TaskSpec

HELD, UNMET, OPEN = Grade(True, "a"), Grade(False, "b", "b is wrong"), Grade(None, "c", "c is hidden")
EVIDENCE = Recorded(
    folder=Path("errors/T"), task_id="T", key="T", run="r", source="t.yaml", passed=True, expected=False, code=None,
    ended="", ran={}, relaxed=(), score=None, attempts={"planned": 4, "made": 5, "passed": 4}, alternative=None,
    sources=RecordedSources("no page", {"a": 1, "hidden": MARK}, {}, None),
)  # fmt: skip
STOPPED = replace(EVIDENCE, passed=False, ended="in step 2 (STEP_TIMEOUT)", code="STEP_TIMEOUT")
FAILS = Expect(final_state="failed", error_type="assertion_failed")
OTHERWISE = Expect(final_state="failed", code="STEP_TIMEOUT")
PARTLY = Expect(final_state="partial_success")
WARNED = Expect(final_state="completed", warnings=("fallback_selector_used",))


def replace_index(index: int) -> Expect:
    return Expect(final_state="failed", error_type="assertion_failed", step_index=index)


@pytest.mark.parametrize(
    ("criteria", "relaxed", "verdict"),
    [
        ([], [], "pass"),
        ([HELD, HELD], [], "pass"),
        ([HELD, OPEN, UNMET], [], "fail"),
        ([HELD, OPEN], [], "undecided"),
        ([UNMET], [HELD], "pass"),
        ([UNMET], [UNMET], "fail"),
        ([UNMET], [OPEN], "undecided"),
        ([OPEN], [UNMET], "undecided"),
        ([OPEN], [HELD], "pass"),
    ],
)
def test_by_its_criteria(criteria: list[Grade], relaxed: list[Grade], verdict: str) -> None:
    assert standing(EVIDENCE, None, criteria, relaxed, at_failure=False).verdict == verdict


@pytest.mark.parametrize(
    ("evidence", "expect", "grade", "at_failure", "verdict", "why"),
    [
        (STOPPED, None, HELD, False, "undecided", "never reached"),
        (STOPPED, None, HELD, True, "pass", "as it was when it ended in step 2"),
        (STOPPED, None, UNMET, True, "fail", "b is wrong; judged as it was"),
        (replace(STOPPED, expected=True), OTHERWISE, UNMET, False, "pass", "as its file declares"),
        (replace(STOPPED, expected=True), OTHERWISE, UNMET, True, "pass", "as its file declares"),
        (EVIDENCE, FAILS, UNMET, False, "pass", "fails as its file declares: b is wrong"),
        (EVIDENCE, FAILS, HELD, False, "fail", "its criteria hold"),
        (EVIDENCE, FAILS, OPEN, False, "undecided", "c is hidden"),
        (EVIDENCE, OTHERWISE, UNMET, False, "fail", "declares code STEP_TIMEOUT, it would be CRITERIA_UNMET"),
        (
            EVIDENCE,
            Expect(final_state="aborted", error_type="assertion_failed"),
            UNMET,
            False,
            "fail",
            "final_state aborted",
        ),
        (EVIDENCE, replace_index(0), UNMET, False, "fail", "step_index 0, it would be 4"),
        (EVIDENCE, replace_index(4), UNMET, False, "pass", "fails as its file declares"),
        (EVIDENCE, PARTLY, HELD, False, "fail", "final_state partial_success, it would be completed"),
        (replace(EVIDENCE, partial=True), PARTLY, HELD, False, "pass", "ends as its file declares"),
        (EVIDENCE, WARNED, HELD, False, "undecided", "declares warnings"),
        (replace(EVIDENCE, alternative="T2"), None, UNMET, False, "undecided", "T2 passed in its place"),
        (replace(EVIDENCE, alternative="T2"), None, HELD, False, "pass", ""),
    ],
)
def test_by_how_it_ended(
    evidence: Recorded, expect: Expect | None, grade: Grade, at_failure: bool, verdict: str, why: str
) -> None:
    found = standing(evidence, expect, [grade], [], at_failure=at_failure, ends=Ends(index=4))
    assert found.verdict == verdict
    assert why in found.why


def test_how_it_ends_is_what_its_rule_says() -> None:
    steps = [{"act": "wait", "value": 0}]
    silent = TaskSpec(task_id="T", steps=steps, error_recovery={"on_assertion_fail": "abort_silent"})
    plain = TaskSpec(task_id="T", steps=steps)
    assert Ends.of(plain) == Ends("failed", 1)
    assert Ends.of(silent).failing == "aborted"


def scored(attempts: dict[str, int] | None, succeeded: bool | None, **spec: Any) -> Any:
    made = TaskSpec(task_id="T", **spec)
    judge = Judge(Loaded(made, Path("t.yaml"), Origin("t.yaml")), EVIDENCE.sources, {})
    found = asyncio.run(score_again(made, judge, attempts, succeeded))
    return found and (found.lowest, found.highest, found.why)


PARTS = (
    {"id": "a", "assertion": "mem('a') == 1", "weight": 3},
    {"id": "b", "assertion": "mem('hidden') == 1"},
    {"id": "c", "assertion": "mem('a') == 1", "when": "mem('a') == 2", "weight": 5},
)


def test_what_is_open_makes_the_score_a_range() -> None:
    assert scored(None, True) is None
    assert scored(None, True, scoring_checkpoints=PARTS) == (0.75, 1.0, "")
    assert scored(EVIDENCE.attempts and dict(EVIDENCE.attempts), None, rubrics={"SR": 1.0}) == (0.0, 1.0, "")
    assert scored({"planned": 4, "made": 5, "passed": 4}, True, rubrics={"cost_efficiency": 1.0}) == (0.8, 0.8, "")


def test_a_score_that_cannot_be_told_says_why() -> None:
    assert scored(None, True, rubrics={"SR": 1.0})[2] == "the attempts that rubrics count were not recorded"
    part = {"id": "a", "assertion": "mem('a') == 1", "when": "mem('hidden') == 2"}
    assert scored(None, True, scoring_checkpoints=(part,))[2] == "whether a applies cannot be told"


@pytest.mark.parametrize(
    ("text", "holds", "why"),
    [
        ("mem('a') == ${inputs.x}", True, ""),
        ("mem('a') == ${memory.a}", True, ""),
        ("mem('a') == ${memory.none}", False, "memory has no 'none'"),
        ("mem('a') == ${memory.hidden}", None, "redacted"),
        ("mem('a') == ${env:NO_SUCH_NAME}", None, "NO_SUCH_NAME"),
        ("mem('a') == ${inputs.none}", None, "inputs.none"),
        ("mem('a') = 1", None, ""),
    ],
)
def test_references_are_filled_in(text: str, holds: bool | None, why: str) -> None:
    task = Loaded(TaskSpec(task_id="T", inputs={"x": 1}), Path("t.yaml"), Origin("t.yaml"))
    found = asyncio.run(Judge(task, EVIDENCE.sources, {})(text))
    assert found.holds is holds
    assert why in found.why
