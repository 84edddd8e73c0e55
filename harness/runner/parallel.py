"""Runs several tasks at once: a schedule begins them early, pytest takes them in order, their output is deferred."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

from msgspec import Struct

from harness.model.outcome import ended_as_declared
from harness.model.plan import Plan
from harness.model.record import TaskResult
from harness.resilience import SystemClock
from harness.runner.capacity import AdaptiveCapacity
from harness.runner.loop import Caller, LoopFuture
from harness.runner.schedule import Job, Schedule
from harness.runner.sync import AskHere, RepairHere, SyncHarness
from harness.spec.problems import SpecError


class Output:
    """The output of one task, in order, neither lost nor printed twice, whichever thread prints at its turn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[Callable[[], None]] = []
        self._turn = False

    def keep(self, say: Callable[[], None]) -> bool:
        """Defer an output; returns False if the task's turn has come and it can be printed at once."""
        with self._lock:
            if not self._turn:
                self._kept.append(say)
            return not self._turn

    @property
    def is_deferring(self) -> bool:
        """Whether output is deferred now."""
        return not self._turn

    def print_now(self) -> Exception | None:
        """Print the deferred output on this thread; from now on nothing is deferred.

        Returns the first error of printing: it is not the task's, and the rest is printed all the same.
        """
        first: Exception | None = None
        while True:
            with self._lock:  # not under the lock: the callback may hold a lock of `logging`
                kept, self._kept = self._kept, []
                self._turn = not kept
            if self._turn:
                return first
            for say in kept:
                try:
                    say()
                except Exception as error:  # noqa: BLE001 - foreign code: a stream or a handler may raise anything
                    first = first or error


_OUTPUT: ContextVar[Output | None] = ContextVar("taskspec_output", default=None)


@contextmanager
def kept_in(output: Output) -> Iterator[None]:
    """Attribute the output inside, and of everything started inside, to this task."""
    token = _OUTPUT.set(output)
    try:
        yield
    finally:
        _OUTPUT.reset(token)


def is_deferred() -> bool:
    """Return whether the present output comes from a task whose turn has not come."""
    output = _OUTPUT.get()
    return output is not None and output.is_deferring


def keep(say: Callable[[], None]) -> bool:
    """Defer an output until the turn of the task that prints it; returns False if no turn is awaited."""
    output = _OUTPUT.get()
    return output is not None and output.keep(say)


# Tasks that run while pytest still waits for an earlier one: a schedule starts them, pytest takes them in its order.

Make = Callable[[], Plan]
"""Makes a task's plan; raises SpecError. It is called on a thread of its own."""
_POLL_SECONDS = 0.5
"""Seconds between two wake-ups of the waiting thread, so that Ctrl-C is noticed on every platform."""


class Ran(Struct, frozen=True):
    """A task that has run, with its plan."""

    plan: Plan
    result: TaskResult


class BrokenTask(Struct, frozen=True):
    """A task that has begun and could not be finished, by an error that is not about the task."""

    name: str
    error: Exception


class ThreadInteraction(Struct, frozen=True):
    """The hooks of a task to a person and the project, on pytest's thread."""

    ask: AskHere | None = None
    repair: RepairHere | None = None


_NO_THREAD_INTERACTION = ThreadInteraction()


class StartedTask(Struct, frozen=True):
    """A task that runs, or has run, before its turn."""

    pending: LoopFuture[Ran]
    output: Output


