"""A circuit breaker: after failures in a row it refuses calls for a while, then lets one through as a probe.

It does no I/O and reads no clock of its own. It is not thread-safe: use it only on the thread of the loop whose calls
it counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from enum import StrEnum
from functools import reduce
from typing import Final, TypeVar

from msgspec import Struct

from harness.resilience.clock import Clock, Deadline
from harness.resilience.events import CircuitChanged, Emit, discard

# The values of a circuit breaker: its state, its settings, its saved form, and its refusal.


class CircuitState(StrEnum):
    """The state of a circuit."""

    CLOSED = "closed"
    """Calls go through."""
    OPEN = "open"
    """Calls are refused."""
    HALF_OPEN = "half_open"
    """One call at a time goes through, as a probe."""


class BreakerSettings(Struct, frozen=True):
    """When a circuit opens and closes (docs/design/events-and-resilience.md). ValueError for a bad number."""

    failure_threshold: int = 5
    """The number of failures in a row that open the circuit."""
    success_threshold: int = 2
    """The number of successful probes that close the circuit."""
    reset_seconds: float = 30.0
    """Seconds for which an open circuit refuses calls before it admits a probe."""
    volume_threshold: int = 0
    """The number of calls since the circuit last closed below which it does not open."""
    probe_seconds: float = 60.0
    """Seconds after which a probe that has not ended loses its place: the next caller is admitted, wherever it is."""

    def __post_init__(self) -> None:
        least = {"failure_threshold": 1, "success_threshold": 1, "reset_seconds": 0, "volume_threshold": 0}
        for name, bound in least.items():
            if not getattr(self, name) >= bound:
                raise ValueError(f"breaker setting {name}: expected at least {bound}, found {getattr(self, name)!r}")
        if not self.probe_seconds > 0:
            raise ValueError(f"breaker setting probe_seconds: expected more than 0, found {self.probe_seconds!r}")


class Transition(Struct, frozen=True):
    """A circuit went from one state to another, at `at` (monotonic seconds)."""

    at: float
    before: CircuitState
    after: CircuitState
    reason: str


class CircuitSnapshot(Struct, frozen=True):
    """What is saved of a circuit. Times are Unix times in seconds."""

    state: CircuitState
    failures: int
    successes: int
    """The number of successful probes since the circuit became half-open."""
    calls: int
    """The number of calls that ended since the circuit last closed."""
    error: str
    """The text of the last failure."""
    opened_at: float | None
    """None when closed."""
    probe_until: float | None
    """The time until which the current probe keeps its place; None: no probe is under way."""
    generation: int
    reason: str
    """The reason of the last transition."""
    saved_at: float
    failed_at: float | None = None
    """The time of the last failure; None: nothing has failed."""


class CircuitOpen(Exception):  # noqa: N818 - it names the state that refuses, as the code CIRCUIT_OPEN does
    """A call was refused, and nothing was sent."""

    def __init__(self, name: str, reopens_in: float, error: str, failures: int, probing: bool = False) -> None:
        super().__init__(name, reopens_in, error, failures, probing)
        self.name = name
        self.reopens_in = reopens_in
        """Seconds until a call is admitted; during another caller's probe, the longest time that the probe may take."""
        self.error = error
        """The text of the last failure that the circuit counted."""
        self.failures = failures
        self.probing = probing
        """Another caller's probe is under way."""

    def __str__(self) -> str:
        last = f", the last: {self.error}" if self.error else ""
        then = "another call is trying it now" if self.probing else f"it is tried again in {self.reopens_in:.1f} s"
        count = "1 failure" if self.failures == 1 else f"{self.failures} failures in a row"
        return f"circuit {self.name} is open after {count}{last}; {then}"


# A call and the policies around it. Their order matters: `compose` takes the outermost first.

T = TypeVar("T")
Call = Callable[[], Awaitable[T]]
"""Something to be done, perhaps more than once: a function without arguments that returns an awaitable."""
Policy = Callable[[Call[T]], Call[T]]
"""A function that puts something around a call; the result is a call again. Cancellation passes through untouched."""


def compose(*policies: Policy[T]) -> Policy[T]:
    """Combine several policies into one; the first is the outermost.

    The recommended order is fallback, retry, guard, limit: each retry asks the breaker and has a limit of its own, and
    the fallback is used when the retries are used up or the circuit is open.
    """

    def composed(call: Call[T]) -> Call[T]:
        return reduce(lambda inner, policy: policy(inner), reversed(policies), call)

    return composed


# The breaker as a policy around a call: it admits it, refuses it at once, or waits if the deadline allows.

_Counts = Callable[[BaseException], bool]
"""Whether an error counts as a failure of this circuit. It is never asked about a cancellation."""

_GLANCE = 0.1
"""Seconds between two looks at a circuit that another caller is probing: the probe may end at any moment."""
_LOOK = 1.0
"""Seconds between two looks at an open circuit: it may be reset by hand."""
_TICK = 0.001
"""The shortest wait in seconds: a shorter one is below the resolution of the clock and would never end."""


