"""Replaced selectors, and whether the file should be changed: one answer for all reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct
from pydantic import JsonValue

from harness.reporting.task_record import TaskRecord

_HEALED = "fallback_selector_used"
"""The type of the warning."""

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
            yield Healing(record, warning, original, used, _settled(record, original, used))


def _settled(record: TaskRecord, original: str, used: str) -> str:
    if "struck" in record.faults.values():
        return _FAULTED
    if _HEALED in record.declared:
        return _DECLARED
    return _OWN if _own_match(original, used) else ""


def _own_match(original: str, used: str) -> bool:
    """Return whether `use_first` or `use_visible` took one of several matches: then nothing must be changed."""
    own = used.removesuffix(" >> nth=0")
    return own != used and ("${" in original or own.removesuffix(" >> visible=true") == original)
