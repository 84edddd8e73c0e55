"""`on_browser_crash` (specs/001, DESIGN 4.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from harness.failure import Failure
from harness.recovery.remedy import GiveUp, Remedy, Rewind
from harness.recovery.rule import Random, Rule, shorthand

PERMANENT = 3
"""The third crash of one task ..."""
WITHIN = 300.0
"""... within so many seconds is permanent for it (DESIGN 4.4, 8)."""


class RestartFromCheckpoint(Rule):
    """Start a new browser and go on from the nearest checkpoint, or from the first step where there is none."""

    strategy: Literal["restart_from_checkpoint"] = "restart_from_checkpoint"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield Rewind(restart=True)
        yield GiveUp("failed")


class AbortOnCrash(Rule):
    """End the task, with the evidence that was kept."""

    strategy: Literal["abort"] = "abort"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield GiveUp("aborted")


OnBrowserCrash = Annotated[
    RestartFromCheckpoint | AbortOnCrash, Field(discriminator="strategy"), shorthand("restart_from_checkpoint")
]
