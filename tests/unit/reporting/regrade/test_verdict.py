"""From the grades of criteria to what the task would be, and to its score."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.reporting.redaction import MARK
from harness.reporting.regrade.recorded import Manifest, Recorded, RecordedSources
from harness.reporting.regrade.regrading import Grade, Judge, Standing, score_again, standing, unreached
from harness.spec.expressions import scope_of
from harness.spec.task import Expect, TaskSpec
from harness.values import replace

HELD, UNMET, OPEN = Grade(True, "a"), Grade(False, "b", "b is wrong"), Grade(None, "c", "c is hidden")
EVIDENCE = Recorded(
    folder=Path("errors/T"),
    manifest=Manifest(task_id="T", final_state="completed"),
    ended="",
    sources=RecordedSources("no page", {"a": 1, "hidden": MARK}, {}, None),
)
STOPPED = replace(EVIDENCE, ended="in step 2 (STEP_TIMEOUT)")
AS_DECLARED = replace(STOPPED, manifest=Manifest(task_id="T", final_state="failed", expected=True))


def told(**grading: Any) -> Recorded:
    manifest = {"task_id": "T", "final_state": "completed", "grading": grading}
    return replace(EVIDENCE, manifest=Manifest.model_validate(manifest))


PARTIAL, REPLACED = told(skipped=True), told(alternative="T2")
FAILS = Expect(final_state="failed", error_type="assertion_failed")
SHOWN = Expect(final_state="failed", error_type="assertion_failed", criteria=("exists('#a')",))
OTHERWISE = Expect(final_state="failed", code="STEP_TIMEOUT")
PARTLY = Expect(final_state="partial_success")
WARNED = Expect(final_state="completed", warnings=("fallback_selector_used",))
STEPS = ({"act": "wait", "value": 0},) * 4


def verdict(
    evidence: Recorded,
    criteria: list[Grade],
    relaxed: list[Grade] | None = None,
    expect: Expect | None = None,
    *,
    at_failure: bool = False,
    **spec: Any,
) -> Standing:
    made = TaskSpec(task_id="T", steps=STEPS, expect=expect, **spec)
    return unreached(evidence, made, at_failure=at_failure) or standing(evidence, made, criteria, relaxed or [])


def replace_index(index: int) -> Expect:
    return Expect(final_state="failed", error_type="assertion_failed", step_index=index)


@pytest.mark.parametrize(
    ("criteria", "relaxed", "expected"),
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
def test_by_its_criteria(criteria: list[Grade], relaxed: list[Grade], expected: str) -> None:
    assert verdict(EVIDENCE, criteria, relaxed)[0] == expected


@pytest.mark.parametrize(
    ("evidence", "expect", "grade", "at_failure", "found", "why"),
    [
        (STOPPED, None, HELD, False, "undecided", "before its criteria"),
        (STOPPED, None, HELD, True, "pass", "by the state when it ended in step 2"),
        (STOPPED, None, UNMET, True, "fail", "b is wrong; judged by the state"),
        (AS_DECLARED, OTHERWISE, UNMET, False, "pass", "as its file declares"),
        (AS_DECLARED, OTHERWISE, UNMET, True, "pass", "as its file declares"),
        (AS_DECLARED, None, HELD, False, "undecided", "before its criteria"),
        (EVIDENCE, FAILS, UNMET, False, "pass", "end as its file declares; b is wrong"),
        (EVIDENCE, FAILS, HELD, False, "fail", "final_state: expected failed, was completed"),
        (EVIDENCE, FAILS, OPEN, False, "undecided", "c is hidden"),
        (EVIDENCE, OTHERWISE, UNMET, False, "fail", "code: expected STEP_TIMEOUT, was CRITERIA_UNMET"),
        (
            EVIDENCE,
            Expect(final_state="aborted", error_type="assertion_failed"),
            UNMET,
            False,
            "fail",
            "final_state: expected aborted, was failed",
        ),
        (EVIDENCE, replace_index(0), UNMET, False, "fail", "step_index: expected 0, was 4"),
        (EVIDENCE, replace_index(4), UNMET, False, "pass", "end as its file declares"),
        (EVIDENCE, PARTLY, HELD, False, "fail", "final_state: expected partial_success, was completed"),
        (PARTIAL, PARTLY, HELD, False, "pass", "end as its file declares"),
        (EVIDENCE, WARNED, HELD, False, "undecided", "declares warnings"),
        (EVIDENCE, SHOWN, UNMET, False, "undecided", "declares criteria"),
        (REPLACED, None, UNMET, False, "undecided", "T2 passed in its place"),
        (REPLACED, None, HELD, False, "pass", ""),
    ],
)
def test_by_how_it_ended(
    evidence: Recorded, expect: Expect | None, grade: Grade, at_failure: bool, found: str, why: str
) -> None:
    came_to = verdict(evidence, [grade], expect=expect, at_failure=at_failure)
    assert came_to[0] == found
    assert why in came_to[1]


def test_how_it_ends_is_what_its_rule_says() -> None:
    aborted = Expect(final_state="aborted", error_type="assertion_failed")
    silent = {"on_assertion_fail": "abort_silent"}
    assert verdict(EVIDENCE, [UNMET], expect=aborted, error_recovery=silent)[0] == "pass"


def test_required_parts_may_make_it_partial_too() -> None:
    part = {"id": "a", "assertion": "mem('a') == 1", "required": True}
    assert verdict(EVIDENCE, [HELD], expect=PARTLY, scoring_checkpoints=(part,))[0] == "undecided"


def test_relaxed_criteria_make_it_partial() -> None:
    assert verdict(EVIDENCE, [UNMET], [HELD], PARTLY)[0] == "pass"


ATTEMPTS = {"planned": 4, "made": 5, "passed": 4}


def judge(**spec: Any) -> tuple[TaskSpec, Judge]:
    made = TaskSpec(task_id="T", **spec)
    return made, Judge(EVIDENCE.sources, scope_of(made, {}))


def scored(attempts: dict[str, int] | None, succeeded: bool | None, **spec: Any) -> Any:
    found = asyncio.run(score_again(*judge(**spec), attempts, succeeded))
    return found["now"], found["parts"], found["why"]


PARTS = (
    {"id": "a", "assertion": "mem('a') == 1", "weight": 3},
    {"id": "b", "assertion": "mem('a') == 2"},
    {"id": "c", "assertion": "mem('hidden') == 1", "when": "mem('a') == 2", "weight": 5},
)


def test_the_score_is_worked_out_again() -> None:
    assert scored(None, None, scoring_checkpoints=PARTS) == (0.75, {"a": "held", "b": "unmet"}, "")
    assert scored(ATTEMPTS, True, rubrics={"cost_efficiency": 1.0}) == (0.8, {}, "")
    assert scored(ATTEMPTS, False, rubrics={"SR": 1.0}) == (0.0, {}, "")


@pytest.mark.parametrize(
    ("attempts", "succeeded", "spec", "why"),
    [
        (None, True, {"rubrics": {"SR": 1.0}}, "undecided: its rubrics"),
        (ATTEMPTS, None, {"rubrics": {"SR": 1.0}}, "undecided: its rubrics"),
        (None, True, {"scoring_checkpoints": ({"id": "p", "assertion": "mem('hidden') == 1"},)}, "undecided: p"),
        (
            None,
            True,
            {"scoring_checkpoints": ({"id": "p", "assertion": "mem('a') == 1", "when": "mem('hidden') == 1"},)},
            "undecided: p",
        ),
    ],
)
def test_a_score_that_cannot_be_told_says_why(
    attempts: dict[str, int] | None, succeeded: bool | None, spec: dict[str, Any], why: str
) -> None:
    now, _, told = scored(attempts, succeeded, **spec)
    assert (now, told) == (None, why)


@pytest.mark.parametrize(
    ("text", "holds", "why"),
    [
        ("mem('a') == ${inputs.x}", True, ""),
        ("mem('a') == ${memory.a}", True, ""),
        ("mem('a') == '${memory.none}'", None, "memory has no 'none'"),
        ("mem('a') == '${memory.hidden}'", None, "redacted"),
        ("mem('a') == ${env:NO_SUCH_NAME}", None, "NO_SUCH_NAME"),
        ("mem('a') == ${inputs.none}", None, "inputs.none"),
        ("mem('a') = 1", None, ""),
    ],
)
def test_references_are_filled_in(text: str, holds: bool | None, why: str) -> None:
    found = asyncio.run(judge(inputs={"x": 1})[1](text))
    assert found.holds is holds
    assert why in found.why
