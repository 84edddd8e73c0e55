"""The last lines of a run."""

from __future__ import annotations

from pathlib import Path

from harness.reporting.summary import summary_lines
from harness.reporting.task_record import TaskRecord

HEALED = {
    "type": "fallback_selector_used", "step_index": 12, "message": "", "original_selector": "#a",
    "successful_fallback": "//td", "role": "button", "name": "Pay",
}  # fmt: skip


def record(**fields: object) -> TaskRecord:
    return TaskRecord.model_validate({"task_id": "T", "key": "T", "final_state": "completed", **fields})


def test_everything() -> None:
    records = [
        record(), record(),
        record(warnings=[{"type": "network_error_recovered"}, HEALED], source="tasks/x.yaml"),
        record(warnings=[{"type": "artifact_missing"}]),
        record(final_state="partial_success", warnings=[{"type": "step_skipped"}]),
        record(final_state="failed", warnings=[{"type": "network_error_recovered"}]),
        record(final_state="aborted", expected=True),
    ]  # fmt: skip
    assert summary_lines(records, Path("errors"), Path("allure-results")) == [
        (
            "tasks: 4 completed, 1 partial success, 1 failed, 1 recovered (fallback_selector_used 1, "
            "network_error_recovered 1), 1 failed as expected"
        ),
        "healed selectors (update the spec):",
        "  tasks/x.yaml step 12: `#a` -> `//td` (button 'Pay')",
        "artifacts: errors",
        "Allure results: allure-results (build the report: harness report)",
    ]


def test_a_green_run_is_one_line() -> None:
    assert summary_lines([record()], Path("errors")) == ["tasks: 1 completed"]


def test_no_tasks() -> None:
    assert summary_lines([], Path("errors")) == []
