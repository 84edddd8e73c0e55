"""`on_timeout` (specs/003 4.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from harness.failure import Failure
from harness.recovery.remedy import NOTHING, GiveUp, Remedy
from harness.recovery.rule import Planned, Random, Rule, shorthand


class CaptureStateAndAbort(Rule):
    """Take the full evidence and end the task as failed."""

    strategy: Literal["capture_state_and_abort"] = "capture_state_and_abort"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield GiveUp("failed")


class AbortOnTimeout(Rule):
    """End the task at once, without evidence."""

    strategy: Literal["abort"] = "abort"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield GiveUp("aborted", NOTHING)


class RetryFromCheckpoint(Planned):
    """Go back to the nearest checkpoint with stretched limits."""

    strategy: Literal["retry_from_checkpoint"] = "retry_from_checkpoint"


class SkipStep(Planned):
    """Go on with the next step."""

    strategy: Literal["skip_step"] = "skip_step"


OnTimeout = Annotated[
    CaptureStateAndAbort | AbortOnTimeout | RetryFromCheckpoint | SkipStep,
    Field(discriminator="strategy"),
    shorthand("capture_state_and_abort"),
]
