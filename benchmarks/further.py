"""What each further task costs in processor time, against raw Playwright and pytest-playwright."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.figures import Line, Spread, paired_ratio
from benchmarks.ground import Ground, our_project
from benchmarks.playing import ALONE, PytestRun
from benchmarks.programs import PEER, Run, fault, in_turns, ours, peer, raw
from benchmarks.table import Bound, Row
from benchmarks.workload import FIELDS, Job, acts

STEPS = 32
"""Of each task: it opens its page once, since the work of more page loads would hide what the acts cost."""
AT_ONCE = 6
RAW = f"raw async, {AT_ONCE} at once"
BOUNDS = (("minimal", RAW, Bound(1.05)), ("auto", RAW, Bound(1.10)), ("auto", PEER, Bound(0.45)))
"""The recording of ours, the rival, and the ratio that is allowed."""
Runs = Mapping[str, Mapping[int, Sequence[PytestRun]]]
"""Contestant -> number of tasks -> its runs, one for each round."""


def measure(ground: Ground, rounds: int, sizes: Sequence[int]) -> list[Row]:
    """Measure runs of several sizes; what all of them have in common, such as the start of a browser, cancels out."""
    runs = {f"{name} {size}": run for size in sizes for name, run in contestants(ground, size).items()}
    played = in_turns(runs, rounds)
    names = dict.fromkeys(name for *pair, _ in BOUNDS for name in pair)
    return rows({name: {size: played[f"{name} {size}"] for size in sizes} for name in names})


def contestants(ground: Ground, tasks: int) -> dict[str, Run]:
    """Name -> a run of so many tasks."""
    opening, *filling = FIELDS
    work = [Job(f"F-{number:05}", (opening, *acts(STEPS - 1, filling))) for number in range(tasks)]
    project = our_project(ground, work)
    at_once = ("--task-workers", str(AT_ONCE), *ALONE)
    return {
        "minimal": ours(ground, project, ("--task-recording", "minimal", *at_once)),
        RAW: raw(ground, work, AT_ONCE),
        "auto": ours(ground, project, ("--task-recording", "auto", *at_once)),
        PEER: peer(ground, work),
    }


def rows(played: Runs) -> list[Row]:
    """The ratios, round by round."""
    slopes = {name: _slopes(sizes) for name, sizes in played.items()}
    return [
        _row(name, slopes[name], rival, slopes[rival], bound, _fault(played, name, rival))
        for name, rival, bound in BOUNDS
    ]


def _slopes(sizes: Mapping[int, Sequence[PytestRun]]) -> list[float]:
    """For each round the seconds that one more task takes."""
    turns = zip(*sizes.values(), strict=True)
    return [Line.through([(size, run.cpu) for size, run in zip(sizes, turn, strict=True)]).slope for turn in turns]


def _fault(played: Runs, *names: str) -> str:
    runs = ((size, run) for name in names for size, several in played[name].items() for run in several)
    return next(filter(None, (fault(run, passed=size) for size, run in runs)), "")


def _row(name: str, mine: list[float], rival: str, theirs: list[float], bound: Bound, wrong: str) -> Row:
    return Row(
        f"each further task of {STEPS} steps, {AT_ONCE} at once: processor time",
        f"{name} / {rival}",
        "s",
        Spread.of(mine),
        Spread.of(theirs),
        paired_ratio(mine, theirs),
        bound,
        wrong,
    )
