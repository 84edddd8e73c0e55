"""Selectors that were stood in for, and whether the file is to be changed for it: one answer for all reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from harness.reporting.summary import own_match
from harness.reporting.task_record import TaskRecord

HEALED = "fallback_selector_used"
"""The type of the warning."""

_FAULTED = "healed under an injected fault: nothing to change"
_DECLARED = "healed as the task declares: nothing to change"
_OWN = "one of the selector's own matches was used: nothing to change"


@dataclass(frozen=True, slots=True)
class Healing:
    """One selector of one task."""

    record: TaskRecord
    warning: Mapping[str, JsonValue]
    original: str
    used: str
    settled: str
    """Why nothing is to be changed; empty where the file should be."""


def healings(record: TaskRecord) -> Iterator[Healing]:
    """In the order of the task."""
    for warning in record.warnings:
        if warning.get("type") == HEALED:
            original, used = str(warning.get("original_selector")), str(warning.get("successful_fallback"))
            yield Healing(record, warning, original, used, _settled(record, original, used))


def _settled(record: TaskRecord, original: str, used: str) -> str:
    if "struck" in record.faults.values():
        return _FAULTED
    if HEALED in record.declared:
        return _DECLARED
    return _OWN if own_match(original, used) else ""
