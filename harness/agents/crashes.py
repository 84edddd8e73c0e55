"""An agent that has raised an error is asked again. Only a run with such an agent imports this."""

from __future__ import annotations

from typing import TypeVar

from harness.recovery.failure import Failed
from harness.resilience.breaker import Policy, describe_error
from harness.resilience.events import Emit, GaveUp, ResilienceEvent
from harness.resilience.retry import DelayTable, retry
from harness.resilience.verdict import KINDS, RetryVerdict

T = TypeVar("T")


def _has_crashed(error: BaseException) -> bool:
    """Return whether an agent has raised an error, and was not merely late or refused."""
    return isinstance(error, Failed) and error.failure.code == "AGENT_FAILED"


def again_after_crash(name: str, retries: int, emit: Emit) -> Policy[T]:
    """Ask an agent of this name again, at once, after it has raised an error."""

    def emit_retry(event: ResilienceEvent) -> None:
        if not isinstance(event, GaveUp):  # the engine tells when an agent is given up
            emit(event)

    return retry(DelayTable((0.0,), retries), classify=_verdict, emit=emit_retry, name=f"agent {name}")


def _verdict(error: BaseException) -> RetryVerdict:
    kind = KINDS["agent crashed" if _has_crashed(error) else "unknown"]
    return kind.verdict(error.failure.message if isinstance(error, Failed) else describe_error(error))
