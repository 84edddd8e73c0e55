"""`on_timeout`: what to do when a step or the task takes too long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from harness.recovery.catalog import ErrorType
from harness.recovery.declaration import ChosenBy
from harness.recovery.remedy import GiveUp, Random, Remedy, Rewind, Rule, Skip, shorthand

if TYPE_CHECKING:
    from harness.recovery.failure import Failure

STRETCH = 1.5
"""The factor for both limits when the task goes back to a checkpoint."""


class CaptureStateAndAbort(Rule):
    """Take the full evidence and end the task as failed."""

    strategy: Literal["capture_state_and_abort"] = "capture_state_and_abort"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield GiveUp("failed")


class AbortOnTimeout(Rule):
    """End the task at once; nothing is tried again."""

    strategy: Literal["abort"] = "abort"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield GiveUp("aborted")


class RetryFromCheckpoint(Rule):
    """Go back to the nearest checkpoint, once in a task, with limits 1.5 times as long; then end the task as failed."""

    strategy: Literal["retry_from_checkpoint"] = "retry_from_checkpoint"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield Rewind(stretch=STRETCH)
        yield GiveUp("failed")


class SkipStep(Rule):
    """Go on with the next step. A timeout of the whole task still ends it."""

    strategy: Literal["skip_step"] = "skip_step"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        if failure.type != ErrorType.TIMEOUT_TASK:
            yield Skip("step")
        yield GiveUp("failed")


OnTimeout = Annotated[
    CaptureStateAndAbort | AbortOnTimeout | RetryFromCheckpoint | SkipStep,
    ChosenBy("strategy"),
    shorthand("capture_state_and_abort"),
]
