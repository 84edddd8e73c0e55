"""Error rates of a run (specs/003 6.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from harness.failure import Family
from harness.reporting.task_record import TaskRecord

_NAMES = {Family.NETWORK: "network_error", Family.ASSERTION: "assertion_retry"}
"""The names 003 6.1 gives to two families; the others go by their rule: `on_timeout` is `timeout`."""


def error_metrics(records: Sequence[TaskRecord]) -> dict[str, Any]:
    """How many tasks failed, of what, and how often each kind of recovery worked (0 to 1)."""
    failed = [record for record in records if not record.ok]
    breakdown = Counter(map(_kind, failed))
    tried = Counter(family for record in records for family, _ in record.recoveries)
    worked = Counter(family for record in records for family, success in record.recoveries if success)
    return {
        "total_tasks": len(records),
        "successful": len(records) - len(failed),
        "failed": len(failed),
        "failed_as_expected": sum(record.expected for record in failed),
        "error_breakdown": dict(sorted(breakdown.items())),
        "recovery_success_rate": {
            rule_name(family): round(worked[family] / count, 4) for family, count in sorted(tried.items())
        },
    }


def _kind(record: TaskRecord) -> str:
    """All failures of the network are one kind, as in 003 6.1."""
    return "network_error" if record.family is Family.NETWORK else record.error_type or "unknown"


def rule_name(family: Family) -> str:
    """As 003 6.1 writes it."""
    return _NAMES.get(family, family.removeprefix("on_"))
