"""Which earlier run a run is compared with, when nobody says so: one that ran much of the same."""

from __future__ import annotations

from pathlib import Path

from harness.history.file import HistoryError
from harness.history.reading import overlaps

LEAST = 0.5
"""This share of the new run's tasks, an older one must have run to say something of it."""


def chosen(root: Path, new: str) -> tuple[str, str]:
    """The name of the older run, and in words why it is not simply the one before; empty when it is.

    `new`: the id of a run. Raises HistoryError when none came before it.
    """
    tasks, earlier = overlaps(root, new)
    if not earlier:
        raise HistoryError(f"no run before {new} in the history yet: there is nothing to compare it with")
    (before, common), *_ = earlier
    if common >= LEAST * tasks:
        return before, ""
    ran = f"the run before ({before}) ran {common} of the {tasks} tasks"
    found = next(((run, count) for run, count in earlier if count >= LEAST * tasks), None)
    if found is None:
        return before, f"compared with the run before, though {ran}: no earlier run has half of them"
    return found[0], f"{ran}; this is the newest that has at least half of them: {found[1]}"
