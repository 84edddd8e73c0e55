"""Compares two runs: what is newly broken, fixed, slower or flakier, and where that is undecided yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, Final

from pydantic import Field

from harness.model.statistics import wilson
from harness.reporting.history.record import Execution, FrozenValue, RunRecord, TaskPoint

# The usual duration of a task, by earlier runs.

FEWEST = 5
"""The number of runs below which nothing is said."""
_SPREAD = 3.0
"""The number of standard deviations from the median that are still usual."""
_TO_DEVIATION = 1.4826
"""The factor from median absolute deviation to standard deviation, for normally distributed values."""
_SHARE, _LEAST = 0.1, 0.2
"""A tenth of the median, and 0.2 s, are always usual: machines differ by more from day to day."""


class Usual(FrozenValue):
    """The middle of the durations, and how far from it is no news (seconds)."""

    median: float
    low: float
    high: float
    runs: int = Field(description="That this was learnt from.")


def usual(seconds: Sequence[float]) -> Usual | None:
    """The usual duration: the median plus or minus three median absolute deviations, which ignore outliers.

    None for fewer than five durations.
    """
    if len(seconds) < FEWEST:
        return None
    middle = median(seconds)
    deviation = _TO_DEVIATION * median(abs(each - middle) for each in seconds)
    width = max(_SPREAD * deviation, _SHARE * middle, _LEAST)
    return Usual(
        median=round(middle, 3),
        low=round(max(0.0, middle - width), 3),
        high=round(middle + width, 3),
        runs=len(seconds),
    )


# How often the executions of a task fail, and which tasks alternate between passing and failing.

FLIPS = 3
"""The number of changes that is flaky: passed, failed, passed is a defect that was fixed; one more is chance."""


class ExecutionRate(FrozenValue):
    """A share of executions, reruns included."""

    failed: int
    executions: int
    interval: tuple[float, float] = Field(description="95 % (Wilson) of the share that fails.")

    @property
    def share(self) -> float:
        return self.failed / self.executions


class Flaky(FrozenValue):
    """A task that both passes and fails."""

    nodeid: str
    runs: int = Field(description="In which it passed or failed.")
    rate: ExecutionRate
    reruns_that_passed: int = Field(description="Runs in which it failed, and passed when it was run again.")
    flips: int = Field(description="How often one run of it ended otherwise than the one before.")
    last: str


def rate_of(points: Sequence[TaskPoint]) -> ExecutionRate | None:
    """The share of failed executions in these runs; None without any. Skipped and cut-off executions do not count."""
    judged = [point for point in points if point.judged]
    executions = sum(point.executions for point in judged)
    failed = executions - sum(point.outcome == "passed" for point in judged)
    interval = wilson(failed, executions)
    if interval is None:
        return None
    return ExecutionRate(failed=failed, executions=executions, interval=(round(interval[0], 4), round(interval[1], 4)))


def flaky_tasks(points: Mapping[str, Sequence[TaskPoint]]) -> tuple[Flaky, ...]:
    """The tasks that passed after a rerun, or changed at least three times from run to run; the worst first."""
    found = filter(None, (_flaky(nodeid, each) for nodeid, each in points.items()))
    return tuple(sorted(found, key=lambda each: (-each.rate.interval[0], -each.flips, each.nodeid)))


def passed_last(points: Mapping[str, Sequence[TaskPoint]]) -> frozenset[str]:
    """The node ids of tasks whose last judged execution passed."""
    judged = {nodeid: [point for point in found if point.judged] for nodeid, found in points.items()}
    return frozenset(nodeid for nodeid, found in judged.items() if found and found[-1].outcome == "passed")


def _flaky(nodeid: str, points: Sequence[TaskPoint]) -> Flaky | None:
    judged = [point for point in points if point.judged]
    rate = rate_of(judged)
    flips = sum((one.outcome == "passed") != (two.outcome == "passed") for one, two in pairwise(judged))
    rescued = sum(point.outcome == "passed" and point.executions > 1 for point in judged)
    if rate is None or not (rescued or flips >= FLIPS):
        return None
    return Flaky(
        nodeid=nodeid, runs=len(judged), rate=rate, reruns_that_passed=rescued, flips=flips, last=judged[-1].outcome
    )


_Points = Mapping[str, Sequence[TaskPoint]]
"""Node id -> its results in some runs, oldest first."""


class _Of(FrozenValue):
    """Something said of a task."""

    nodeid: str
    task_id: str


class TaskChange(_Of):
    """How a task ended in the new run, and how it had ended before."""

    outcome: str = Field(description="In the new run: passed, failed, skipped, rerun.")
    before: str = Field(description="Its outcome in the old run, or the last one before: passed, failed; new.")
    code: str | None = None
    message: str = ""


class Timing(_Of):
    """A task that took another time than the old run took."""

    before: float
    after: float
    usual: Usual | None = Field(None, description="None: too few runs to say what is usual.")


class Flakiness(_Of):
    """A task whose executions fail at another rate than before."""

    before: ExecutionRate
    after: ExecutionRate
    significant: bool = Field(description="The two intervals do not overlap.")


class RunComparison(FrozenValue):
    """What is different in the new run. The document of `harness history compare --json`."""

    old: str
    new: str
    why: str = Field("", description="Why the old one was chosen, where nobody named it and it is not the one before.")
    newly_failing: tuple[TaskChange, ...] = ()
    fixed: tuple[TaskChange, ...] = ()
    still_failing: tuple[TaskChange, ...] = ()
    slower: tuple[Timing, ...] = ()
    faster: tuple[Timing, ...] = ()
    undecided: tuple[Timing, ...] = Field(
        (), description="Another time, and too few runs to say whether that is usual."
    )
    flakier: tuple[Flakiness, ...] = ()
    new_tasks: tuple[TaskChange, ...] = Field((), description="Those that never ran before, however they ended.")
    not_judged: tuple[TaskChange, ...] = Field(
        (), description="Cut off from outside: that says nothing about the task."
    )
    not_run: tuple[str, ...] = Field((), description="Node ids of the old run only: removed, or not selected.")

    @property
    def different(self) -> bool:
        """Whether there is a difference: a task that failed before and fails now is none."""
        told = self.model_dump(exclude={"old", "new", "why", "still_failing", "not_judged"})
        return any(told.values())


def compare(old: RunRecord, new: RunRecord, before: _Points, after: _Points) -> RunComparison:
    """Compare two runs. `before`: the runs up to and including the old one. `after`: those since, up to the new one."""
    then = {each.nodeid: each for each in old.last}
    now = {each.nodeid: each for each in new.last}
    lists: dict[str, Any] = {}
    for each in now.values():
        change = _change(each, then, before)
        known = each.nodeid in then or each.nodeid in before
        if name := _list_of(change, _judged_outcome(each), known=known):
            lists.setdefault(name, []).append(change)
    timings = list(_timings(then, now, before))
    return RunComparison(
        old=old.run,
        new=new.run,
        slower=tuple(sorted((t for t in timings if t.usual and t.after > t.before), key=_slowdown, reverse=True)),
        faster=tuple(sorted((t for t in timings if t.usual and t.after < t.before), key=_slowdown)),
        undecided=tuple(t for t in timings if t.usual is None),
        flakier=tuple(sorted(_flakier(now.values(), before, after), key=lambda each: not each.significant)),
        not_run=tuple(nodeid for nodeid in then if nodeid not in now),
        **lists,
    )


_LISTS: Final = {
    ("passed", "failed"): "newly_failing",
    ("failed", "passed"): "fixed",
    ("failed", "failed"): "still_failing",
    ("new", "passed"): "new_tasks",
    ("new", "failed"): "new_tasks",
}
"""How a judged task ended before and now -> the list of a `RunComparison` that has it. The others have not changed."""


def _list_of(change: TaskChange, outcome: str, *, known: bool) -> str:
    """The list that a task belongs to; empty for none. `outcome`: as judged now; `known`: an earlier run has it."""
    if outcome:
        return _LISTS.get((change.before, outcome), "")
    if change.outcome != "skipped":
        return "not_judged"
    return "" if known else "new_tasks"


def _slowdown(timing: Timing) -> float:
    return timing.after - timing.before


def _judged_outcome(each: Execution | TaskPoint | None) -> str:
    """The outcome of a judged task; one whose rerun never happened has failed; empty if left out or cut off."""
    if each is None or not each.judged:
        return ""
    return "passed" if each.outcome == "passed" else "failed"


def _change(each: Execution, then: Mapping[str, Execution], before: _Points) -> TaskChange:
    """How a task ended now and before; if the old run left it out, its last outcome before that run counts."""
    earlier = (_judged_outcome(point) for point in reversed(before.get(each.nodeid, ())))
    known = _judged_outcome(then.get(each.nodeid)) or next(filter(None, earlier), "new")
    code, message = (each.record.code, each.record.message) if each.record else (None, "")
    return TaskChange(
        nodeid=each.nodeid,
        task_id=each.task_id,
        outcome=each.outcome,
        before=known,
        code=code,
        message=message or each.reason,
    )


def _timings(then: Mapping[str, Execution], now: Mapping[str, Execution], before: _Points) -> Iterator[Timing]:
    """The changed durations of tasks that passed in both runs: a failure takes as long as its patience."""
    for nodeid, each in now.items():
        old = then.get(nodeid)
        if old is None or not (old.outcome == each.outcome == "passed"):
            continue
        found = usual([point.seconds for point in before.get(nodeid, ()) if point.outcome == "passed"])
        was, is_now = old.seconds, each.seconds
        if found is None:
            changed = abs(is_now - was) > max(1.0, 0.25 * was)
        else:  # the old duration was usual on that side, and the new one is not
            changed = is_now > found.high >= was or is_now < found.low <= was
        if changed:
            yield Timing(nodeid=nodeid, task_id=each.task_id, before=was, after=is_now, usual=found)


def _flakier(executions: Iterable[Execution], before: _Points, after: _Points) -> Iterator[Flakiness]:
    for each in executions:
        old, new = rate_of(before.get(each.nodeid, ())), rate_of(after.get(each.nodeid, ()))
        if old and new and new.share > old.share and new.failed < new.executions:
            significant = new.interval[0] > old.interval[1]
            yield Flakiness(nodeid=each.nodeid, task_id=each.task_id, before=old, after=new, significant=significant)
