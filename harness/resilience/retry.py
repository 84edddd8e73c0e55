"""A call that failed is made again: after a schedule, within budgets, as the other side asks."""

from __future__ import annotations

import random as chance
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from tenacity import AsyncRetrying, RetryCallState

from harness.resilience.backoff import Backoff
from harness.resilience.budget import Budget, Stop
from harness.resilience.call import Call, Policy
from harness.resilience.clock import Clock, SystemClock
from harness.resilience.deadline import Deadline
from harness.resilience.events import Emit, GaveUp, Recovered, Retrying, nobody
from harness.resilience.schedule import JITTER, Delays
from harness.resilience.verdict import Category, Classify, Verdict
from harness.resilience.verdict import classify as standard

T = TypeVar("T")

BACKOFF: Final = Backoff(retries=3, initial=1.0, multiplier=2.0, cap=30.0, jitter=JITTER)
"""specs/004 4.2: three retries after 1, 2 and 4 s, 20 % either way."""
MAX_SUGGESTED: Final = 60.0
"""Seconds: the longest wait that the other side may ask for."""


def retry(
    delays: Delays = BACKOFF,
    *,
    classify: Classify = standard,
    clock: Clock | None = None,
    random: Callable[[], float] = chance.random,
    emit: Emit = nobody,
    name: str = "call",
    cap: float | None = None,
    max_suggested: float = MAX_SUGGESTED,
    until: Deadline | None = None,
    enabled: bool = True,
) -> Policy[T]:
    """Make a call again while its errors are worth it; the last error is raised as it is.

    There are at most `delays.retries` retries in all, and for errors of one kind at most as many as their verdict says
    (see `Budget`). The wait is the schedule's next delay, never above `cap` seconds; or, instead, what the other side
    suggests. When that is more than `max_suggested` seconds, the call is given up: asking earlier would only annoy it.
    A wait that would not end before `until` is not started. Nothing but an Exception is caught: cancellation,
    KeyboardInterrupt and SystemExit pass. `enabled=False` (RESILIENCE_ENABLED=false): one call, nothing around it.
    """
    if not enabled:
        return lambda call: call
    terms = _Terms(delays, classify, clock or SystemClock(), random, emit, name, cap, max_suggested, until)

    def around(call: Call[T]) -> Call[T]:
        async def retried() -> T:
            # The first attempt stands outside tenacity: a call that succeeds pays for nothing but this `try`.
            try:
                return await call()
            except Exception as error:  # noqa: BLE001 - what it is worth is the classifier's to say
                first = error
            return await _Trial(terms, call, first).go_on()

        return retried

    return around


@dataclass(frozen=True, slots=True)
class _Terms:
    """What a policy was told; see `retry`."""

    delays: Delays
    classify: Classify
    clock: Clock
    random: Callable[[], float]
    emit: Emit
    name: str
    cap: float | None
    max_suggested: float
    until: Deadline | None

    def budget(self) -> Budget:
        delays = self.delays.delays(self.random)
        return Budget(self.delays.retries, delays, self.max_suggested, self.cap, self.until)


class _Trial(Generic[T]):
    """One call that has failed once: tenacity's loop around the attempts that follow."""

    def __init__(self, terms: _Terms, call: Call[T], first: Exception) -> None:
        self._terms = terms
        self._call = call
        self._failed: Exception | None = first
        self._since = terms.clock.now()
        self._budget = terms.budget()
        self._ended = False
        self._category = Category.UNKNOWN

    async def go_on(self) -> T:
        """The answer of a later attempt; else the error of the last one, after which nothing is waited for."""
        loop = AsyncRetrying(
            retry=lambda state: isinstance(_error(state), Exception),
            wait=self._wait,
            stop=lambda _: self._ended,
            sleep=self._terms.clock.sleep,
            reraise=True,
        )
        answer: T = await loop(self._attempt)
        after = self._terms.clock.now() - self._since
        self._terms.emit(Recovered(self._terms.name, after, self._budget.used + 1, self._category))
        return answer

    async def _attempt(self) -> T:
        """tenacity's first attempt is the one that failed before the loop began."""
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed
        return await self._call()

    def _wait(self, state: RetryCallState) -> float:
        """tenacity asks this after each failure, then `stop`: here it is decided, and told."""
        error = _error(state)
        if error is None:
            raise AssertionError("tenacity asks for a wait only after a failure")
        verdict = self._terms.classify(error)
        self._category = verdict.category
        step = self._budget.after(verdict, self._terms.clock.now())
        if isinstance(step, Stop):
            self._give_up(error, verdict, step)
            return 0.0
        used, allowed = self._budget.used, self._budget.allowed
        self._terms.emit(Retrying(self._terms.name, used, allowed, step, verdict.message, verdict.category))
        return step

    def _give_up(self, error: BaseException, verdict: Verdict, stop: Stop) -> None:
        self._ended = True
        message = verdict.message
        if stop.reason:
            error.add_note(f"not tried again: {stop.reason}")
            message = f"{message}; not tried again: {stop.reason}"
        self._terms.emit(GaveUp(self._terms.name, message, exhausted=verdict.retryable, category=verdict.category))


def _error(state: RetryCallState) -> BaseException | None:
    """What the last attempt raised, if it did."""
    return state.outcome.exception() if state.outcome else None
