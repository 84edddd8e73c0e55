"""Runs an uneven suite in parts, divided by number and by durations: the time of the slowest part, over the mean."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.figures import Spread
from benchmarks.ground import Ground, table_of_hosts
from benchmarks.playing import ALONE, OURS, PytestRun, pytest
from benchmarks.table import Bound, Row

PARTS = 2
UNIT = 0.2
"""Seconds of a unit. One task waits 60 units, and the others half a unit, most of which is the harness's own work."""
LONG, SHORT = 60 * UNIT, 0.5 * UNIT
SHORT_TASKS = 60
"""The number of the others. With 200 the run would take five minutes."""
UNEVEN = 1.15
"""The bound: what the slowest part may take by durations, over the mean."""


def measure(ground: Ground) -> list[Row]:
    """Record durations in one run, then run all parts, one after the other: they do not disturb each other."""
    folder = _project(ground)
    executable = ("--task-browser-executable", str(ground.executable))
    arguments = ("tasks", "-q", *OURS, *ALONE, *executable, "--tracing", "off")
    recorded = pytest(folder, *arguments)
    durations = folder / "history.sqlite3"
    (folder / ".harness" / "history.sqlite3").rename(durations)
    rows = []
    for how, given in (("by number", ()), ("by durations", ("--task-durations", durations.name))):
        shards = [pytest(folder, *arguments, "--task-shard", f"{n}/{PARTS}", *given) for n in range(1, PARTS + 1)]
        rows.append(_row(how, shards, recorded))
    return rows


def _row(how: str, shards: list[PytestRun], recorded: PytestRun) -> Row:
    times = [each.work for each in shards]
    passed = sum(each.outcomes.get("passed", 0) for each in shards)
    wrong = "" if passed == recorded.outcomes.get("passed") == SHORT_TASKS + 1 else f"{passed} tasks passed"
    uneven = max(times) / (sum(times) / PARTS)
    bound = Bound(UNEVEN) if how == "by durations" else None
    return Row("8. slowest of two parts / mean", how, "", Spread.of([uneven]), None, None, bound, wrong)


def _project(ground: Ground) -> Path:
    """A project with one long task and many short ones, which wait."""
    folder = ground.folder("scale")
    (folder / "pyproject.toml").write_text(table_of_hosts(ground.hosts), "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (folder / "tasks").mkdir()
    for number in range(SHORT_TASKS + 1):
        name, seconds = f"S-{number:03}", LONG if number == SHORT_TASKS // 2 else SHORT
        steps = [{"act": "open", "url": "http://shop.local/"}, {"act": "wait", "value": seconds}]
        document = {"task_id": name, "goal": "Wait.", "timeout": 60, "step_timeout": 30, "steps": steps}
        (folder / "tasks" / f"{name}.task.json").write_text(json.dumps(document), "utf-8")
    return folder
