"""`on_precondition_fail`, `on_state_inconsistency` (specs/003 4.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from harness.failure import Failure
from harness.recovery.remedy import GiveUp, Remedy
from harness.recovery.rule import Planned, Random, Rule, shorthand


class AbortWithWarning(Rule):
    """Do not start the task; report what does not hold."""

    strategy: Literal["abort_with_warning"] = "abort_with_warning"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield GiveUp("aborted")


class AttemptRepair(Planned):
    """Set the precondition up, then look again."""

    strategy: Literal["attempt_repair"] = "attempt_repair"


class SkipTask(Planned):
    """Skip the task."""

    strategy: Literal["skip_task"] = "skip_task"


class TrustEnvironment(Planned):
    """Memory takes the environment's value."""

    strategy: Literal["trust_env"] = "trust_env"


class TrustMemory(Planned):
    """The environment takes memory's value."""

    strategy: Literal["trust_memory"] = "trust_memory"


class ManualResolution(Planned):
    """A person decides."""

    strategy: Literal["manual_resolution"] = "manual_resolution"


class AbortOnInconsistency(Planned):
    """End the task."""

    strategy: Literal["abort"] = "abort"


OnPreconditionFail = Annotated[
    AbortWithWarning | AttemptRepair | SkipTask, Field(discriminator="strategy"), shorthand("abort_with_warning")
]
OnStateInconsistency = Annotated[
    TrustEnvironment | TrustMemory | ManualResolution | AbortOnInconsistency,
    Field(discriminator="strategy"),
    shorthand("trust_env"),
]
