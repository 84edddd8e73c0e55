"""Waiting in stages, told at each, given up at the last; the work goes on, its answer is kept (specs/000, layer 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise, zip_longest
from typing import Any, Final, Generic, TypeVar

from harness.resilience.call import Call, Policy
from harness.resilience.events import Emit, Escalated, nobody
from harness.resilience.pending import Answer, Pending, seen
from harness.resilience.verdict import KINDS, Verdict

T = TypeVar("T")

STAGES: Final = (2.0, 5.0, 30.0)
"""Seconds since the call began (specs/000)."""


class StillRunning(TimeoutError, Generic[T]):  # noqa: N818 - it names what the work does
    """Nobody waits any longer, but the work goes on: `answer` will have what becomes of it."""

    def __init__(self, operation: str, waited: float, answer: Answer[T]) -> None:
        super().__init__(operation, waited, answer.id)
        self.operation = operation
        self.waited = waited
        """Seconds."""
        self.answer = answer

    def __str__(self) -> str:
        return f"{self.operation} has not answered in {self.waited:g} s; it goes on as {self.answer.id}"

    @property
    def verdict(self) -> Verdict:
        """Not to be retried: that would do the same work twice at once."""
        return KINDS["task timeout"].verdict(str(self))


def escalate(
    stages: Sequence[float] = STAGES,
    *,
    name: str = "call",
    emit: Emit = nobody,
    pending: Pending | None = None,
) -> Policy[T]:
    """Wait for the call until the last of the `stages` (seconds since it began, rising), with an event at each.

    Then StillRunning is raised while the work goes on in a task of its own. Its answer is in the error, and under its
    correlation id in `pending`, for 30 s after it ended; `Pending.close` ends what never does. Who is cancelled while
    waiting cancels the work too, since nobody would have its answer; after StillRunning nothing of the caller reaches
    it. Errors: ValueError for stages that do not rise.
    """
    limits = tuple(float(stage) for stage in stages)
    if not limits or not limits[0] > 0 or any(not first < second for first, second in pairwise(limits)):
        raise ValueError(f"stages of {name}: expected rising seconds, above 0; found {tuple(stages)}")
    store = pending if pending is not None else Pending()

    def around(call: Call[T]) -> Call[T]:
        async def escalated() -> T:
            work = _Work(call)
            try:
                await asyncio.sleep(0)  # what need not wait has ended by now, and costs no timer
                if work.task.done() or await _in_stages(work, limits, name, emit):
                    return work.task.result()
            except BaseException:
                await work.abandon()
                raise
            raise StillRunning(name, limits[-1], store.take(work.task, name))

        return escalated

    return around


async def _in_stages(work: _Work[Any], limits: tuple[float, ...], name: str, emit: Emit) -> bool:
    """Whether it ended before the last of the limits."""
    waited = 0.0
    for limit, following in zip_longest(limits, limits[1:]):
        await work.ended_within(limit - waited)
        if work.task.done():
            return True
        waited = limit
        emit(Escalated(name, waited, following))
    return False


class _Work(Generic[T]):
    """A call in a task of its own, which wakes the one who waits for it.

    `asyncio.wait` does the same at nearly twice the price: it hears of the end one turn of the loop later.
    """

    __slots__ = ("_loop", "_waiter", "task")

    def __init__(self, call: Call[T]) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self.task = self._loop.create_task(self._run(call))

    async def _run(self, call: Call[T]) -> T:
        try:
            return await call()
        finally:
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def ended_within(self, seconds: float) -> None:
        """Come back when it has ended, or the time is over."""
        self._waiter = self._loop.create_future()
        timer = self._loop.call_later(seconds, self._wake)
        try:
            await self._waiter
        finally:
            timer.cancel()

    async def abandon(self) -> None:
        """Cancel it, and wait for its end; if it has ended, that was seen."""
        self.task.add_done_callback(seen)
        self.task.cancel()
        await asyncio.wait({self.task})
