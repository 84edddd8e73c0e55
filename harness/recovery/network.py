"""`on_network_error`: what to do when a host cannot be reached, breaks off, or answers with an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from harness.recovery.catalog import DEFAULT_RETRIES
from harness.recovery.declaration import ChosenBy
from harness.recovery.remedy import GiveUp, Random, Remedy, Retry, Rule, shorthand
from harness.resilience import Backoff

if TYPE_CHECKING:
    from harness.recovery.failure import Failure

WAITS = Backoff(retries=1000, initial=0.1, multiplier=2.0, cap=2.0)
"""The delays between two checks of an open circuit. These are not retries: nothing is sent. The task's time ends them.
"""


class NetworkRule(Rule):
    """What `retry` and `exponential_backoff` share. Retries are extra attempts after the first."""

    max_retries: int | None = Field(
        None,
        ge=0,
        le=100,
        description=f"Extra attempts. Without it {DEFAULT_RETRIES}, and 2 for a name that does not resolve,"
        " as a number of attempts.",
    )
    retry_delay_ms: int = Field(
        1000, ge=0, le=3_600_000, description="How long to wait before the first retry, in milliseconds."
    )
    backoff_multiplier: float = Field(
        1.0, ge=1, le=100, description="Each delay is this many times the one before, as a factor."
    )
    max_delay_ms: int = Field(30_000, ge=0, le=3_600_000, description="Longest delay, in milliseconds.")
    jitter: float = Field(0.0, ge=0, le=1, description="Random variation of each delay, up or down, as a share.")

    wait_for_circuit: bool | None = Field(
        None,
        description="Whether the task waits until a site that is left alone (`CIRCUIT_OPEN`) may be tried again, if "
        "its time allows. `true`: each time. `false`: never; retries keep their delays and send nothing. "
        "Default: only the first time.",
    )

    def backoff(self, failure: Failure) -> Backoff:
        """The delays for this failure; none if its catalog row says that a retry cannot help."""
        if not failure.retryable:
            return Backoff(retries=0)
        retries = failure.row.max_retries if self.max_retries is None else self.max_retries
        initial, cap = self.retry_delay_ms / 1000, self.max_delay_ms / 1000
        return Backoff(retries, initial, self.backoff_multiplier, max(cap, initial), self.jitter)

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        backoff = WAITS if failure.circumstances.waits else self.backoff(failure)
        yield from map(Retry, backoff.delays(random))
        yield GiveUp("failed")


class FixedRetry(NetworkRule):
    """Try again after a fixed delay; a declared `backoff_multiplier` makes it grow."""

    strategy: Literal["retry"] = "retry"


class ExponentialBackoff(NetworkRule):
    """Try again after delays that grow by a factor, 2 unless declared."""

    strategy: Literal["exponential_backoff"] = "exponential_backoff"
    backoff_multiplier: float = Field(
        2.0, ge=1, le=100, description="Each delay is this many times the one before, as a factor."
    )


class AbortOnNetworkError(Rule):
    """End the task at once; nothing is tried again."""

    strategy: Literal["abort"] = "abort"

    def remedies(self, failure: Failure, random: Random) -> Iterator[Remedy]:
        yield GiveUp("aborted")


_TIMES = re.compile(r"retry_(\d{1,3})_times?")


def _counted(value: Any) -> Any:
    """`"retry_3_times"` is short for `{strategy: retry, max_retries: 3}`."""
    found = _TIMES.fullmatch(value) if isinstance(value, str) else None
    return {"strategy": "retry", "max_retries": int(found[1])} if found else value


OnNetworkError = Annotated[
    FixedRetry | ExponentialBackoff | AbortOnNetworkError,
    ChosenBy("strategy"),
    shorthand("retry"),
    BeforeValidator(_counted),
]
