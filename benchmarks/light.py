"""What the harness costs where little or nothing is asked of it: seconds of processor time beyond the rival's."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import green_pages
from benchmarks.figures import Spread, paired_difference
from benchmarks.ground import Ground, our_project
from benchmarks.playing import ALONE, UNUSED, PytestRun, play
from benchmarks.programs import Run, in_turns, raw
from benchmarks.table import Bound, Row
from benchmarks.workload import FIELDS, jobs

STEPS = 32
PYTHON_TEST = "def test_one() -> None:\n    assert 1 + 1 == 2\n"
HARNESS = str(Path(sys.executable).with_name("harness"))
QUIET = tuple(part for name in (*UNUSED, "playwright", "allure_pytest") for part in ("-p", f"no:{name}"))
"""Both sides run without any plugin but ours, so that no other one has already imported what ours imports."""
WITHOUT = ("-p", "no:taskspec")


@dataclass(frozen=True, slots=True)
class Case:
    """One bound; `said` is what a run of ours prints when it did what it should."""

    what: str
    bound: float
    said: str
    ours: Run
    rival: Run | None = None


def measure(ground: Ground, rounds: int) -> list[Row]:
    """Measure. One run of each, which compiles Python files, does not count."""
    found = []
    for case in cases(ground):
        runs = {"ours": case.ours, **({"rival": case.rival} if case.rival else {})}
        in_turns(runs, 1)
        found.append(row(case, in_turns(runs, rounds)))
    return [*found, green_pages.measure(ground, rounds)]


def cases(ground: Ground) -> Sequence[Case]:
    """The bounds, in the order of the table."""
    work = jobs(1, STEPS, block=FIELDS)
    project, strange = our_project(ground, work), ground.folder("strange")
    (strange / "test_one.py").write_text(PYTHON_TEST, "utf-8")
    task = f"tasks/{work[0].name}.task.yaml"
    executable = ("--task-browser-executable", str(ground.executable))

    def pytest(folder: Path, *arguments: str) -> Run:
        return lambda: play(("-m", "pytest", "-q", *QUIET, *ALONE, *arguments), folder)

    def harness(*arguments: str) -> Run:
        return lambda: play((HARNESS, *arguments), project)

    session, without = pytest(strange), pytest(strange, *WITHOUT)
    collection, collection_without = (
        pytest(project, "--collect-only", task),
        pytest(strange, "--collect-only", *WITHOUT),
    )
    run, raw_run = pytest(project, task, *executable), raw(ground, work, 1)
    return (
        Case("a session without task files, over one without the plugin", 0.05, "1 passed", session, without),
        Case("collecting a task file, over a Python test", 0.25, "1 test collected", collection, collection_without),
        Case(f"a run of one task of {STEPS} steps, over raw async", 0.8, "1 passed", run, raw_run),
        Case("harness --help", 0.3, "Usage", harness("--help")),
        Case("harness validate, one file", 0.6, "1 loaded, 0 with errors", harness("validate", task)),
    )


def row(case: Case, played: dict[str, list[PytestRun]]) -> Row:
    """The row of a case: the difference from the rival, or without one the time itself."""
    runs = [run for side in played.values() for run in side]
    wrong = next((run.output[-300:] or "it failed" for run in runs if run.code), "")
    wrong = wrong or next((run.output[-300:] for run in played["ours"] if case.said not in run.output), "")
    mine = [run.cpu for run in played["ours"]]
    theirs = [run.cpu for run in played.get("rival", ())]
    return Row(
        "light: seconds of processor time beyond the rival's",
        case.what,
        "s",
        Spread.of(mine),
        Spread.of(theirs) if theirs else None,
        paired_difference(mine, theirs) if theirs else None,
        Bound(case.bound),
        wrong,
    )
