"""Runs very many small tasks in one run, and checks that nothing grows with their number."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.figures import Estimate, Spread, trend
from benchmarks.ground import Ground, our_project
from benchmarks.playing import ALONE, OURS, PytestRun, pytest
from benchmarks.table import Bound, Row
from benchmarks.witness import EVERY
from benchmarks.workload import jobs

STEPS = 2
LOOKS = 5
"""The number of looks, the lowest of which is a sample: how many contexts are open at one moment is chance."""
SETTLED = 0.3
"""The share of the first samples that is left out, since caches fill at first."""
KIB = 16.0
"""KiB that a task may leave behind on average: 16 MiB after 1,000 tasks. pytest itself keeps a report of each."""
PARTS = {"total": "all processes", "python": "python", "driver": "Playwright's driver", "browser": "browser"}
COUNTS = {"files": "open files", "processes": "processes", "temp": "temporary files"}


def measure(ground: Ground, tasks: int, every: int) -> list[Row]:
    """Measure one run, with a sample of the tree of processes after every so many tasks."""
    folder = our_project(ground, jobs(tasks, STEPS))
    executable = ("--task-browser-executable", str(ground.executable))
    played = pytest(
        folder,
        "tasks",
        "-q",
        *OURS,
        *ALONE,
        *executable,
        "--task-workers",
        "auto",
        environment={EVERY: str(max(1, every // LOOKS))},
        keep=True,
    )
    wrong = "" if played.outcomes == {"passed": tasks} and not played.leftovers else _fault(played)
    return rows(played.document.get("samples", []), wrong)


def _fault(played: PytestRun) -> str:
    return f"{played.outcomes}; left: {', '.join(played.leftovers) or 'nothing'}; {played.output[-300:]}"


def rows(samples: Sequence[dict[str, float]], wrong: str = "") -> list[Row]:
    """The rows: KiB that each task adds, and the growth of each count. Raises ValueError for too few samples."""
    low = lowest(samples)
    settled = low[int(len(low) * SETTLED) :]
    return [
        *(_memory(settled, name, what, wrong) for name, what in PARTS.items()),
        *(_count(settled, name, what, wrong) for name, what in COUNTS.items()),
    ]


def lowest(samples: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """The least of every LOOKS samples, each figure by itself; for the number of tasks the last."""
    groups = [samples[start : start + LOOKS] for start in range(0, len(samples), LOOKS)]
    return [
        {name: min(each[name] for each in group) for name in group[0]} | {"tasks": group[-1]["tasks"]}
        for group in groups
    ]


def _memory(samples: Sequence[dict[str, float]], name: str, what: str, wrong: str) -> Row:
    slope = trend([(each["tasks"], each[name]) for each in samples])
    grown = Estimate(*(1024 * value for value in (slope.value, slope.low, slope.high)))
    spread = Spread.of([each[name] for each in samples])
    bound = Bound(KIB) if name == "total" else None
    return Row("5. KiB that each task adds", what, "MiB", spread, None, grown, bound, wrong)


def _count(samples: Sequence[dict[str, float]], name: str, what: str, wrong: str) -> Row:
    """The row for the growth of a count over 1,000 tasks."""
    slope = trend([(each["tasks"], each[name]) for each in samples])
    grown = Estimate(*(1000 * value for value in (slope.value, slope.low, slope.high)))
    return Row(
        "5. added by 1,000 tasks", what, "", Spread.of([each[name] for each in samples]), None, grown, Bound(5.0), wrong
    )
