"""Error rates of a run: how often each kind of failure came, and how often each recovery helped."""

from __future__ import annotations

from harness.recovery.catalog import Family
from harness.reporting.task_record import TaskRecord, error_metrics


def failed(error_type: str, family: Family, **more: object) -> TaskRecord:
    return TaskRecord.model_validate(
        {"task_id": "T", "key": "T", "final_state": "failed", "error_type": error_type, "family": family, **more}
    )


def passed(*recoveries: tuple[Family, bool]) -> TaskRecord:
    return TaskRecord(task_id="T", key="T", final_state="completed", recoveries=recoveries)


def test_the_shape_of_003() -> None:
    records = [
        passed((Family.NETWORK, True)),
        passed((Family.NETWORK, True), (Family.ELEMENT, True)),
        TaskRecord(task_id="T", key="T", final_state="partial_success", recoveries=((Family.NETWORK, True),)),
        failed("network_connection_refused", Family.NETWORK, recoveries=[(Family.NETWORK, False)]),
        failed("unknown", Family.NETWORK),
        failed("assertion_failed", Family.ASSERTION, recoveries=[(Family.ASSERTION, False)], expected=True),
        failed("timeout_step", Family.TIMEOUT, final_state="aborted"),
        failed("unknown", Family.NONE, final_state="aborted", code="INTERRUPTED"),
        passed().model_copy(update={"unexpected": True}),
    ]
    assert error_metrics(records) == {
        "total_tasks": 9,
        "successful": 4,
        "failed": 4,
        "not_judged": 1,
        "passed_as_declared": 1,
        "error_breakdown": {"network_error": 2, "timeout_step": 1, "unexpected_outcome": 1},
        "recovery_success_rate": {"assertion_retry": 0.0, "element_not_found": 1.0, "network_error": 0.75},
    }


def test_no_tasks() -> None:
    assert error_metrics([]) == {
        "total_tasks": 0, "successful": 0, "failed": 0, "not_judged": 0, "passed_as_declared": 0, "error_breakdown": {},
        "recovery_success_rate": {},
    }  # fmt: skip
