"""What became of runs: kept in `.harness/history.sqlite3`, read by dashboards, comparisons and triage."""

from harness.history.compared import compared
from harness.history.comparison import Comparison, compare
from harness.history.file import HISTORY, HistoryError
from harness.history.flakiness import Flaky, flaky_tasks
from harness.history.reading import load_run, recent_runs, task_points
from harness.history.writing import save_run

__all__ = [
    "HISTORY",
    "Comparison",
    "Flaky",
    "HistoryError",
    "compare",
    "compared",
    "flaky_tasks",
    "load_run",
    "recent_runs",
    "save_run",
    "task_points",
]
