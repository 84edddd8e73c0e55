"""Which tasks that passed count as flaky for `--task-fail-on-flaky`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.pytest_plugin.flaky import FailOnFlaky, recovered_by
from harness.reporting.task_record import TaskRecord

HEALED: dict[str, Any] = {"recovered": 1, "warnings": ({"type": "fallback_selector_used"},)}


def record(**facts: Any) -> TaskRecord:
    return TaskRecord(task_id="T", key="T", final_state="completed", **facts)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({}, ""),
        (HEALED, "fallback_selector_used"),
        ({"recovered": 1}, "recovered"),
        ({**HEALED, "faults": {"f": "struck"}}, ""),
        ({**HEALED, "faults": {"f": "never struck"}}, "fallback_selector_used"),
        ({**HEALED, "declared": ("fallback_selector_used",)}, ""),
    ],
)
def test_a_recovery_counts_unless_the_file_wants_it(facts: dict[str, Any], why: str) -> None:
    assert recovered_by(record(**facts)) == why


def report(outcome: str, node: str = "T", *, when: str = "call", **facts: Any) -> Any:
    document = record(**facts).model_dump(mode="json") if when == "call" else None
    return SimpleNamespace(outcome=outcome, passed=outcome == "passed", when=when, nodeid=node, taskspec=document)


@pytest.mark.parametrize(
    ("reports", "line"),
    [
        ([report("passed")], ""),
        ([report("rerun"), report("failed")], ""),
        (
            [report("rerun"), report("passed")],
            "1 task passed only in a rerun or by a recovery, so the run fails: T (in a",
        ),
        ([report("rerun", when="setup"), report("passed")], "T (in a rerun)"),
        ([report("passed", **HEALED)], "T (fallback_selector_used)"),
    ],
)
def test_the_run_fails_and_the_summary_says_why(reports: list[Any], line: str) -> None:
    judge = FailOnFlaky()
    for each in reports:
        judge.pytest_runtest_logreport(each)
    session: Any = SimpleNamespace(exitstatus=pytest.ExitCode.OK)
    judge.pytest_sessionfinish(session, pytest.ExitCode.OK)
    assert line in "".join(judge.lines)
    assert session.exitstatus == (pytest.ExitCode.TESTS_FAILED if line else pytest.ExitCode.OK)
    assert bool(judge.lines) is bool(line)


def test_another_status_stays() -> None:
    judge = FailOnFlaky()
    judge.pytest_runtest_logreport(report("passed", **HEALED))
    session: Any = SimpleNamespace(exitstatus=pytest.ExitCode.INTERRUPTED)
    judge.pytest_sessionfinish(session, pytest.ExitCode.INTERRUPTED)
    assert session.exitstatus == pytest.ExitCode.INTERRUPTED
