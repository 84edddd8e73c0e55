"""Wait for a call in stages: an event is emitted at each, the caller is released at the last, and the work goes on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise, zip_longest
from typing import Any, Final, Generic, TypeVar

from harness.resilience.breaker import Call, Policy
from harness.resilience.events import Emit, Escalated, discard
from harness.resilience.verdict import KINDS, RetryVerdict

# Answers of work that continues after its caller stopped waiting.

T = TypeVar("T")

KEPT: Final = 30.0
"""Seconds for which an answer is kept after the work has ended."""
PATIENCE: Final = 30.0
"""Seconds after which work that still runs has the status `timeout`."""
TOMBSTONES: Final = 1000
"""How many expired answers are remembered as expired; older ones are unknown."""


class WorkStatus(StrEnum):
    """The status of a piece of work."""

    PENDING = "pending"
    COMPLETE = "complete"
    ERROR = "error"
    """It failed or was cancelled."""
    TIMEOUT = "timeout"
    """It still runs, longer than it should."""
    EXPIRED = "expired"
    """It ended, and the time for which its answer is kept is over."""


HINTS: Final[Mapping[WorkStatus, str]] = {
    WorkStatus.PENDING: "Still processing: wait and ask again.",
    WorkStatus.TIMEOUT: "The work still goes on: give it more time, or break it into smaller parts.",
    WorkStatus.EXPIRED: "The answer is lost: do the work again.",
}
"""What to do for each status."""


class Expired(LookupError):  # noqa: N818 - a state of an answer
    """The time for which the answer is kept is over."""


class LateAnswer(Generic[T]):
    """The answer of work that may still run: look at its `status`, take its `result()`, or await it."""

    def __init__(self, id: str, work: asyncio.Future[T], patience: float) -> None:  # noqa: A002 - the usual word
        self.id = id
        """The correlation id."""
        self._work: asyncio.Future[T] | None = work
        self._loop = work.get_loop()
        self._late = self._loop.time() + patience

    @property
    def status(self) -> WorkStatus:
        """May be asked from any thread."""
        work = self._work
        if work is None:
            return WorkStatus.EXPIRED
        if not work.done():
            return WorkStatus.PENDING if self._loop.time() < self._late else WorkStatus.TIMEOUT
        return WorkStatus.ERROR if work.cancelled() or work.exception() else WorkStatus.COMPLETE

    @property
    def hint(self) -> str:
        return HINTS.get(self.status, "")

    def result(self) -> T:
        """Return the answer or raise the work's error, Expired, or asyncio.InvalidStateError while the work runs."""
        return self._kept_work().result()

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for the answer. Cancelling the waiting task leaves the work alone."""
        return self._wait().__await__()

    async def _wait(self) -> T:
        work = self._kept_work()
        await asyncio.wait({work})
        return work.result()

    def _kept_work(self) -> asyncio.Future[T]:
        if self._work is None:
            raise Expired(f"{self.id}: the answer was not fetched in time. {HINTS[WorkStatus.EXPIRED]}")
        return self._work

    def cancel(self) -> None:
        """Cancel the work if it still runs."""
        if self._work is not None:
            self._work.cancel()

    def expire(self) -> None:
        """Drop the answer; only the fact that there was one stays."""
        self._work = None


class PendingWork:
    """Pieces of work under way, by correlation id. It belongs to the loop it is used in, and has its time."""

    def __init__(self, kept: float = KEPT, patience: float = PATIENCE) -> None:
        """`kept`: seconds for which a finished answer is kept. `patience`: seconds until work counts as late."""
        self._keep_for = kept
        self._patience = patience
        self._answers: dict[str, LateAnswer[Any]] = {}
        self._expired: deque[str] = deque()
        self._running: set[asyncio.Future[Any]] = set()
        self._begun = 0

    def start(self, call: Call[T], name: str = "call") -> LateAnswer[T]:
        """Start the work and return at once."""
        return self.take(asyncio.ensure_future(call()), name, self._patience)

    def take(self, work: asyncio.Future[T], name: str = "call", patience: float = 0.0) -> LateAnswer[T]:
        """Take over work that runs already; it counts as late after `patience` seconds."""
        self._begun += 1
        answer = LateAnswer(f"{name}-{self._begun}", work, patience)
        self._answers[answer.id] = answer
        self._running.add(work)

        def ended(done: asyncio.Future[T]) -> None:
            self._running.discard(done)
            _retrieve_error(done)
            done.get_loop().call_later(self._keep_for, self._reap, answer)

        work.add_done_callback(ended)
        return answer

    def find(self, id: str) -> LateAnswer[Any] | None:  # noqa: A002 - the usual word
        """Return the answer with that id, also if expired; None if there never was one or it is forgotten."""
        return self._answers.get(id)

    async def close(self) -> None:
        """Cancel all work that still runs, and wait for its end."""
        running = set(self._running)
        for work in running:
            work.cancel()
        if running:
            await asyncio.wait(running)

    def _reap(self, answer: LateAnswer[Any]) -> None:
        answer.expire()
        self._expired.append(answer.id)
        if len(self._expired) > TOMBSTONES:
            del self._answers[self._expired.popleft()]


def _retrieve_error(work: asyncio.Future[Any]) -> None:
    """Retrieve the error of the work, so that asyncio does not log an error that nobody retrieved."""
    if not work.cancelled():
        work.exception()


STAGES: Final = (2.0, 5.0, 30.0)
"""The stages, in seconds since the call began."""


class StillRunning(TimeoutError, Generic[T]):  # noqa: N818 - it names what the work does
    """The caller waits no longer, but the work goes on; its result will be in `answer`."""

    def __init__(self, operation: str, waited: float, answer: LateAnswer[T]) -> None:
        super().__init__(operation, waited, answer.id)
        self.operation = operation
        self.waited = waited
        """Seconds that the caller waited."""
        self.answer = answer

    def __str__(self) -> str:
        return f"{self.operation} has not answered in {self.waited:g} s; it goes on as {self.answer.id}"

    @property
    def verdict(self) -> RetryVerdict:
        """The error is not retried: a retry would do the same work twice at once."""
        return KINDS["task timeout"].verdict(str(self))


def escalate(
    stages: Sequence[float] = STAGES, *, name: str = "call", emit: Emit = discard, pending: PendingWork | None = None
) -> Policy[T]:
    """Wait for the call until the last of the `stages` (rising, in seconds since it began), with an event at each.

    Then StillRunning is raised while the work goes on in a task of its own. Its answer is in the error, and under its
    correlation id in `pending`, for 30 s after it ended; `PendingWork.close` cancels work that never ends. A caller
    that is cancelled while it waits cancels the work too, since nobody would have its answer; after StillRunning the
    caller no longer affects it. Raises ValueError for stages that do not rise.
    """
    limits = tuple(float(stage) for stage in stages)
    if not limits or not limits[0] > 0 or any(not first < second for first, second in pairwise(limits)):
        raise ValueError(f"stages of {name}: expected rising seconds, above 0; found {tuple(stages)}")
    store = pending if pending is not None else PendingWork()

    def around(call: Call[T]) -> Call[T]:
        async def escalated() -> T:
            work = _RunningWork(call)
            try:
                await asyncio.sleep(0)  # work that does not wait has ended by now, and needs no timer
                if work.task.done() or await _in_stages(work, limits, name, emit):
                    return work.task.result()
            except BaseException:
                await work.abandon()
                raise
            raise StillRunning(name, limits[-1], store.take(work.task, name))

        return escalated

    return around


async def _in_stages(work: _RunningWork[Any], limits: tuple[float, ...], name: str, emit: Emit) -> bool:
    """Wait stage by stage, and emit an event at each; return whether the work ended before the last of the limits."""
    waited = 0.0
    for limit, following in zip_longest(limits, limits[1:]):
        await work.ended_within(limit - waited)
        if work.task.done():
            return True
        waited = limit
        emit(Escalated(name, waited, following))
    return False


class _RunningWork(Generic[T]):
    """A call in a task of its own, which wakes the waiting caller.

    `asyncio.wait` does the same at nearly twice the price: it learns of the end one turn of the loop later.
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
        """Return when the work has ended or the time is over."""
        self._waiter = self._loop.create_future()
        timer = self._loop.call_later(seconds, self._wake)
        try:
            await self._waiter
        finally:
            timer.cancel()

    async def abandon(self) -> None:
        """Cancel the work and wait for its end; if it has already ended, retrieve its error."""
        self.task.add_done_callback(_retrieve_error)
        self.task.cancel()
        await asyncio.wait({self.task})
