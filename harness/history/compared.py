"""Two runs of a project, compared by what its history has of them and of the runs around."""

from __future__ import annotations

from pathlib import Path

from harness.history.comparison import Comparison, compare
from harness.history.reading import load_run, task_points

WINDOW = 30
"""So many runs up to the old one say what is usual."""


def compared(root: Path, old: str = "last-1", new: str = "last") -> Comparison:
    """Raises HistoryError for a run that there is not."""
    one, two = load_run(root, old), load_run(root, new)
    before = task_points(root, WINDOW, until=one.run)
    known = {point.run for points in before.values() for point in points}
    since = {
        nodeid: tuple(point for point in points if point.run not in known and point.started > one.started)
        for nodeid, points in task_points(root, WINDOW, until=two.run).items()
    }
    return compare(one, two, before, since)
