"""The history of runs: kept in `.harness/history.sqlite3`, read by dashboards, comparisons and triage."""

from harness.reporting.history.comparison import Flaky, RunComparison, compare, flaky_tasks
from harness.reporting.history.file import HISTORY, HistoryError
from harness.reporting.history.reading import compare_runs, load_run, recent_runs, task_points
from harness.reporting.history.writing import save_run

__all__ = [
    "HISTORY",
    "Flaky",
    "HistoryError",
    "RunComparison",
    "compare",
    "compare_runs",
    "flaky_tasks",
    "load_run",
    "recent_runs",
    "save_run",
    "task_points",
]
