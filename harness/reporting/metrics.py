"""Error rates of a run (specs/003 6.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from harness.model.figures import success_rates
from harness.recovery.catalog import Family
from harness.reporting.task_record import TaskRecord

_NAMES = {Family.NETWORK: "network_error", Family.ASSERTION: "assertion_retry"}
"""The names 003 6.1 gives to two families; the others go by their rule: `on_timeout` is `timeout`."""


def error_metrics(records: Sequence[TaskRecord], earlier: Sequence[TaskRecord] = ()) -> dict[str, Any]:
    """How many tasks failed, of what, and how often each rule overcame its kind of failure (0 to 1).

    `records`: of each task the last execution; `earlier`: those before it (`--reruns`), whose recoveries count too.
    """
    counts = Counter(record.verdict for record in records)
    breakdown = Counter(_kind(record) for record in records if record.verdict == "failed")
    pairs = (pair for record in (*earlier, *records) for pair in record.recoveries)
    return {
        "total_tasks": len(records),
        "successful": counts["passed"] + counts["passed as declared"],
        "failed": counts["failed"],
        "not_judged": counts["not judged"],
        "passed_as_declared": counts["passed as declared"],
        "error_breakdown": dict(sorted(breakdown.items())),
        "recovery_success_rate": {
            rule_name(family): round(worked / tried, 4) for family, tried, worked in success_rates(pairs)
        },
    }


def _kind(record: TaskRecord) -> str:
    """All failures of the network are one kind, as in 003 6.1; a task that reached its end has none."""
    if record.torn and record.error_type is None:
        return "fixture_teardown"
    if record.ok:
        return "unexpected_outcome"
    return "network_error" if record.family is Family.NETWORK else record.error_type or "unknown"


def rule_name(family: Family) -> str:
    """As 003 6.1 writes it."""
    return _NAMES.get(family, family.removeprefix("on_"))
