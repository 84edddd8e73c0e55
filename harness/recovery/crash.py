"""`on_browser_crash`: what to do when a page, the browser or its driver is lost (docs/decisions/006)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from harness.recovery.catalog import Scope
from harness.recovery.declaration import ChosenBy
from harness.recovery.remedy import GiveUp, Random, Remedy, Retry, Rewind, Rule, shorthand

if TYPE_CHECKING:
    from harness.recovery.failure import Failure

PERMANENT = 3
"""The number of crashes of one task within `WITHIN` seconds that is permanent."""
WITHIN = 300.0
"""Seconds for which a crash counts."""


class RestartFromCheckpoint(Rule):
    """Free or replace the page, or start a new browser, and continue from the nearest checkpoint.

    A page that hangs is freed first, and the step done again. Where there is no checkpoint, a crashed page is opened
    again in the same context, and a browser that is gone ends the task.
    """

    strategy: Literal["restart_from_checkpoint"] = "restart_from_checkpoint"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield from _escalation(failure, to_start=False)


class RestartTask(Rule):
    """Do the same as `restart_from_checkpoint`, but without a checkpoint begin the task again with its first step."""

    strategy: Literal["restart_task"] = "restart_task"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield from _escalation(failure, to_start=True)


def _escalation(failure: Failure, *, to_start: bool) -> Iterator[Remedy]:
    """Yield the remedies from the cheapest upwards (docs/decisions/006).

    A task whose browser was ended for another task's sake, or while other tasks used it, may always begin again.
    """
    if failure.code == "PAGE_CLOSED":  # the site closed it, and would do so again
        yield GiveUp("failed")
    to_start = to_start or failure.circumstances.others_may_be_to_blame
    if failure.code == "PAGE_UNRESPONSIVE":
        yield Retry()
    yield Rewind(restart=failure.scope is not Scope.PAGE, to_start=to_start)
    if failure.code == "PAGE_CRASHED":
        yield Retry()
    yield GiveUp("failed")


class AbortOnCrash(Rule):
    """End the task with the evidence that was kept."""

    strategy: Literal["abort"] = "abort"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield GiveUp("aborted")


OnBrowserCrash = Annotated[
    RestartFromCheckpoint | RestartTask | AbortOnCrash,
    ChosenBy("strategy"),
    shorthand("restart_from_checkpoint"),
]
