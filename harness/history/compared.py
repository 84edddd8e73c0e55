"""Two runs of a project, compared by what its history has of them and of the runs around."""

from __future__ import annotations

from pathlib import Path

from harness.history.choosing import chosen
from harness.history.comparison import Comparison, compare
from harness.history.reading import load_run, task_points

WINDOW = 30
"""So many runs up to the old one say what is usual."""


def compared(root: Path, old: str | None = None, new: str = "last") -> Comparison:
    """Raises HistoryError for a run that there is not.

    `old`: None for the run before the new one, or, when that ran other tasks, the newest that ran half of them.
    """
    two = load_run(root, new)
    name, why = chosen(root, two.run) if old is None else (old, "")
    one = load_run(root, name)
    before = task_points(root, WINDOW, until=one.run)
    known = {point.run for points in before.values() for point in points}
    since = {
        nodeid: tuple(point for point in points if point.run not in known and point.started > one.started)
        for nodeid, points in task_points(root, WINDOW, until=two.run).items()
    }
    return compare(one, two, before, since).model_copy(update={"why": why})
