"""When a call fails, try others in its place, then the last good answer, then a degraded one; at the end notify."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

from harness.resilience.breaker import Call, Policy, describe_error
from harness.resilience.clock import Clock, SystemClock
from harness.resilience.events import Degraded, Emit, FellBack, discard

T = TypeVar("T")


class Secondary(Struct, Generic[T], frozen=True):
    """A call that may replace the primary one."""

    name: str
    call: Call[T]
    condition: Callable[[Exception], bool] = lambda _: True
    """Whether it is tried, given the error of the primary call."""


def fallback(
    *secondaries: Secondary[T],
    primary: str = "primary",
    max_age: float | None = None,
    degraded: Callable[[], T] | None = None,
    notify: Callable[[Exception], None] | None = None,
    name: str = "call",
    clock: Clock | None = None,
    emit: Emit = discard,
) -> Policy[T]:
    """The chain: primary, secondaries in order, cached, degraded, notify.

    `max_age`: the policy keeps the last good answer of the primary call or a secondary, and gives it while it is at
    most so many seconds old; None keeps nothing. One policy is thus for calls that ask for the same thing. `degraded`
    makes the answer of last resort. If it fails too, or there is none, `notify` gets the primary call's error, and that
    error is raised; its notes say what else was tried. `notify` must not block. Only an Exception leads to the next
    stage: cancellation passes at every stage.
    """
    cached: _Cached[T] | None = None if max_age is None else _Cached(max_age, clock or SystemClock())
    return _Chain(secondaries, primary, cached, degraded, notify, name, emit).around


class _Cached(Generic[T]):
    """The last good answer, for a limited time."""

    def __init__(self, max_age: float, clock: Clock) -> None:
        self._max_age = max_age
        self._clock = clock
        self._last: tuple[T, float] | None = None

    def keep(self, answer: T) -> None:
        self._last = (answer, self._clock.now())

    def fresh(self) -> tuple[T] | None:
        """The answer, alone in a tuple since it may itself be None; None: there is none, or it is too old."""
        if self._last is None or self._clock.now() - self._last[1] > self._max_age:
            return None
        return (self._last[0],)


class _Chain(Struct, Generic[T], frozen=True):
    """The arguments of `fallback`, and the last good answer."""

    secondaries: tuple[Secondary[T], ...]
    primary: str
    cached: _Cached[T] | None
    degraded: Callable[[], T] | None
    notify: Callable[[Exception], None] | None
    name: str
    emit: Emit

    def around(self, call: Call[T]) -> Call[T]:
        async def covered() -> T:
            try:
                return self._cache_answer(await call())
            except Exception as error:  # noqa: BLE001 - the conditions say which errors lead on
                original = error
            return await self._after(original)

        return covered

    def _cache_answer(self, answer: T) -> T:
        if self.cached:
            self.cached.keep(answer)
        return answer

    async def _after(self, original: Exception) -> T:
        source, error = self.primary, original
        for stage in self.secondaries:
            if not stage.condition(original):
                continue
            self._tell(source, stage.name, error)
            try:
                return self._cache_answer(await stage.call())
            except Exception as failed:  # noqa: BLE001 - the next one is tried, and it is noted
                _note(original, stage.name, failed)
                source, error = stage.name, failed
        fresh = self.cached and self.cached.fresh()
        if fresh:
            self._tell(source, "cached", error)
            return fresh[0]
        return self._at_last(original)

    def _at_last(self, original: Exception) -> T:
        try:
            if self.degraded:
                answer = self.degraded()
                self.emit(Degraded(self.name, describe_error(original)))
                return answer
        except Exception as failed:  # noqa: BLE001 - the original error is the one that counts
            _note(original, "degraded", failed)
        try:
            if self.notify:
                self.notify(original)
        except Exception as failed:  # noqa: BLE001 - as before
            _note(original, "notify", failed)
        raise original

    def _tell(self, source: str, to: str, error: Exception) -> None:
        self.emit(FellBack(self.name, source, to, describe_error(error)))


def _note(original: Exception, stage: str, failed: Exception) -> None:
    original.add_note(f"{stage} failed too: {describe_error(failed)}")
