"""Statistics of trials: shares of a task, means over tasks with their intervals, and the comparison of two agents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, comb, sqrt
from random import Random
from statistics import NormalDist, fmean
from typing import Self

from msgspec import Struct

_Z = 1.959963984540054
"""The quantile of the normal distribution for 95 %."""
Interval = tuple[float, float]
"""The lower and the upper bound of a 95 % interval."""

# Trials of one task.


def wilson(passed: float, trials: int) -> Interval | None:
    """The 95 % interval (Wilson's) of the share that passes; None without trials."""
    if trials == 0:
        return None
    share, square = passed / trials, _Z * _Z / trials
    middle = (share + square / 2) / (1 + square)
    half = _Z * sqrt(share * (1 - share) / trials + square / (4 * trials)) / (1 + square)
    return (0.0 if passed == 0 else max(0.0, middle - half), 1.0 if passed == trials else min(1.0, middle + half))


def pass_hat(passed: int, trials: int) -> tuple[float, ...]:
    """pass^k for k = 1, 2, ..., `trials`: the chance that k trials all pass, without bias: C(c, k) / C(n, k)."""
    return tuple(comb(passed, k) / comb(trials, k) for k in range(1, trials + 1))


class TaskTally(Struct, frozen=True):
    """The outcomes of the trials of one task. A void trial says nothing about the task or its agent."""

    passed: int = 0
    failed: int = 0
    void: int = 0

    @classmethod
    def of(cls, outcomes: Iterable[bool | None]) -> Self:
        """Count outcomes: True has passed, False has failed, None is void."""
        found = list(outcomes)
        return cls(found.count(True), found.count(False), found.count(None))

    @property
    def counted(self) -> int:
        """The number of trials that say something."""
        return self.passed + self.failed

    @property
    def rate(self) -> float | None:
        """The share of the counted trials that passed; None if none counts."""
        return self.passed / self.counted if self.counted else None

    @property
    def bounds(self) -> Interval | None:
        """The rate if all void trials had failed, and if all had passed; None without trials."""
        made = self.counted + self.void
        return (self.passed / made, (self.passed + self.void) / made) if made else None


# Means over tasks: each task counts the same, however many trials it has.

FEWEST_TASKS = 10
"""With fewer tasks no interval over tasks is given: it would be too narrow, and nobody could see that."""
_RESAMPLES = 2000
_NORMAL = NormalDist()


class TaskMean(Struct, frozen=True):
    """A mean over tasks."""

    tasks: int
    """The number of tasks that have a value."""
    mean: float | None
    """None if no task has one."""
    interval: Interval | None = None
    """The 95 % interval of the mean over tasks such as these; None with fewer than `FEWEST_TASKS`."""


def mean_rate(tallies: Iterable[TaskTally], seed: int = 0) -> TaskMean:
    """The mean of the rates of tasks, with its interval."""
    rates = [each.rate for each in tallies if each.rate is not None]
    if not rates:
        return TaskMean(0, None)
    return TaskMean(len(rates), fmean(rates), rate_interval(rates, seed))


def mean_bounds(tallies: Iterable[TaskTally]) -> Interval | None:
    """The mean rate if all void trials had failed, and if all had passed; None without trials."""
    found = [each.bounds for each in tallies if each.bounds is not None]
    return (fmean(low for low, _ in found), fmean(high for _, high in found)) if found else None


def mean_pass_hat(tallies: Iterable[TaskTally]) -> tuple[TaskMean, ...]:
    """pass^k of each task, then the mean over the tasks with at least k counted trials, for k = 1, 2, ..."""
    found = [pass_hat(each.passed, each.counted) for each in tallies]
    most = max(map(len, found), default=0)
    columns = ([each[k] for each in found if len(each) > k] for k in range(most))
    return tuple(TaskMean(len(column), fmean(column)) for column in columns)


def rate_interval(rates: Sequence[float], seed: int = 0) -> Interval | None:
    """The 95 % interval of the mean rate over tasks such as these, 0 to 1; None with fewer than `FEWEST_TASKS`.

    If all tasks have the same rate, resampling them shows no spread: then it is Wilson's with a trial for each task.
    """
    if len(rates) < FEWEST_TASKS:
        return None
    if min(rates) == max(rates):
        return wilson(rates[0] * len(rates), len(rates))
    return _bootstrap(rates, seed)


def difference_interval(differences: Sequence[float], seed: int = 0) -> Interval | None:
    """The 95 % interval of the mean of differences, one for each task; None with fewer than `FEWEST_TASKS`.

    If all tasks have the same difference, resampling them shows no spread: then it reaches as far as the tasks that are
    different may be many, by Wilson's bound for none of so many. For a difference of 0 that is Tango's interval (1998).
    """
    if len(differences) < FEWEST_TASKS:
        return None
    if same_everywhere(differences):
        hidden = _Z * _Z / (len(differences) + _Z * _Z)
        return max(-1.0, differences[0] - hidden), min(1.0, differences[0] + hidden)
    return _bootstrap(differences, seed)


def same_everywhere(differences: Sequence[float]) -> bool:
    """Whether all tasks have the same difference."""
    return max(differences) - min(differences) < 1e-9


def _bootstrap(values: Sequence[float], seed: int) -> Interval:
    """The bootstrap interval of the mean: BCa (Efron 1987), widened for few values (Hesterberg 2015, 'expanded').

    The plain percentile interval of 40 tasks covers 92 to 94 % where it should cover 95; this one 94 to 97.
    """
    count, mean = len(values), fmean(values)
    choices = Random(seed).choices
    means = sorted(sum(choices(values, k=count)) / count for _ in range(_RESAMPLES))
    below = sum(each < mean - 1e-12 for each in means) + sum(abs(each - mean) <= 1e-12 for each in means) / 2
    bias = _NORMAL.inv_cdf(min(max(below / _RESAMPLES, 1 / _RESAMPLES), 1 - 1 / _RESAMPLES))
    squares = sum((each - mean) ** 2 for each in values)
    skew = sum((each - mean) ** 3 for each in values) / (6 * squares**1.5)
    wide = sqrt(count / (count - 1)) * _student(count - 1)
    low, high = (_NORMAL.cdf(bias + (bias + z) / (1 - skew * (bias + z))) for z in (-wide, wide))
    return _quantile(means, low), _quantile(means, high)


def _student(freedom: int) -> float:
    """The quantile of Student's distribution for 95 %, right to three digits from 9 degrees of freedom on."""
    first, second = (_Z**3 + _Z) / 4, (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96
    third = (3 * _Z**7 + 19 * _Z**5 + 17 * _Z**3 - 15 * _Z) / 384
    return _Z + first / freedom + second / freedom**2 + third / freedom**3


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    lower = int(place)
    upper = min(lower + 1, len(ordered) - 1)
    return ordered[lower] + (ordered[upper] - ordered[lower]) * (place - lower)


# Two agents, in pairs of trials that have task, fault and seed in common.

_POWER_Z = _NORMAL.inv_cdf(0.8)
SMALL = 0.05
"""A difference of the rates that is worth finding: five points."""
_FEWEST_UNEVEN = 6
"""McNemar's exact p can be below 0.05 only if at least so many pairs differ."""


class PairTally(Struct, frozen=True):
    """The outcomes of pairs of trials; a pair with a void trial is none."""

    both: int = 0
    only_first: int = 0
    only_second: int = 0
    neither: int = 0

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool, bool]]) -> Self:
        """Count pairs: whether the first one passed, whether the second one did."""
        found = list(pairs)
        return cls(*(found.count(each) for each in ((True, True), (True, False), (False, True), (False, False))))

    @property
    def pairs(self) -> int:
        return self.both + self.only_first + self.only_second + self.neither

    @property
    def p_value(self) -> float:
        """McNemar's exact p: the chance of pairs as uneven as these if both agents were equally good."""
        return mcnemar(self.only_first, self.only_second)

    @property
    def difference(self) -> float:
        """The share of pairs that only the first one passed minus that of the second one; 0 without pairs."""
        return (self.only_first - self.only_second) / self.pairs if self.pairs else 0.0

    def needed(self, difference: float) -> int | None:
        """How many pairs show a difference of the rates in four of five evaluations (Connor 1987).

        It takes the pairs to differ as often as here. The formula is one for many pairs; where almost all differ, its
        number is too small for the exact test, so `_FEWEST_UNEVEN` of them must be expected to differ. None without
        pairs, or for no difference.
        """
        if not self.pairs or not difference:
            return None
        square = difference * difference
        uneven = max((self.only_first + self.only_second) / self.pairs, abs(difference))
        connor = (_Z * sqrt(uneven) + _POWER_Z * sqrt(uneven - square)) ** 2 / square
        return ceil(max(connor, _FEWEST_UNEVEN / uneven))


def mcnemar(only_first: int, only_second: int) -> float:
    """The exact two-sided p of McNemar's test, from the pairs in which only one of the two passed."""
    uneven = only_first + only_second
    tail = sum(comb(uneven, k) for k in range(min(only_first, only_second) + 1))
    return min(1.0, 2 * tail / (1 << uneven))
