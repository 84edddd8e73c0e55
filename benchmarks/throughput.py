"""Many tasks, some of which fail and are fully recorded: against pytest-playwright, and against raw Playwright."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.figures import Spread, paired_ratio
from benchmarks.ground import Ground, our_project
from benchmarks.playing import ALONE, PytestRun
from benchmarks.programs import PEER, TWO, Run, fault, in_turns, ours, peer, raw
from benchmarks.table import Bound, Row
from benchmarks.workload import Job, jobs

AUTO = ("--task-workers", "auto")
VARIANTS: dict[str, tuple[str, ...]] = {
    "auto, --task-workers auto": ("--task-recording", "auto", *AUTO, *ALONE),
    "minimal, --task-workers auto": ("--task-recording", "minimal", *AUTO, *ALONE),
    "auto, -n 2 --task-workers auto": ("--task-recording", "auto", *AUTO, *TWO),
    "minimal, -n 2 --task-workers auto": ("--task-recording", "minimal", *AUTO, *TWO),
}
"""The variants of the harness."""
BEST = 2
"""The number of degrees of parallelism of raw Playwright that take part in the rounds: the best of a first try."""
AGAINST_PEER, AGAINST_RAW = Bound(2.5, at_least=True), Bound(0.8, at_least=True)


@dataclass(frozen=True, slots=True)
class Size:
    """The amount of work."""

    tasks: int
    steps: int
    failing: int

    @property
    def work(self) -> tuple[Job, ...]:
        return jobs(self.tasks, self.steps, self.failing)

    def fault(self, played: PytestRun) -> str:
        """The error in a run; empty: none."""
        return fault(played, passed=self.tasks - self.failing, failed=self.failing)


def measure(ground: Ground, rounds: int, size: Size, at_once: Sequence[int]) -> list[Row]:
    """Measure: all contestants in every round, each time in a folder with the same work."""
    project = our_project(ground, size.work)
    runs: dict[str, Run] = {name: ours(ground, project, arguments) for name, arguments in VARIANTS.items()}
    runs[PEER] = peer(ground, size.work)
    tried = {number: raw(ground, size.work, number) for number in at_once}
    first = {number: run().work for number, run in tried.items()}
    print(f"raw Playwright, seconds by tasks at once: { {n: round(s, 1) for n, s in first.items()} }", flush=True)
    best = sorted(first, key=lambda number: first[number])[:BEST]
    runs |= {f"raw {number}": tried[number] for number in best}
    return rows(in_turns(runs, rounds), size)


def rows(played: dict[str, list[PytestRun]], size: Size) -> list[Row]:
    """Tasks a minute, by the whole process and without its start; against the best raw variant."""
    tried = [name for name in played if name.startswith("raw ")]
    found = []
    for part in ("whole", "work"):
        speed = {name: [_speed(each, part, size) for each in runs] for name, runs in played.items()}
        fastest = [max(speeds) for speeds in zip(*(speed[name] for name in tried), strict=True)]
        for name in VARIANTS:
            wrong = next(filter(None, map(size.fault, (*played[name], *played[PEER]))), "")
            found.append(_row(part, name, speed[name], PEER, speed[PEER], wrong))
        for name in VARIANTS:
            wrong = next(filter(None, (size.fault(each) for key in (name, *tried) for each in played[key])), "")
            found.append(_row(part, name, speed[name], "raw", fastest, wrong))
    return found


def _speed(played: PytestRun, part: str, size: Size) -> float:
    seconds = played.whole if part == "whole" else played.work
    return 60 * size.tasks / seconds


def _row(part: str, name: str, mine: list[float], rival: str, theirs: list[float], wrong: str) -> Row:
    """One row. The bounds are for one process, by its whole time; raw records nothing, so it rivals `minimal`."""
    judged = part == "whole" and "-n 2" not in name
    bound = None
    if judged:
        bound = AGAINST_PEER if rival == PEER and name.startswith("auto") else None
        bound = AGAINST_RAW if rival == "raw" and name.startswith("minimal") else bound
    where = "3. tasks a minute, whole process" if part == "whole" else "3. tasks a minute, without start-up"
    return Row(
        where, f"{name} / {rival}", "/min", Spread.of(mine), Spread.of(theirs), paired_ratio(mine, theirs), bound, wrong
    )
