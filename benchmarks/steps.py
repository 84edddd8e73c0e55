"""The cost of a step and of a task, against the same in raw async Playwright (docs/benchmarks.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from benchmarks.contestants import RAW, RECORDINGS, Contestant, contestants
from benchmarks.figures import Estimate, Line, Round, Spread, line_of, resampled
from benchmarks.ground import Ground
from benchmarks.table import Bound, Row
from benchmarks.traffic import TRAFFIC
from benchmarks.workload import Job, acts

BOUNDS = {"minimal": 1.05, "auto": 1.15}
FIXED = 1.15
Rounds = dict[str, list[dict[int, float]]]
"""Contestant -> for each round, number of steps -> seconds."""


def measure(ground: Ground, rounds: int, sizes: Sequence[int]) -> list[Row]:
    """Measure: each contestant does every size in every round; the first one changes."""
    work = {size: Job(f"S-{size:03}", acts(size)) for size in sizes}
    with contestants(ground, list(work.values())) as people:
        times = timed(people, work, rounds)
        asked, methods = traffic(people, work)
    print(*extra_calls(methods), sep="\n")
    return [*rows(times), *message_rows(asked)]


def timed(people: Mapping[str, Contestant], work: Mapping[int, Job], rounds: int) -> Rounds:
    times: Rounds = {name: [] for name in people}
    for number in range(rounds):
        for each in times.values():
            each.append({})
        for size, job in work.items():
            for name in rotate(list(people), number):
                times[name][-1][size] = people[name].timed(job)
    return times


def rotate(names: Sequence[str], number: int) -> list[str]:
    """The names, rotated so that each contestant is first in turn."""
    first = number % len(names)
    return [*names[first:], *names[:first]]


def traffic(
    people: Mapping[str, Contestant], work: Mapping[int, Job]
) -> tuple[dict[str, dict[int, float]], dict[str, Counter[str]]]:
    """The calls to the driver for each size; and for the largest, by name."""
    TRAFFIC.count()
    asked: dict[str, dict[int, float]] = {}
    methods: dict[str, Counter[str]] = {}
    for name, person in people.items():
        asked[name] = {}
        for size, job in sorted(work.items()):
            methods[name] = person.calls(job)
            asked[name][size] = methods[name].total()
    return asked, methods


def extra_calls(methods: Mapping[str, Counter[str]]) -> Iterator[str]:
    """Yield the calls that the harness makes more often than raw Playwright, in the largest task."""
    for name in RECORDINGS:
        more = methods[name] - methods[RAW]
        yield f"calls of `{name}` beyond raw: " + (", ".join(f"{m} {n}" for m, n in more.most_common()) or "none")


def rows(times: Rounds) -> list[Row]:
    return [*(_slope(times, name) for name in RECORDINGS), *(_fixed(times, name) for name in RECORDINGS)]


def _slope(times: Rounds, name: str) -> Row:
    figure = _ratio(times, name, lambda line: line.slope)
    ours, theirs = _each(times[name], "slope"), _each(times[RAW], "slope")
    return Row("1. a step", f"{name} / raw async", "ms", ours, theirs, figure, Bound(BOUNDS[name]))


def _fixed(times: Rounds, name: str) -> Row:
    figure = _ratio(times, name, lambda line: line.intercept)
    ours, theirs = _each(times[name], "intercept"), _each(times[RAW], "intercept")
    return Row("2. a task without its steps", f"{name} / raw async", "ms", ours, theirs, figure, Bound(FIXED))


def _each(rounds: Sequence[Round], part: str) -> Spread:
    return Spread.of([1000 * getattr(line_of([each]), part) for each in rounds])


def _ratio(times: Rounds, name: str, part: Callable[[Line], float]) -> Estimate:
    """The ratio of a figure; whole rounds are drawn, so that both sides are from the same moments."""
    pairs = list(zip(times[name], times[RAW], strict=True))
    return resampled(pairs, lambda drawn: part(line_of([a for a, _ in drawn])) / part(line_of([b for _, b in drawn])))


def message_rows(asked: Mapping[str, Mapping[int, float]]) -> list[Row]:
    """The rows of calls for each step and each task; they do not vary, so they have no spread."""
    lines = {name: Line.through(sorted(sizes.items())) for name, sizes in asked.items()}
    found = []
    for part in ("slope", "intercept"):
        for name in RECORDINGS:
            ours, theirs = getattr(lines[name], part), getattr(lines[RAW], part)
            what = f"{name} / raw async, {'a step' if part == 'slope' else 'a task'}"
            figure = Estimate(ours / theirs, ours / theirs, ours / theirs)
            found.append(
                Row("calls to Playwright's driver", what, "calls", Spread.of([ours]), Spread.of([theirs]), figure)
            )
    return found
