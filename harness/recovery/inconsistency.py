"""`on_state_inconsistency`: what to do when memory and environment differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from harness.recovery.declaration import ChosenBy
from harness.recovery.remedy import GiveUp, Random, Remedy, Rule, Trust, shorthand

if TYPE_CHECKING:
    from harness.recovery.failure import Failure


class TrustEnvironment(Rule):
    """Memory takes the environment's value."""

    strategy: Literal["trust_env"] = "trust_env"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield Trust("environment")
        yield GiveUp("failed")


class TrustMemory(Rule):
    """The environment takes memory's value, written through its channel."""

    strategy: Literal["trust_memory"] = "trust_memory"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield Trust("memory")
        yield GiveUp("failed")


class ManualResolution(Rule):
    """Ask a person at the terminal; without a terminal the task fails and names both values."""

    strategy: Literal["manual_resolution"] = "manual_resolution"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield Trust("person")
        yield GiveUp("failed")


class AbortOnInconsistency(Rule):
    """End the task."""

    strategy: Literal["abort"] = "abort"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield GiveUp("aborted")


OnStateInconsistency = Annotated[
    TrustEnvironment | TrustMemory | ManualResolution | AbortOnInconsistency,
    ChosenBy("strategy"),
    shorthand("trust_env"),
]
