"""The last lines of a run: how it went, what was healed, where everything is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from os.path import relpath
from pathlib import Path

from harness.reporting.task_record import TaskRecord
from harness.spec.task import FinalState

_ORDER: tuple[FinalState, ...] = ("completed", "partial_success", "failed", "aborted")
_RECOVERED = frozenset({
    "network_error_recovered", "assertion_retry_success", "fallback_selector_used", "element_appeared_late",
    "checkpoint_restored", "precondition_repaired", "browser_restarted", "effect_already_done",
    "state_inconsistency_resolved", "alternative_task_used",
})  # fmt: skip


def summary_lines(
    records: Sequence[TaskRecord], artifacts: Path | None = None, allure: Path | None = None
) -> list[str]:
    """Plain lines; nothing for a run without tasks. `allure` is the results folder, when there is one."""
    if not records:
        return []
    lines = [_counts(records), *_healed(records)]
    if artifacts is not None and any(not record.ok for record in records):
        lines.append(f"artifacts: {relpath(artifacts)}")
    if allure is not None:
        lines.append(f"Allure results: {relpath(allure)} (build the report: harness report)")
    return lines


def _counts(records: Sequence[TaskRecord]) -> str:
    states = Counter(record.final_state for record in records if not record.expected)
    parts = [f"{states[state]} {state.replace('_', ' ')}" for state in _ORDER if states[state]]
    recovered = [record for record in records if record.ok and _recoveries(record)]
    if recovered:
        kinds = Counter(kind for record in recovered for kind in _recoveries(record))
        parts.append(f"{len(recovered)} recovered ({', '.join(f'{kind} {n}' for kind, n in sorted(kinds.items()))})")
    if expected := sum(record.expected for record in records):
        parts.append(f"{expected} failed as expected")
    return "tasks: " + ", ".join(parts)


def _recoveries(record: TaskRecord) -> list[str]:
    return [kind for warning in record.warnings if (kind := str(warning.get("type"))) in _RECOVERED]


def _healed(records: Sequence[TaskRecord]) -> Iterator[str]:
    """One line for each selector that needs a change in its file."""
    found = dict.fromkeys(
        f"  {record.source or record.task_id} step {warning.get('step_index')}: "
        f"`{warning.get('original_selector')}` -> `{warning.get('successful_fallback')}`{_what(warning)}"
        for record in records
        for warning in record.warnings
        if warning.get("type") == "fallback_selector_used"
    )
    if found:
        yield "healed selectors (update the spec):"
        yield from found


def _what(warning: Mapping[str, object]) -> str:
    """`(button 'Pay')`: what the healed element is, so that a wrong one is seen."""
    role, name = warning.get("role"), warning.get("name")
    return f" ({role} {name!r})" if role and name else f" ({role})" if role else ""
