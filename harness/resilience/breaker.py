"""A circuit breaker: after failures in a row it refuses calls for a while, then lets one through to see.

It does no I/O and reads no clock of its own. It is not thread-safe: use one from one thread, that of the loop whose
calls it counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from harness.resilience.breaker_state import BreakerSettings, CircuitOpen, Snapshot, State, Transition
from harness.resilience.events import CircuitChanged, Emit, nobody

__all__ = [
    "TRANSITIONS",
    "Breaker",
    "BreakerSettings",
    "CircuitOpen",
    "Signal",
    "Snapshot",
    "State",
    "Ticket",
    "Transition",
]

_DEFAULTS: Final = BreakerSettings()
_SPENT: Final = -1


class Signal(StrEnum):
    """What moves a circuit; the value is the reason that its event carries (specs/000, Circuit Breaker Events)."""

    TRIPPED = "consecutive_failures_{failures}"
    RESTED = "reset_timeout_elapsed"
    PROVED = "request_success"
    RESET = "manual_reset"


TRANSITIONS: Mapping[State, Mapping[Signal, State]] = {
    State.CLOSED: {Signal.TRIPPED: State.OPEN},
    State.OPEN: {Signal.RESTED: State.HALF_OPEN, Signal.RESET: State.CLOSED},
    State.HALF_OPEN: {Signal.PROVED: State.CLOSED, Signal.TRIPPED: State.OPEN, Signal.RESET: State.CLOSED},
}
"""The whole machine; a signal that a state does not list cannot come in it."""


class Ticket:
    """The right to make one call. Its first outcome counts, unless the circuit has moved on since it was given."""

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
        """The call failed, and the circuit is to blame; `error` is what `CircuitOpen` will say."""
        if self._generation != _SPENT:
            generation, self._generation = self._generation, _SPENT
            self._breaker.failed(generation, error)

    def released(self) -> None:
        """The call says nothing of the circuit: it was cancelled, or failed for a reason of its own.

        Neither success nor failure; a probe's place is free again at once. No effect after another outcome.
        """
        if self._generation != _SPENT:
            generation, self._generation = self._generation, _SPENT
            self._breaker.released(generation)


class Breaker:
    """One circuit. `admit` a call, and tell its ticket how it ended.

    A generation begins with each transition, each probe and each reset: an outcome of an older one is dropped. A
    probe that has not ended after `probe_seconds` loses its place to the next caller.
    """

    def __init__(
        self,
        name: str,
        settings: BreakerSettings = _DEFAULTS,
        *,
        now: Callable[[], float],
        emit: Emit = nobody,
    ) -> None:
        """`now` answers monotonic seconds."""
        self.name = name
        self.settings = settings
        self.failures = 0
        """Failures since the last success while closed; they go on counting until the circuit closes."""
        self.error = ""
        """The last failure, in words."""
        self._now = now
        self._emit = emit
        self._state = State.CLOSED
        self._successes = 0
        self._calls = 0
        self._opened_at = 0.0
        self._probe_until: float | None = None
        self._generation = 0
        self._history: deque[Transition] = deque(maxlen=20)

    @property
    def state(self) -> State:
        """As a caller would find it now: an open circuit whose rest is over reads half_open.

        Its event comes when the first caller is admitted: nothing happens by looking.
        """
        rested = self._state is State.OPEN and not self.rests_for()
        return State.HALF_OPEN if rested else self._state

    @property
    def history(self) -> tuple[Transition, ...]:
        """The last 20 transitions, the oldest first."""
        return tuple(self._history)

    def rests_for(self) -> float:
        """Seconds until a caller is admitted, 0 when one is now; while a probe is out, the longest it may take."""
        if self._state is State.OPEN:
            return max(0.0, self._opened_at + self.settings.reset_seconds - self._now())
        return 0.0 if self._probe_until is None else max(0.0, self._probe_until - self._now())

    def admit(self) -> Ticket:
        """The right to call, at once; raises CircuitOpen instead. Half-open, one call at a time is admitted."""
        if self._state is State.CLOSED:
            return Ticket(self, self._generation)
        rest = self.rests_for()
        if rest > 0:
            raise self._refusal(rest)
        self._probe_until = self._now() + self.settings.probe_seconds
        self._generation += 1
        ticket = Ticket(self, self._generation)
        if self._state is State.OPEN:
            self._move(Signal.RESTED)
        return ticket

    def reset(self) -> None:
        """Closed, with nothing counted; what is under way counts no more. Not a transition when it was closed."""
        self._generation += 1
        if self._state is State.CLOSED:
            self._forget()
        else:
            self._move(Signal.RESET)

    def succeeded(self, generation: int) -> None:
        """A call of this generation worked (said by its ticket)."""
        if generation != self._generation:
            return
        self._calls += 1
        if self._state is State.CLOSED:
            self.failures = 0
            return
        self._probe_until = None
        self._successes += 1
        if self._successes >= self.settings.success_threshold:
            self._generation += 1
            self._move(Signal.PROVED)

    def failed(self, generation: int, error: str) -> None:
        """A call of this generation failed (said by its ticket)."""
        if generation != self._generation:
            return
        self._calls += 1
        self.failures += 1
        self.error = error
        enough = self.failures >= self.settings.failure_threshold and self._calls >= self.settings.volume_threshold
        if enough or self._state is State.HALF_OPEN:
            self._probe_until = None
            self._generation += 1
            self._opened_at = self._now()
            self._move(Signal.TRIPPED)

    def released(self, generation: int) -> None:
        """A call of this generation says nothing of the circuit (said by its ticket)."""
        if generation == self._generation:
            self._probe_until = None

    def snapshot(self, wall: datetime) -> Snapshot:
        """All that `restore` needs. `wall` is the time of day now; a monotonic time means nothing elsewhere."""
        offset = wall.timestamp() - self._now()
        return Snapshot(
            state=self._state,
            failures=self.failures,
            successes=self._successes,
            calls=self._calls,
            error=self.error,
            opened_at=offset + self._opened_at if self._state is not State.CLOSED else None,
            probe_until=offset + self._probe_until if self._probe_until is not None else None,
            generation=self._generation,
            reason=self._history[-1].reason if self._history else "",
            saved_at=wall.timestamp(),
        )

    def restore(self, saved: Snapshot, wall: datetime) -> None:
        """Be what was saved, here or in another process; one that has rested long enough is ready to probe.

        No event: whoever made the transition has said it. A time that lies in the future, by a clock that was set
        back, counts as now.
        """
        if saved.state is not self._state:
            self._history.append(Transition(self._now(), self._state, saved.state, saved.reason))
        offset = self._now() - wall.timestamp()
        self._state, self.failures, self.error = saved.state, saved.failures, saved.error
        # Calls that worked are not worth saving one by one: of two counts since the same transition the higher is true.
        here = self._calls if saved.generation == self._generation else 0
        self._successes, self._calls, self._generation = saved.successes, max(here, saved.calls), saved.generation
        self._opened_at = min(self._now(), offset + (saved.opened_at or 0.0))
        latest = self._now() + self.settings.probe_seconds
        self._probe_until = None if saved.probe_until is None else min(latest, offset + saved.probe_until)

    def _refusal(self, rest: float) -> CircuitOpen:
        return CircuitOpen(self.name, rest, self.error, self.failures, self._state is State.HALF_OPEN)

    def _move(self, signal: Signal) -> None:
        """Says so last: whoever listens finds the circuit as it is now."""
        before, self._state = self._state, TRANSITIONS[self._state][signal]
        reason = signal.value.format(failures=self.failures)
        self._history.append(Transition(self._now(), before, self._state, reason))
        self._successes = 0
        if self._state is State.CLOSED:
            self._forget()
        self._emit(CircuitChanged(self.name, before.value, self._state.value, reason))

    def _forget(self) -> None:
        self.failures = self._calls = 0
        self.error = ""
        self._probe_until = None
