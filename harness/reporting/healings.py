"""Replaced selectors, and whether the file should be changed: one answer for all reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from pydantic import JsonValue

from harness.model.report import FaultReport
from harness.reporting.task_record import TaskRecord

_HEALED = "fallback_selector_used"
"""The type of the warning."""

_MARK = "under_fault"
_FAULTED = "healed under an injected fault: nothing to change"
_DECLARED = "healed as the task declares: nothing to change"
_OWN = "one of the selector's own matches was used: nothing to change"


class Healing(Struct, frozen=True):
    """One healed selector of one task."""

    record: TaskRecord
    warning: Mapping[str, JsonValue]
    original: str
    used: str
    settled: str
    """The reason why nothing must be changed; empty if the file should be."""


def healings(record: TaskRecord) -> Iterator[Healing]:
    """The healed selectors in the order of the task."""
    for warning in record.warnings:
        if warning.get("type") == _HEALED:
            original, used = str(warning.get("original_selector")), str(warning.get("successful_fallback"))
            yield Healing(record, warning, original, used, _settled(record, warning, original, used))


def under_fault(warning: dict[str, Any], faults: Sequence[FaultReport]) -> dict[str, Any]:
    """The warning, with a mark if it tells of a healed selector whose step or element a fault had struck."""
    step, selector = warning.get("step_index"), warning.get("original_selector")
    struck = any(step in each.steps or (each.struck and each.target == selector) for each in faults)
    return {**warning, _MARK: True} if warning.get("type") == _HEALED and struck else warning


def _settled(record: TaskRecord, warning: Mapping[str, JsonValue], original: str, used: str) -> str:
    if warning.get(_MARK):
        return _FAULTED
    if _HEALED in record.declared:
        return _DECLARED
    return _OWN if _own_match(original, used) else ""


def _own_match(original: str, used: str) -> bool:
    """Return whether `use_first` or `use_visible` took one of several matches: then nothing must be changed."""
    own = used.removesuffix(" >> nth=0")
    return own != used and ("${" in original or own.removesuffix(" >> visible=true") == original)
