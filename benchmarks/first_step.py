"""The time from `pytest tasks/` to the beginning of the first step, on an installation that has run before."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from benchmarks.figures import Spread
from benchmarks.ground import Ground, our_project
from benchmarks.playing import OURS, PytestRun, pytest
from benchmarks.table import Bound, Row
from benchmarks.workload import BLOCK, jobs

BOUND = Bound(2.0)


def measure(ground: Ground, rounds: int) -> list[Row]:
    """Measure with the sites running (`harness services start --persist`)."""
    folder = our_project(ground, jobs(3, len(BLOCK)))
    arguments = ("tasks", "-q", *OURS, "--task-browser-executable", str(ground.executable))
    pytest(folder, *arguments)
    times, wholes, wrong = [], [], ""
    for _ in range(rounds):
        played = pytest(folder, *arguments)
        wrong = wrong or _fault(played)
        times.append(first_step_start(folder) - played.spawned)
        wholes.append(played.whole)
    return [
        Row("6. starting", "to the first step, sites running", "s", Spread.of(times), bound=BOUND, wrong=wrong),
        Row("6. starting", "a whole run of three small tasks", "s", Spread.of(wholes), wrong=wrong),
    ]


def _fault(played: PytestRun) -> str:
    return "" if played.outcomes == {"passed": 3} else played.output[-300:]


def first_step_start(folder: Path) -> float:
    """The start of the first step of the last run, in seconds of the wall clock."""
    records = json.loads((folder / ".harness" / "last-run.json").read_text("utf-8"))["results"]
    begun = (
        datetime.fromisoformat(record["started"]).timestamp() + float(record["steps"][0]["attempts"][0]["t"])
        for record in records
    )
    return min(begun)
