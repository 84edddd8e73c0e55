"""`on_precondition_fail`: what to do when a precondition does not hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from harness.recovery.declaration import ChosenBy
from harness.recovery.remedy import GiveUp, Random, Remedy, RepairPrecondition, Rule, Skip, shorthand

if TYPE_CHECKING:
    from harness.recovery.failure import Failure


class AbortWithWarning(Rule):
    """Do not start the task, and report the precondition that does not hold."""

    strategy: Literal["abort_with_warning"] = "abort_with_warning"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield GiveUp("aborted")


class AttemptRepair(Rule):
    """Set up the precondition and check it again; if it still does not hold, do not start the task."""

    strategy: Literal["attempt_repair"] = "attempt_repair"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield RepairPrecondition()
        yield GiveUp("aborted")


class SkipTask(Rule):
    """Skip the task with the reason, and write no report."""

    strategy: Literal["skip_task"] = "skip_task"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield Skip("task")


OnPreconditionFail = Annotated[
    AbortWithWarning | AttemptRepair | SkipTask, ChosenBy("strategy"), shorthand("abort_with_warning")
]