class WaitPermit(Struct, frozen=True):
    """Permission to wait for an open circuit, provided that the wait would end before the deadline."""

    clock: Clock
    deadline: Deadline


def describe_error(error: BaseException) -> str:
    """The type of an error and the first line of its text, for messages: at most 200 characters."""
    line = next(iter(str(error).splitlines()), "")[:200]
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


async def admission(breaker: Breaker, wait: WaitPermit | None = None) -> Ticket:
    """Return a ticket for one call; raises CircuitOpen when none is given.

    Without `wait` this is decided at once. With it, CircuitOpen is raised as soon as it is known that the circuit stays
    open longer than the deadline allows. The end of another caller's probe is not known: this waits for it until the
    deadline.
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
    counts: _Counts,
    wait: WaitPermit | None = None,
    describe: Callable[[BaseException], str] = describe_error,
) -> Policy[T]:
    """Ask the breaker before each call, and tell it how the call ended.

    Only errors for which `counts` is true are failures of the circuit. Every other end except success (an error that is
    not the circuit's, a cancellation, an interrupt) is neutral: it neither adds to the failures in a row nor ends them,
    and a probe that ends so leaves the circuit half-open with its place free. Errors pass through untouched. `describe`
    makes the text of an error that `CircuitOpen` and the store keep: redact there.
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


_DEFAULTS: Final = BreakerSettings()
_SPENT: Final = -1


class Signal(StrEnum):
    """What moves a circuit to another state; the value is the reason that its event carries."""

    TRIPPED = "consecutive_failures_{failures}"
    RESTED = "reset_timeout_elapsed"
    PROVED = "request_success"
    RESET = "manual_reset"


TRANSITIONS: Mapping[CircuitState, Mapping[Signal, CircuitState]] = {
    CircuitState.CLOSED: {Signal.TRIPPED: CircuitState.OPEN},
    CircuitState.OPEN: {Signal.RESTED: CircuitState.HALF_OPEN, Signal.RESET: CircuitState.CLOSED},
    CircuitState.HALF_OPEN: {
        Signal.PROVED: CircuitState.CLOSED,
        Signal.TRIPPED: CircuitState.OPEN,
        Signal.RESET: CircuitState.CLOSED,
    },
}
"""All transitions: state -> signal -> next state. A signal that a state does not list cannot occur in it."""


class Ticket:
    """Permission for one call. Its first outcome counts, unless the circuit has changed state since it was issued."""

    __slots__ = ("_breaker", "_generation")

    def __init__(self, breaker: Breaker, generation: int) -> None:
        self._breaker = breaker
        self._generation = generation

    def succeeded(self) -> None:
        """The call worked."""
        if self._generation != _SPENT:
            generation, self._generation = self._generation, _SPENT
            self._breaker.succeeded(generation)

    def failed(self, error: str) -> None:
        """The call failed, and the circuit is to blame; `CircuitOpen` will show `error`."""
        if self._generation != _SPENT:
            generation, self._generation = self._generation, _SPENT
            self._breaker.failed(generation, error)

    def released(self) -> None:
        """The call says nothing about the circuit: it was cancelled, or failed for a reason of its own.

        This is neither success nor failure; a probe's place is free again at once. It has no effect after another
        outcome.
        """
        if self._generation != _SPENT:
            generation, self._generation = self._generation, _SPENT
            self._breaker.released(generation)


class Breaker:
    """One circuit: `admit` a call, and report to its ticket how the call ended.

    A generation begins with each transition, each probe and each reset: the outcome of a call of an older generation is
    dropped. A probe that has not ended after `probe_seconds` loses its place to the next caller.
    """

    def __init__(
        self, name: str, settings: BreakerSettings = _DEFAULTS, *, now: Callable[[], float], emit: Emit = discard
    ) -> None:
        """`now` returns monotonic seconds."""
        self.name = name
        self.settings = settings
        self.failures = 0
        """Failures since the last success in the closed state; failures while half-open are added until it closes."""
        self.error = ""
        """The text of the last failure."""
        self.failed_at: float | None = None
        """The time of the last failure, in monotonic seconds; None: nothing has failed."""
        self._now, self._emit = now, emit
        self._state = CircuitState.CLOSED
        self.successes = 0
        """Successful probes since the circuit became half-open."""
        self._calls = 0
        self._opened_at = 0.0
        self._probe_until: float | None = None
        self._generation = 0
        self._history: deque[Transition] = deque(maxlen=20)

    @property
    def state(self) -> CircuitState:
        """The state as a caller would find it now: an open circuit whose reset time is over reads half_open.

        Reading the state changes nothing: the event of the transition is emitted when the first caller is admitted.
        """
        rested = self._state is CircuitState.OPEN and not self.rests_for()
        return CircuitState.HALF_OPEN if rested else self._state

    @property
    def history(self) -> tuple[Transition, ...]:
        """The last 20 transitions, the oldest first."""
        return tuple(self._history)

    def rests_for(self) -> float:
        """Seconds until a caller is admitted, 0 if one is admitted now; in a probe, the longest time it may take."""
        if self._state is CircuitState.OPEN:
            return max(0.0, self._opened_at + self.settings.reset_seconds - self._now())
        return 0.0 if self._probe_until is None else max(0.0, self._probe_until - self._now())

    def admit(self) -> Ticket:
        """Return a ticket for one call, at once; raises CircuitOpen. A half-open circuit admits one call at a time."""
        if self._state is CircuitState.CLOSED:
            return Ticket(self, self._generation)
        rest = self.rests_for()
        if rest > 0:
            raise self._refusal(rest)
        self._probe_until = self._now() + self.settings.probe_seconds
        self._generation += 1
        ticket = Ticket(self, self._generation)
        if self._state is CircuitState.OPEN:
            self._move(Signal.RESTED)
        return ticket

    def reset(self) -> None:
        """Close the circuit and forget its counts and all calls under way. A closed circuit makes no transition."""
        self._generation += 1
        if self._state is CircuitState.CLOSED:
            self._forget()
        else:
            self._move(Signal.RESET)

    def succeeded(self, generation: int) -> None:
        """A call of this generation worked (reported by its ticket)."""
        if generation != self._generation:
            return
        self._calls += 1
        if self._state is CircuitState.CLOSED:
            self.failures = 0
            return
        self._probe_until = None
        self.successes += 1
        if self.successes >= self.settings.success_threshold:
            self._generation += 1
            self._move(Signal.PROVED)

    def failed(self, generation: int, error: str) -> None:
        """A call of this generation failed (reported by its ticket)."""
        if generation != self._generation:
            return
        self._calls += 1
        self.failures += 1
        self.error, self.failed_at = error, self._now()
        enough = self.failures >= self.settings.failure_threshold and self._calls >= self.settings.volume_threshold
        if enough or self._state is CircuitState.HALF_OPEN:
            self._probe_until = None
            self._generation += 1
            self._opened_at = self._now()
            self._move(Signal.TRIPPED)

    def released(self, generation: int) -> None:
        """A call of this generation says nothing about the circuit (reported by its ticket)."""
        if generation == self._generation:
            self._probe_until = None

    def snapshot(self, wall: datetime) -> CircuitSnapshot:
        """Return all that `restore` needs. `wall` is the time of day now, as monotonic times mean nothing elsewhere."""
        offset = wall.timestamp() - self._now()
        return CircuitSnapshot(
            state=self._state,
            failures=self.failures,
            successes=self.successes,
            calls=self._calls,
            error=self.error,
            opened_at=offset + self._opened_at if self._state is not CircuitState.CLOSED else None,
            probe_until=offset + self._probe_until if self._probe_until is not None else None,
            generation=self._generation,
            reason=self._history[-1].reason if self._history else "",
            saved_at=wall.timestamp(),
            failed_at=None if self.failed_at is None else offset + self.failed_at,
        )

    def restore(self, saved: CircuitSnapshot, wall: datetime) -> None:
        """Take over a saved state from any process; an open circuit whose reset time is over is ready for a probe.

        No event is emitted: whoever made the transition has emitted it. A time in the future, which comes from a clock
        that was set back, counts as now.
        """
        if saved.state is not self._state:
            self._history.append(Transition(self._now(), self._state, saved.state, saved.reason))
        offset = self._now() - wall.timestamp()
        self._state, self.failures, self.error = saved.state, saved.failures, saved.error
        # Successful calls are not saved one by one: of two counts since the same transition, the higher is true.
        here = self._calls if saved.generation == self._generation else 0
        self.successes, self._calls, self._generation = saved.successes, max(here, saved.calls), saved.generation
        self._opened_at = min(self._now(), offset + (saved.opened_at or 0.0))
        self.failed_at = None if saved.failed_at is None else min(self._now(), offset + saved.failed_at)
        latest = self._now() + self.settings.probe_seconds
        self._probe_until = None if saved.probe_until is None else min(latest, offset + saved.probe_until)

    def _refusal(self, rest: float) -> CircuitOpen:
        return CircuitOpen(self.name, rest, self.error, self.failures, self._state is CircuitState.HALF_OPEN)

    def _move(self, signal: Signal) -> None:
        """Change the state. The event is emitted last, so that listeners find the circuit in its new state."""
        before, self._state = self._state, TRANSITIONS[self._state][signal]
        reason = signal.value.format(failures=self.failures)
        self._history.append(Transition(self._now(), before, self._state, reason))
        self.successes = 0
        if self._state is CircuitState.CLOSED:
            self._forget()
        self._emit(CircuitChanged(self.name, before.value, self._state.value, reason))

    def _forget(self) -> None:
        self.failures = self._calls = 0
        self.error = ""
        self._probe_until = None
