"""The line of a run's summary that counts its faults, and what the fault plans say in vain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import get_args

from harness.reporting.task_record import FaultState, TaskRecord

_WARNED = {"fault_not_as_expected": "not as expected", "fault_not_healed": "not undone"}
"""Types of warnings that are counted too -> their words."""


def fault_lines(records: Sequence[TaskRecord], idle: Sequence[str] | None = None) -> Iterator[str]:
    """`faults: 2 struck, 1 never struck, 1 not as expected`; each fault is counted once for every task of its own.

    `idle`: which plans, or entries of them, strike no task of the run; None for a run without plans and, then, without
    faults there is no line.
    """
    found = Counter(state for record in records for state in record.faults.values())
    if not found and idle is None:
        return
    warned = Counter(str(warning.get("type")) for record in records for warning in record.warnings)
    parts = [f"{found[state]} {state}" for state in get_args(FaultState) if found[state]]
    parts += [f"{warned[kind]} {words}" for kind, words in _WARNED.items() if warned[kind]]
    yield f"faults: {', '.join(parts) or 'none struck'}"
    yield from (f"  {line}" for line in idle or ())