class ParallelRunner:
    """Runs several tasks of one harness at once. `add`, `run`, `skip` and `stop` belong to pytest's thread."""

    def __init__(
        self,
        harness: SyncHarness,
        limit: int,
        interaction: ThreadInteraction = _NO_THREAD_INTERACTION,
        hear: Callable[[Any], None] = lambda _event: None,
        window: int = 256,
    ) -> None:
        """`limit`: the number of tasks at once. `window`: the number that may begin before their turn.

        A task's question to `people` is answered when its turn has come. `hear` receives each event at once, on the
        loop's thread.
        """
        self._harness = harness
        self._interaction = interaction
        self._hear = hear
        self._limit = limit
        self._schedule = Schedule.of((), window, harness.slots)
        self._jobs: dict[str, tuple[Job, Make]] = {}
        self._begun: dict[str, StartedTask] = {}
        self._change = threading.Condition()
        self._capacity: LoopFuture[None] | None = None

    def _take(self, limit: int) -> None:
        with self._change:
            self._limit = limit
            self._fill()

    def measure(self, processes: int) -> None:
        """Set the limit by measurements of the machine from now on; so many `processes` share it."""
        capacity = AdaptiveCapacity(SystemClock(), lambda: self.running, self._take, processes)
        self._capacity = self._harness.begin(lambda _caller: capacity.watch())

    @property
    def running(self) -> int:
        return len(self._schedule.running)

    def add(self, jobs: Iterable[tuple[Job, Make]]) -> None:
        """Add tasks after those that wait already."""
        with self._change:
            for job, make in jobs:
                if job.name not in self._jobs:
                    self._jobs[job.name] = job, make
                    self._schedule.add(job)

    def run(self, name: str, sink: Callable[[Any], None], idle: Callable[[], None] | None = None) -> Ran:
        """Return the task whose turn has come; its events reach `sink`. Raises the errors of its plan, and Ctrl-C.

        `idle` is called several times a second until its end. Its earlier output is printed first; an error of
        printing does not change the result.
        """
        with self._change:
            if name not in self._begun and name not in self._schedule.waiting:  # it runs again: `--reruns`
                self._schedule.requeue(self._jobs[name][0])
            self._schedule.call(name)
            self._fill()
            while name not in self._begun:
                self._change.wait(_POLL_SECONDS)
            begun = self._begun[name]
        _tell(begun.output.print_now())  # Ctrl-C in the middle of the task: `stop` ends it, with its report
        with self._change:
            del self._begun[name]
        return begun.pending.finish(sink, idle)

    def skip(self, name: str) -> None:
        """Skip the task whose turn has come, since a dependency did not pass."""
        with self._change:
            self._schedule.call(name)
            self._schedule.end(name, False)
            self._fill()

    def stop(self) -> list[Ran | BrokenTask]:
        """Begin no more tasks, and cancel those that run. Returns all that ran before their turn."""
        with self._change:
            self._schedule.close()
            left, self._begun = {name: begun.pending for name, begun in self._begun.items()}, {}
        if self._capacity is not None:
            self._capacity.cancel()
        for pending in left.values():
            pending.cancel()
        return [each for name, pending in left.items() for each in _end(name, pending)]

    def _fill(self) -> None:
        """Begin the tasks that may; the lock is held."""
        for name in self._schedule.startable(self._limit):
            self._schedule.begin(name)
            output = Output()
            self._begun[name] = StartedTask(self._harness.begin(partial(self._play, name, output)), output)
        self._change.notify_all()

    async def _play(self, name: str, output: Output, caller: Caller) -> Ran:
        """Run the task on the loop. The plan is made on another thread, so that it does not block the loop."""
        well, way = False, self._interaction
        try:
            with kept_in(output):
                plan = await asyncio.to_thread(self._jobs[name][1])
                result = await self._harness.play(plan, caller.heard_by(self._hear), way.ask, way.repair)
            well = ended_as_declared(plan.spec, result)
            if result.failure is not None and result.failure.code == "INTERRUPTED":
                self._schedule.close()  # after Ctrl-C no further task starts
            return Ran(plan, result)
        finally:
            with self._change:
                self._schedule.end(name, well)
                self._fill()


def _tell(error: Exception | None) -> None:
    """Print an error on stderr, which may itself be broken; in ASCII, since the error may be about the encoding."""
    if error is not None:
        with suppress(Exception):
            said = f"{type(error).__name__}: {error}".encode("ascii", "backslashreplace").decode()
            sys.stderr.write(f"taskspec: some output of this task is missing here: {said}\n")


def _end(name: str, pending: LoopFuture[Ran]) -> list[Ran | BrokenTask]:
    """The result of a task; none if it had not begun, or its plan could not be made."""
    try:
        return [pending.finish(lambda _event: None)]
    except (SpecError, CancelledError):
        return []
    except Exception as error:  # noqa: BLE001 - it must not take what else ran along, nor the end of the session
        return [BrokenTask(name, error)]
