"""Each act by itself: its processor time and its calls to Playwright's driver, beside those of raw async Playwright."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.contestants import RAW, RECORDINGS, Contestant, contestants
from benchmarks.figures import Line, Spread, paired_ratio
from benchmarks.form_site import HOST
from benchmarks.ground import Ground
from benchmarks.processor import Meter, metered
from benchmarks.steps import rotate
from benchmarks.table import Row
from benchmarks.traffic import TRAFFIC
from benchmarks.workload import FORM, Act, Job, acts, alone

REST = 0.15
"""Seconds after a task in which the browser ends its page: this is no work of the next contestant."""
SELDOM = 0.25
"""A call that an act makes less often than this is not named."""


@dataclass(frozen=True, slots=True)
class Done:
    """A task that was done."""

    seconds: float
    calls: Counter[str]


Rounds = Mapping[str, Sequence[Mapping[int, Done]]]
"""Contestant -> for each round, number of times -> the task."""


def measure(ground: Ground, rounds: int, sizes: Sequence[int]) -> list[Row]:
    """Measure act by act: every contestant does every size in every round; the first one changes."""
    work = {name: several(name, cycle, sizes) for name, cycle in alone(ground.hosts[HOST]).items()}
    TRAFFIC.count()
    with metered() as meter, contestants(ground, [job for each in work.values() for job in each.values()]) as people:
        return [row for name, each in work.items() for row in rows(name, done(people, each, rounds, meter))]


def several(name: str, cycle: Sequence[Act], sizes: Sequence[int]) -> dict[int, Job]:
    """The tasks that do one act so many times on the opened form: their difference is the act without the task."""
    title = name.replace(" ", "-")
    return {size: Job(f"A-{title}-{size:03}", (Act("open", FORM), *acts(size, cycle))) for size in sizes}


def done(people: Mapping[str, Contestant], work: Mapping[int, Job], rounds: int, meter: Meter) -> Rounds:
    found: dict[str, list[dict[int, Done]]] = {name: [{} for _ in range(rounds)] for name in people}
    for number in range(rounds):
        for size, job in work.items():
            for name in rotate(list(people), number):
                before = meter.seconds()
                calls = people[name].calls(job)
                time.sleep(REST)
                found[name][number][size] = Done(meter.seconds() - before, calls)
    return found


def rows(act: str, played: Rounds) -> list[Row]:
    """For each recording a row, which names the calls of one act."""
    times = {name: [1000 * _slope(each) for each in rounds] for name, rounds in played.items()}
    calls = {name: named_calls(rounds[-1]) for name, rounds in played.items()}
    return [
        Row(
            "each act / raw async: processor time, and calls to Playwright's driver",
            f"{act}, {name}: {calls[name]} / {calls[RAW]}",
            "ms",
            Spread.of(times[name]),
            Spread.of(times[RAW]),
            paired_ratio(times[name], times[RAW]),
        )
        for name in RECORDINGS
    ]


def _slope(sizes: Mapping[int, Done]) -> float:
    return Line.through([(size, task.seconds) for size, task in sizes.items()]).slope


def named_calls(sizes: Mapping[int, Done]) -> str:
    """The calls for one act, such as `fill + queryCount`; half a call is one that every second act makes."""
    (few, first), *_, (many, last) = sorted(sizes.items())
    each = {name: (last.calls[name] - first.calls[name]) / (many - few) for name in sorted(last.calls)}
    named = [f"{count:.2g} {name}" if round(count, 1) != 1 else name for name, count in each.items() if count > SELDOM]
    return " + ".join(named) or "none"
