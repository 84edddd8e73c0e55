"""What a failed task prints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from harness.failure import Assertion, Failure
from harness.record import Warning_
from harness.reporting.console import failure_text, headline
from harness.reporting.redaction import MARK, Redactor
from tests.unit.reporting import sample


def test_a_timeout() -> None:
    plan = sample.plan()
    result = sample.failed(plan, attempts=3, artifacts=Path("errors/B1-2025-001"))
    lines = failure_text(plan, result, 100).splitlines()
    assert lines[0] == "B1-2025-001 failed: timeout_step (STEP_TIMEOUT) at step 4 of 6"
    assert lines[1] == "  tasks/b1.task.yaml"
    table = [line.split() for line in lines[2:7]]
    assert [row[:2] for row in table] == [["1", "click"], ["2", "type"], ["3", "click"], [">", "4"], ["5", "click"]]
    assert lines[5].rstrip().endswith("90.0 s  3 attempts")
    assert lines[6].rstrip().endswith("not run")
    assert lines[7:11] == [
        "  tried:",
        "    ATTEMPT 1: FAILED - wait .product-grid .product-item exceeded 30 s",
        "    RETRY (after 1s): FAILED - wait .product-grid .product-item exceeded 30 s",
        "    RETRY (after 1s): FAILED - wait .product-grid .product-item exceeded 30 s",
    ]
    assert "  message: wait .product-grid .product-item exceeded 30 s" in lines
    assert any(line.startswith("  hint: Look at the screenshot") for line in lines)
    assert "  url: http://shop.local/search?q=mouse" in lines
    assert "    [ERROR] Failed to fetch /api/search: net::ERR_CONNECTION_TIMED_OUT" in lines
    assert lines[-1] == "  artifacts: errors/B1-2025-001"


def test_an_assertion() -> None:
    plan = sample.plan()
    text = failure_text(plan, sample.failed(plan, sample.WRONG_STATE))
    assert "  expected: approved\n  actual:   processing\n    - approved\n    + processing\n" in text


def test_preconditions_and_criteria() -> None:
    plan = sample.plan()
    before = failure_text(plan, sample.failed(plan, Failure("PRECONDITION_NOT_MET", "no cart"), -1))
    assert before.splitlines()[0].endswith("precondition_not_met (PRECONDITION_NOT_MET) at a precondition")
    assert before.splitlines()[2].startswith("  > pre  assert  exists('#done')")
    assert before.splitlines()[3].split()[:2] == ["0", "open"]
    after = failure_text(plan, sample.failed(plan, Failure("CRITERIA_UNMET", "no order"), 6))
    assert after.splitlines()[0].endswith("(CRITERIA_UNMET) at the success criteria")
    assert after.splitlines()[5].startswith("  > end  assert")


def test_secrets_are_not_printed() -> None:
    steps = [{"act": "type", "selector": "#password", "value": "literal-pw"}]
    plan = sample.plan(steps=steps, secrets=("env-secret",))
    text = failure_text(
        plan,
        sample.failed(plan, Failure("ACTION_FAILED", "typed env-secret 1234"), 0),
        redactor=Redactor((), [r"\d{4}"]),
    )
    assert "literal-pw" not in text
    assert f"typed {MARK} {MARK}" in text


def test_a_task_that_did_not_fail() -> None:
    plan = sample.plan()
    assert headline(plan, sample.completed(plan)) == "B1-2025-001 completed after 3.2 s"


@given(st.integers(40, 200), st.integers(1, 30), st.integers(0, 200), st.integers(-1, 6))
def test_it_fits_a_screen(width: int, attempts: int, length: int, index: int) -> None:
    plan = sample.plan()
    diff = "\n".join(f"- line {n}" for n in range(40))
    failure = Failure("ASSERTION_FAILED", "word\n" * length, assertion=Assertion("x", "e\n" * 50, ["a"] * 90, diff))
    result = sample.failed(plan, failure, index, attempts, Path("errors/B1"))
    result = replace(result, warnings=tuple(Warning_("t", "m " * 90) for _ in range(9)))
    lines = failure_text(plan, result, width).splitlines()
    assert len(lines) <= 35
    assert max(len(line) for line in lines[1:-1]) <= max(width, 70)
