"""Where reports say that something happened."""

from __future__ import annotations

from harness.reporting.task_record import StepLine, TaskRecord
from harness.reporting.triage import of_record
from harness.reporting.words import failure_place


def test_a_failure_around_the_task_is_never_at_its_criteria() -> None:
    for code in ("HOOK_FAILED", "OUTCOME_UNKNOWN"):
        assert failure_place(code, 2, 2, began=True, hook="after_each") == "in `after_each`"
        assert failure_place(code, -1, 2, began=True, hook="before_each") == "in `before_each`"
    assert failure_place("OUTCOME_UNKNOWN", 2, 2, began=True) == "at the success criteria"


def test_all_reports_name_a_step_of_a_group_by_its_sub_number() -> None:
    lines = (StepLine(index=5, place="3.2", act="click"), StepLine(index=6, place="4", act="see"))
    record = TaskRecord(task_id="T", key="T", final_state="failed", step_index=5, steps_total=7, steps=lines)
    assert (record.place_of(5), record.place_of(6), record.place_of(9)) == ("3.2", "4", "9")
    assert of_record(record).step == "3.2 click"
