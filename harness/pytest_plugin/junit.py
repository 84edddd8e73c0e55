"""What stands in junit.xml beside a task's test case."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.reporting.task_record import TaskRecord

if TYPE_CHECKING:
    import pytest


def add_properties(item: pytest.Item, record: TaskRecord) -> None:
    """Those that the item does not have yet; under xdist they travel with its reports."""
    there = {name for name, _ in item.user_properties}
    item.user_properties += [each for each in properties(record) if each[0] not in there]


def properties(record: TaskRecord) -> Iterator[tuple[str, object]]:
    """Name and value, of what is known."""
    yield "task_id", record.task_id
    yield "final_state", record.final_state
    yield "retries", record.retries
    yield "fallbacks", record.fallbacks
    yield "recovered", record.recovered
    yield "healed", str(any(each.get("type") == "fallback_selector_used" for each in record.warnings)).lower()
    facts = {
        "code": record.code,
        "error_type": record.error_type,
        "step_index": record.step_index,
        "artifacts": record.artifacts,
    }
    yield from ((name, value) for name, value in facts.items() if value is not None)
