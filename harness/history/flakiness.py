"""How often the executions of a task fail, and which tasks do now the one and now the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from pydantic import BaseModel, ConfigDict, Field

from harness.history.record import TaskPoint
from harness.model.statistics import wilson

_FLIPS = 3
"""Passed, failed, passed is a defect that was mended; once more is chance."""


class Rate(BaseModel):
    """A share of executions, reruns included."""

    model_config = ConfigDict(frozen=True)

    failed: int
    executions: int
    interval: tuple[float, float] = Field(description="95 % (Wilson) of the share that fails.")

    @property
    def share(self) -> float:
        return self.failed / self.executions


class Flaky(BaseModel):
    """A task that both passes and fails."""

    model_config = ConfigDict(frozen=True)

    nodeid: str
    runs: int = Field(description="In which it passed or failed.")
    rate: Rate
    reruns_that_passed: int = Field(description="Runs in which it failed, and passed when it was run again.")
    flips: int = Field(description="How often one run of it ended otherwise than the one before.")
    last: str


def rate_of(points: Sequence[TaskPoint]) -> Rate | None:
    """Of all executions in these runs; None without any. Skipped ones, and those cut off from outside, say nothing."""
    judged = [point for point in points if point.judged]
    executions = sum(point.executions for point in judged)
    failed = executions - sum(point.outcome == "passed" for point in judged)
    interval = wilson(failed, executions)
    if interval is None:
        return None
    return Rate(failed=failed, executions=executions, interval=(round(interval[0], 4), round(interval[1], 4)))


def flaky_tasks(points: Mapping[str, Sequence[TaskPoint]]) -> tuple[Flaky, ...]:
    """Those that passed after a rerun, or changed at least three times from run to run; the worst first."""
    found = filter(None, (_flaky(nodeid, each) for nodeid, each in points.items()))
    return tuple(sorted(found, key=lambda each: (-each.rate.interval[0], -each.flips, each.nodeid)))


def passed_last(points: Mapping[str, Sequence[TaskPoint]]) -> frozenset[str]:
    """Node ids of those that passed when something was said of them last."""
    judged = {nodeid: [point for point in found if point.judged] for nodeid, found in points.items()}
    return frozenset(nodeid for nodeid, found in judged.items() if found and found[-1].outcome == "passed")


def _flaky(nodeid: str, points: Sequence[TaskPoint]) -> Flaky | None:
    judged = [point for point in points if point.judged]
    rate = rate_of(judged)
    flips = sum((one.outcome == "passed") != (two.outcome == "passed") for one, two in pairwise(judged))
    rescued = sum(point.outcome == "passed" and point.executions > 1 for point in judged)
    if rate is None or not (rescued or flips >= _FLIPS):
        return None
    return Flaky(
        nodeid=nodeid, runs=len(judged), rate=rate, reruns_that_passed=rescued, flips=flips, last=judged[-1].outcome
    )
