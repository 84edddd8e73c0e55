"""A call that failed is made again: by a schedule, within budgets, and as the server asks."""

from __future__ import annotations

import math
import random as chance
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice, repeat
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct, field
from tenacity import AsyncRetrying, RetryCallState

from harness.resilience.backoff import Backoff
from harness.resilience.breaker import Call, Policy
from harness.resilience.clock import Clock, Deadline, SystemClock
from harness.resilience.events import Emit, GaveUp, Recovered, Retrying, discard
from harness.resilience.verdict import CallErrorCategory, Classify, RetryVerdict
from harness.resilience.verdict import classify as standard

# The decision after a failure: a wait before the next attempt, or the end. `retry` does the waiting.


class StopRetrying(Struct, frozen=True):
    """There is no further attempt."""

    reason: str = ""
    """The reason, if it is neither the error itself nor the number of attempts."""


class RetryBudget(Struct):
    """The retries of one call: a number in total, and for each kind of error at most what its verdict allows.

    A kind is a category and a `max_retries`: name resolution (2) and refused connections are both `network`, and do not
    use up each other's retries.
    """

    total: int
    delays: Iterator[float]
    """The schedule's delays in seconds; each retry takes one, even if the server's suggestion replaces it."""
    max_suggested: float
    cap: float | None = None
    until: Deadline | None = None
    used: int = 0
    allowed: int = 0
    """The number of retries in all that the last verdict allows."""
    _of_kind: Counter[tuple[CallErrorCategory, int | None]] = field(default_factory=Counter)

    def after(self, verdict: RetryVerdict, now: float) -> float | StopRetrying:
        """Use up one attempt; return the seconds to wait before it, or StopRetrying. `now`: monotonic seconds."""
        left, kind = self.total - self.used, (verdict.category, verdict.max_retries)
        if verdict.max_retries is not None:
            left = min(left, verdict.max_retries - self._of_kind[kind])
        if not verdict.retryable or left <= 0:
            return StopRetrying()
        delay = self._delay(verdict)
        if isinstance(delay, StopRetrying):
            return delay
        if self.until and not self.until.allows(delay, now):
            return StopRetrying(f"a wait of {delay:g} s would not end before the deadline")
        self.allowed = self.used + left
        self.used += 1
        self._of_kind[kind] += 1
        return delay

    def _delay(self, verdict: RetryVerdict) -> float | StopRetrying:
        planned, asked = next(self.delays, None), verdict.suggested_delay
        if planned is None:
            return StopRetrying()
        if asked is None:
            return float(planned if self.cap is None else min(planned, self.cap))
        if asked > self.max_suggested:
            return StopRetrying(
                f"the other side asks to wait {asked:g} s, more than the {self.max_suggested:g} s allowed"
            )
        return max(0.0, float(asked))


# The waits before each retry: the named tables, and `Backoff`.

JITTER: Final = 0.2
"""The share by which the delays of the exponential schedule differ either way."""


class Delays(Protocol):
    """A finite series of delays in seconds. `Backoff` is one, and so is `DelayTable`."""

    @property
    def retries(self) -> int:
        """The number of delays, that is of attempts after the first."""

    def delays(self, random: Callable[[], float] = ...) -> Iterator[float]:
        """The delays, one before each retry; `random` yields values in [0, 1), 0.5 means no jitter."""


class DelayTable(Struct, frozen=True):
    """The `values` in order; the last one repeats up to `retries`.

    No delay is longer than the longest value, nor below zero, jitter included. With fewer retries than values only the
    first values are used. Raises ValueError for values that form no schedule.
    """

    values: tuple[float, ...]
    retries: int
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if not self.values or not all(math.isfinite(value) and value >= 0 for value in self.values):
            raise ValueError(f"values: expected one delay or more, in seconds from 0 on; found {self.values}")
        if self.retries < 0:
            raise ValueError(f"retries: expected 0 or more extra attempts; found {self.retries}")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter: expected a share from 0 to 1; found {self.jitter}")

    def delays(self, random: Callable[[], float] = lambda: 0.5) -> Iterator[float]:
        cap = max(self.values)
        for value in islice(chain(self.values, repeat(self.values[-1])), self.retries):
            yield min(max(0.0, value * (1 + self.jitter * (2 * random() - 1))), cap)


SCHEDULES: Final[Mapping[str, tuple[float, ...]]] = {
    "spec-000": (0, 1, 2, 4, 8, 30),
    "reconnect": (1, 2, 5, 10, 30),
    "tool-server": (0.5, 1, 2),
    "connect": (1, 2, 5, 10),
}
"""The values of each schedule, in seconds."""


