"""The statistics of the benchmarks. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

T = TypeVar("T")
DRAWS = 2000
"""The number of samples of the bootstrap."""
SEED = 1
Z = 1.959963984540054
"""The quantile of the normal distribution for 95 %."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of measurements: the median, the least and the most."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Compute the spread. Raises ValueError without values."""
        if not values:
            raise ValueError("nothing was measured")
        return cls(statistics.median(values), min(values), max(values), len(values))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure computed from measurements, with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Line:
    """The cost of a task by its number of steps: `intercept` for the task, `slope` for each step."""

    slope: float
    intercept: float

    @classmethod
    def through(cls, points: Sequence[tuple[float, float]], weights: Sequence[float] | None = None) -> Line:
        """Fit by least squares; `weights` say how much each point counts. Raises ValueError if all have the same x."""
        weighed = list(zip(points, weights or [1.0] * len(points), strict=True))
        total = sum(weight for _, weight in weighed)
        x_mean = sum(weight * x for (x, _), weight in weighed) / total
        y_mean = sum(weight * y for (_, y), weight in weighed) / total
        width = sum(weight * (x - x_mean) ** 2 for (x, _), weight in weighed)
        if not width:
            raise ValueError("a line needs two different sizes")
        slope = sum(weight * (x - x_mean) * (y - y_mean) for (x, y), weight in weighed) / width
        return cls(slope, y_mean - slope * x_mean)


Round = Mapping[int, float]
"""Number of steps -> seconds of the task."""


def line_of(rounds: Sequence[Round]) -> Line:
    """Fit a line through the medians, so that one round on a busy machine does not count.

    Errors grow with the size of a task, so small tasks count more, by the square.
    """
    sizes = sorted(rounds[0])
    points = [(size, statistics.median(each[size] for each in rounds)) for size in sizes]
    return Line.through(points, [1 / size**2 for size in sizes])


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """The median of the ratio ours / theirs, round by round: a slowdown of a whole round cancels out."""
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return resampled(ratios, statistics.median)


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """The median of the difference ours - theirs, round by round."""
    return resampled([mine - other for mine, other in zip(ours, theirs, strict=True)], statistics.median)


def resampled(rounds: Sequence[T], figure: Callable[[Sequence[T]], float]) -> Estimate:
    """A figure of the rounds, with its bootstrap interval; the same rounds always give the same result."""
    random, count = Random(SEED), len(rounds)
    drawn = sorted(figure(random.choices(rounds, k=count)) for _ in range(DRAWS if count > 1 else 1))
    return Estimate(figure(rounds), drawn[int(0.025 * (len(drawn) - 1))], drawn[int(0.975 * (len(drawn) - 1))])


def trend(points: Sequence[tuple[float, float]]) -> Estimate:
    """The slope of a line through the points, with its interval. Raises ValueError for fewer than three points."""
    if len(points) < 3:
        raise ValueError("a trend needs three points")
    line, free = Line.through(points), len(points) - 2
    mean = statistics.fmean(x for x, _ in points)
    spread = sum((x - mean) ** 2 for x, _ in points)
    residue = sum((y - line.intercept - line.slope * x) ** 2 for x, y in points)
    half = student(free) * (residue / free / spread) ** 0.5
    return Estimate(line.slope, line.slope - half, line.slope + half)


def student(free: int) -> float:
    """The 97.5 % point of Student's t distribution, by degrees of freedom."""
    if free <= 2:
        return (12.706, 4.303)[free - 1]
    first, second = (Z**3 + Z) / 4, (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96
    third = (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384
    return Z + first / free + second / free**2 + third / free**3
