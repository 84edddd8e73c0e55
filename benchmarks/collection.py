"""The time to find very many tasks, against pytest finding as many one-test Python files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.figures import Spread, paired_ratio
from benchmarks.ground import Ground, our_project, their_project
from benchmarks.playing import ALONE, OURS, THEIRS, PytestRun, pytest
from benchmarks.steps import rotate
from benchmarks.table import Bound, Row
from benchmarks.workload import BLOCK, jobs

EACH = 100
"""The number of files in a folder."""
ONE = "00007"
KINDS: dict[str, tuple[str, ...]] = {"all": (), f"-k {ONE}": ("-k", ONE)}


def measure(ground: Ground, rounds: int, files: int, kinds: Mapping[str, Sequence[str]] = KINDS) -> list[Row]:
    """Measure. The first run of each side compiles Python files and is shown by itself; the rounds follow."""
    work = jobs(files, len(BLOCK))
    sides = {
        "ours": _side(our_project(ground, work, EACH), "tasks", OURS),
        "theirs": _side(their_project(ground, work, EACH), "tests", THEIRS),
    }
    cold = {name: run(()) for name, run in sides.items()}
    found = _rows("the first time", [cold["ours"]], [cold["theirs"]], files, None)
    for kind, arguments in kinds.items():
        played: dict[str, list[PytestRun]] = {"ours": [], "theirs": []}
        for number in range(rounds):
            for name in rotate(list(sides), number):
                played[name].append(sides[name](arguments))
        expected = 1 if arguments else files
        found += _rows(kind, played["ours"], played["theirs"], expected, Bound(1.0))
    return found


def _side(folder: Path, where: str, off: Sequence[str]) -> Callable[[Sequence[str]], PytestRun]:
    return lambda arguments: pytest(folder, where, "--collect-only", "-q", *off, *ALONE, *arguments)


def _rows(what: str, ours: list[PytestRun], theirs: list[PytestRun], expected: int, bound: Bound | None) -> list[Row]:
    """The rows by elapsed time, and by processor time, which a busy machine changes less."""
    wrong = next((each.output[-300:] for each in (*ours, *theirs) if count_collected(each.output) != expected), "")
    clocks = [("elapsed", [p.whole for p in ours], [p.whole for p in theirs], bound)]
    clocks.append(("processor", [p.cpu for p in ours], [p.cpu for p in theirs], bound))
    return [
        Row(
            "4. collecting specs / Python files",
            f"{what}, {clock}",
            "s",
            Spread.of(a),
            Spread.of(b),
            paired_ratio(a, b),
            limit,
            wrong,
        )
        for clock, a, b, limit in clocks
    ]


def count_collected(output: str) -> int:
    """The number of lines of `--collect-only -q` that name a test."""
    return sum("::" in line for line in output.splitlines())