def schedule(name: str, retries: int | None = None, jitter: float = 0.0) -> DelayTable:
    """Return the schedule of that name; `retries` defaults to the number of its values.

    Raises ValueError, with the known names, for an unknown name.
    """
    values = SCHEDULES.get(name)
    if values is None:
        raise ValueError(f"schedule: expected one of {', '.join(SCHEDULES)}; found {name!r}")
    return DelayTable(values, len(values) if retries is None else retries, jitter)


T = TypeVar("T")

BACKOFF: Final = Backoff(retries=3, initial=1.0, multiplier=2.0, cap=30.0, jitter=JITTER)
"""Three retries after 1, 2 and 4 s, each 20 % longer or shorter."""
_MAX_SUGGESTED: Final = 60.0
"""The longest wait in seconds that the server may ask for."""


def retry(
    delays: Delays = BACKOFF,
    *,
    classify: Classify = standard,
    clock: Clock | None = None,
    random: Callable[[], float] = chance.random,
    emit: Emit = discard,
    name: str = "call",
    cap: float | None = None,
    max_suggested: float = _MAX_SUGGESTED,
    until: Deadline | None = None,
    enabled: bool = True,
) -> Policy[T]:
    """Make a call again while its errors are worth it; the last error is raised unchanged.

    There are at most `delays.retries` retries in all, and for each kind of error at most as many as its verdict allows
    (see `RetryBudget`). The wait is the schedule's next delay, never above `cap` seconds, or instead what the server
    suggests. If that is more than `max_suggested` seconds, the call is given up: an earlier attempt would be refused
    again. A wait that would not end before `until` is not started. Only an Exception is caught: cancellation,
    KeyboardInterrupt and SystemExit pass. With `enabled=False` (RESILIENCE_ENABLED=false) the call is made once, with
    nothing around it.
    """
    if not enabled:
        return lambda call: call
    terms = _Terms(delays, classify, clock or SystemClock(), random, emit, name, cap, max_suggested, until)

    def around(call: Call[T]) -> Call[T]:
        async def retried() -> T:
            # The first attempt is made without tenacity: a call that succeeds costs only this `try`.
            try:
                return await call()
            except Exception as error:  # noqa: BLE001 - what it is worth is the classifier's to say
                first = error
            return await _Trial(terms, call, first).go_on()

        return retried

    return around


class _Terms(Struct, frozen=True):
    """The arguments of `retry`."""

    delays: Delays
    classify: Classify
    clock: Clock
    random: Callable[[], float]
    emit: Emit
    name: str
    cap: float | None
    max_suggested: float
    until: Deadline | None


class _Trial(Generic[T]):
    """A call that has failed once, with tenacity's loop around the attempts that follow."""

    def __init__(self, terms: _Terms, call: Call[T], first: Exception) -> None:
        self._terms = terms
        self._call = call
        self._failed: Exception | None = first
        self._since = terms.clock.now()
        delays = terms.delays.delays(terms.random)
        self._budget = RetryBudget(terms.delays.retries, delays, terms.max_suggested, terms.cap, terms.until)
        self._ended = False
        self._category = CallErrorCategory.UNKNOWN

    async def go_on(self) -> T:
        """Return the answer of a later attempt, or raise the error of the last one, after which there is no wait."""
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
        """One attempt. The first one in tenacity's count is the one that failed before the loop began."""
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed
        return await self._call()

    def _wait(self, state: RetryCallState) -> float:
        """Decide whether and when to retry, and emit the event. tenacity calls this after a failure, before `stop`."""
        error = _error(state)
        if error is None:
            raise AssertionError("tenacity asks for a wait only after a failure")
        verdict = self._terms.classify(error)
        self._category = verdict.category
        step = self._budget.after(verdict, self._terms.clock.now())
        if isinstance(step, StopRetrying):
            self._give_up(error, verdict, step)
            return 0.0
        used, allowed = self._budget.used, self._budget.allowed
        category, code = verdict.category, verdict.code
        self._terms.emit(Retrying(self._terms.name, used, allowed, step, verdict.message, category, code))
        return step

    def _give_up(self, error: BaseException, verdict: RetryVerdict, stop: StopRetrying) -> None:
        self._ended = True
        message = verdict.message
        if stop.reason:
            error.add_note(f"not tried again: {stop.reason}")
            message = f"{message}; not tried again: {stop.reason}"
        category, code = verdict.category, verdict.code
        self._terms.emit(GaveUp(self._terms.name, message, exhausted=verdict.retryable, category=category, code=code))


def _error(state: RetryCallState) -> BaseException | None:
    """The error of the last attempt, if it raised one."""
    return state.outcome.exception() if state.outcome else None
