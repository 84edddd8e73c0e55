"""The breaker as a policy around a call: admitted, or refused at once, or after a wait that the deadline allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from harness.resilience.breaker import Breaker, CircuitOpen, Ticket
from harness.resilience.call import Call, Policy
from harness.resilience.clock import Clock
from harness.resilience.deadline import Deadline

T = TypeVar("T")
Counts = Callable[[BaseException], bool]
"""Whether an error is this circuit's; it is never asked about a cancellation."""

_GLANCE = 0.1
"""Seconds between two looks at a circuit that somebody else is trying: its probe may end at any moment."""
_LOOK = 1.0
"""The same for one that rests: somebody may reset it."""
_TICK = 0.001
"""The shortest wait: below the grain of the clock it would never end."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Leave to wait for an open circuit: as long as it would be over before the deadline."""

    clock: Clock
    deadline: Deadline


def brief(error: BaseException) -> str:
    """The kind of error and the first line of what it says, for messages: at most 200 characters of it."""
    line = next(iter(str(error).splitlines()), "")[:200]
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


async def admission(breaker: Breaker, wait: Wait | None = None) -> Ticket:
    """The right to make a call; raises CircuitOpen.

    Without `wait` at once. With it, as soon as it is known that the circuit rests longer than the deadline allows;
    for a probe of somebody else (its end is not known) it waits until the deadline.
    """
    while True:
        try:
            return breaker.admit()
        except CircuitOpen as refusal:
            needed = min(refusal.reopens_in, _GLANCE) if refusal.probing else refusal.reopens_in
            if wait is None or not wait.deadline.allows(needed, wait.clock.now()):
                raise
            pause = max(_TICK, min(needed, _LOOK))
        await wait.clock.sleep(pause)


def guard(
    breaker: Breaker,
    *,
    counts: Counts,
    wait: Wait | None = None,
    describe: Callable[[BaseException], str] = brief,
) -> Policy[T]:
    """Ask the breaker before each call, and tell it how the call ended.

    Only errors for which `counts` says yes are failures of the circuit. Every other end but success (an error that
    is not the circuit's, a cancellation, an interrupt) counts as neither: it neither adds to the failures in a row
    nor ends them, and a probe that ends so leaves the circuit half-open with its place free. Errors pass through
    untouched. `describe` puts an error into the words that `CircuitOpen` and the store keep: redact there.
    """

    def policy(call: Call[T]) -> Call[T]:
        async def guarded() -> T:
            ticket = breaker.admit() if wait is None else await admission(breaker, wait)
            try:
                answer = await call()
                ticket.succeeded()
                return answer
            except Exception as error:
                if counts(error):
                    ticket.failed(describe(error))
                raise
            finally:
                ticket.released()

        return guarded

    return policy
