"""Runs uneven suites on more than one machine, which here are parts and slots of this one.

In parts, divided by number and by durations: the time of the slowest part, over the mean. On two slots of a cluster:
the time of the run, over the ideal; and what a cluster costs for each test, on tests that do nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from benchmarks.figures import Spread, paired_difference
from benchmarks.ground import Ground, table_of_hosts
from benchmarks.playing import ALONE, OURS, PytestRun, pytest
from benchmarks.programs import Run, fault, in_turns
from benchmarks.table import Bound, Row

PARTS = 2
UNIT = 0.2
"""Seconds of a unit of the suite that runs in parts."""
UNEVEN = 1.15
"""The bound: what the slowest part may take by durations, over the mean."""
WELL_BALANCED = 1.1
"""The bound: what a run on slots may take from its first test to its last, over the ideal."""
SLOTS = 2
ON = ("--task-cluster", f"local:{SLOTS}")
NOTHING = 10_000
"""The number of tests that do nothing."""
NOTHINGS = "8. tests that do nothing, on two slots"
ROUNDS = 3
COST, FIRST, MEMORY = 5.0, 8.0, 300.0
"""The bounds: milliseconds for each test, seconds until the first result, MiB of the driver."""
ALONE_ON_THE_SITE = '[tool.harness]\nisolation = "none"\nparallel = true\n'


@dataclass(frozen=True, slots=True)
class Uneven:
    """A suite of one long task and many short ones: the seconds that they wait."""

    long: float
    short: float
    count: int
    """How many short ones there are."""

    def fault(self, played: PytestRun) -> str:
        return fault(played, passed=self.count + 1)


IN_PARTS = Uneven(60 * UNIT, 0.5 * UNIT, 60)
"""The short tasks wait half a unit, but most of their time is the harness's own work."""
ON_SLOTS = Uneven(60.0, 0.35, 200)
"""The short tasks last half a second."""


def measure(ground: Ground) -> list[Row]:
    """Measure in parts, and on a cluster if there is Ray."""
    rows = parts(ground)
    if find_spec("ray") is None:
        print("    Ray is not installed (pip install --group cluster), so no cluster is measured", flush=True)
        return rows
    return [*rows, *_slots(ground), *_nothing(ground)]


def parts(ground: Ground) -> list[Row]:
    """Record durations in one run, then run all parts, one after the other: they do not disturb each other."""
    folder = _project(ground, IN_PARTS)
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
    wrong = "" if passed == recorded.outcomes.get("passed") == IN_PARTS.count + 1 else f"{passed} tasks passed"
    uneven = max(times) / (sum(times) / PARTS)
    bound = Bound(UNEVEN) if how == "by durations" else None
    return Row("8. slowest of two parts / mean", how, "", Spread.of([uneven]), None, None, bound, wrong)


def _slots(ground: Ground) -> list[Row]:
    """Two runs on two slots: the second one knows the durations of the first."""
    folder = _project(ground, ON_SLOTS)
    executable = ("--task-browser-executable", str(ground.executable))
    rows = []
    for how in ("durations unknown", "durations known"):
        played = pytest(folder, "tasks", "-q", *OURS, *ALONE, *executable, *ON)
        rows += balance(played, how, ON_SLOTS.fault(played))
    return rows


def balance(played: PytestRun, how: str, wrong: str) -> list[Row]:
    """What a run on slots took, over the ideal: all slots are busy until the end, or with the longest task."""
    seconds = [each["seconds"] for results in played.document.get("results", {}).values() for each in results]
    if wrong:
        return [Row("8. run on two slots / ideal", how, "", Spread.of([0.0]), wrong=wrong)]
    ideal = max(*seconds, sum(seconds) / SLOTS)
    spans = {"from the first test to the last": played.document["last"] - played.document["first"]}
    spans["whole process"] = played.whole
    bounds = (Bound(WELL_BALANCED), Bound(UNEVEN)) if how == "durations known" else (None, None)
    return [
        Row("8. run on two slots / ideal", f"{how}, {what}", "", Spread.of([span / ideal]), None, None, bound)
        for (what, span), bound in zip(spans.items(), bounds, strict=True)
    ]


def _nothing(ground: Ground) -> list[Row]:
    """What a cluster costs for each test, from its start to its end."""
    folder = ground.folder("nothing")
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    text = "import pytest\n\n@pytest.mark.parametrize('number', range({}))\ndef test_nothing(number):\n    pass\n"
    (folder / "test_nothing.py").write_text(text.format(NOTHING), "utf-8")
    runs: dict[str, Run] = {
        "here": lambda: pytest(folder, "-q", *OURS, *ALONE),
        "there": lambda: pytest(folder, "-q", *OURS, *ALONE, *ON),
    }
    played = in_turns(runs, ROUNDS)
    wrong = next(filter(None, (fault(each, passed=NOTHING) for runs in played.values() for each in runs)), "")
    return costs(played["there"], played["here"], wrong)


def costs(there: Sequence[PytestRun], here: Sequence[PytestRun], wrong: str = "") -> list[Row]:
    """The rows about tests that do nothing: on a cluster, and in one process."""
    elapsed = _more("elapsed", [each.whole for each in there], [each.whole for each in here])
    processor = _more("processor", [each.cpu for each in there], [each.cpu for each in here])
    first = Spread.of([each.document.get("began", math.inf) - each.spawned for each in there])
    peak = Spread.of([each.document.get("peak", math.inf) for each in there])
    return [
        replace(elapsed, bound=Bound(COST), wrong=wrong),
        replace(processor, wrong=wrong),
        Row(NOTHINGS, "until the first result", "s", first, None, None, Bound(FIRST), wrong),
        Row(NOTHINGS, "memory of the driver", "MiB", peak, None, None, Bound(MEMORY), wrong),
    ]


def _more(clock: str, ours: Sequence[float], theirs: Sequence[float]) -> Row:
    """What each test costs more, by one clock. Both are seconds of whole runs."""
    there, here = ([1000 * each / NOTHING for each in runs] for runs in (ours, theirs))
    what = f"each, more than in one process, {clock}"
    return Row(NOTHINGS, what, "ms", Spread.of(there), Spread.of(here), paired_difference(there, here))


def _project(ground: Ground, suite: Uneven) -> Path:
    """A project with one long task and many short ones, which wait."""
    folder = ground.folder("scale")
    (folder / "pyproject.toml").write_text(ALONE_ON_THE_SITE + table_of_hosts(ground.hosts), "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (folder / "tasks").mkdir()
    for number in range(suite.count + 1):
        name, seconds = f"S-{number:03}", suite.long if number == suite.count // 2 else suite.short
        steps = [{"act": "open", "url": "http://shop.local/"}, {"act": "wait", "value": seconds}]
        document = {"task_id": name, "goal": "Wait.", "timeout": 120, "step_timeout": 90, "steps": steps}
        (folder / "tasks" / f"{name}.task.json").write_text(json.dumps(document), "utf-8")
    return folder
