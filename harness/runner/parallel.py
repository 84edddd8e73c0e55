"""Several tasks at once: begun by a schedule before their turn, taken in pytest's order, their output kept."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness.model.outcome import reached
from harness.model.plan import Plan
from harness.model.record import TaskResult
from harness.resilience import SystemClock
from harness.runner.capacity import Gauge
from harness.runner.harness import AskHere, RepairHere, SyncHarness
from harness.runner.loop import Caller, LoopFuture
from harness.runner.schedule import Job, Schedule
from harness.spec.problems import SpecError


class Output:
    """Of one task, in order. Nothing of it is lost or told twice, whichever thread speaks as the turn comes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[Callable[[], None]] = []
        self._turn = False

    def keep(self, say: Callable[[], None]) -> bool:
        """Keep something to be said later; False when the turn has come, and it can be said at once."""
        with self._lock:
            if not self._turn:
                self._kept.append(say)
            return not self._turn

    @property
    def early(self) -> bool:
        """Whether what is said now is kept."""
        return not self._turn

    def turn(self) -> Exception | None:
        """Say what was kept, on this thread; from now on nothing is kept.

        The first error of what could not be said: it is none of the task's, and the rest is said all the same.
        """
        first: Exception | None = None
        while True:
            with self._lock:  # not held while it is said: who speaks may hold a lock of `logging`
                kept, self._kept = self._kept, []
                self._turn = not kept
            if self._turn:
                return first
            for say in kept:
                error = _said(say)
                first = first or error


def _said(say: Callable[[], None]) -> Exception | None:
    """The edge to foreign code: a stream or a handler may raise anything."""
    try:
        say()
    except Exception as error:  # noqa: BLE001
        return error
    return None


_OUTPUT: ContextVar[Output | None] = ContextVar("taskspec_output", default=None)


@contextmanager
def kept_in(output: Output) -> Iterator[None]:
    """What is said in here, and by what is started in here, is this task's."""
    token = _OUTPUT.set(output)
    try:
        yield
    finally:
        _OUTPUT.reset(token)


def early() -> bool:
    """Whether what is said now comes from a task whose turn has not come."""
    output = _OUTPUT.get()
    return output is not None and output.early


def keep(say: Callable[[], None]) -> bool:
    """Keep something to be said when the turn of the task has come that speaks; False: nobody waits for a turn."""
    output = _OUTPUT.get()
    return output is not None and output.keep(say)


# Tasks that run while pytest still waits for an earlier one: begun by a schedule, taken in pytest's order.

Make = Callable[[], Plan]
"""Makes a task's plan; raises SpecError. Called on a thread of its own."""
_LOOK_UP = 0.5
"""Seconds after which the waiting thread looks up, so that Ctrl-C is seen on every platform."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A task that has run, and what it ran by."""

    plan: Plan
    result: TaskResult


@dataclass(frozen=True, slots=True)
class BrokenTask:
    """A task that has begun, and could not be finished: what was raised is not about the task."""

    name: str
    error: Exception


@dataclass(frozen=True, slots=True)
class ThreadInteraction:
    """Whom a task may turn to, on the thread of pytest."""

    ask: AskHere | None = None
    repair: RepairHere | None = None


NO_THREAD_INTERACTION = ThreadInteraction()


@dataclass(frozen=True, slots=True)
class StartedTask:
    """A task that runs, or has run, and that nobody has asked for."""

    pending: LoopFuture[Ran]
    output: Output


class ParallelRunner:
    """Several tasks of one harness at once. `add`, `run`, `skip` and `stop` belong to the thread of pytest."""

    def __init__(
        self,
        harness: SyncHarness,
        limit: int,
        people: ThreadInteraction = NO_THREAD_INTERACTION,
        hear: Callable[[Any], None] = lambda _event: None,
        window: int = 256,
    ) -> None:
        """`limit`: so many tasks at once. `window`: so many may have begun before pytest has asked for them.

        Of the `people` a task asks, the answer comes when its turn has come. `hear` is told of each event in the
        moment, on the loop's thread.
        """
        self._harness = harness
        self._people = people
        self._hear = hear
        self._limit = limit
        self._schedule = Schedule.of((), window, harness.slots)
        self._jobs: dict[str, tuple[Job, Make]] = {}
        self._begun: dict[str, StartedTask] = {}
        self._change = threading.Condition()
        self._gauge: LoopFuture[None] | None = None

    def _take(self, limit: int) -> None:
        with self._change:
            self._limit = limit
            self._fill()

    def measure(self, processes: int) -> None:
        """From now on the limit is what the machine can take; so many `processes` share it."""
        gauge = Gauge(SystemClock(), lambda: self.running, self._take, processes)
        self._gauge = self._harness.begin(lambda _caller: gauge.watch())

    @property
    def running(self) -> int:
        return len(self._schedule.running)

    def add(self, jobs: Iterable[tuple[Job, Make]]) -> None:
        """More tasks, behind those that are there."""
        with self._change:
            for job, make in jobs:
                if job.name not in self._jobs:
                    self._jobs[job.name] = job, make
                    self._schedule.add(job)

    def run(self, name: str, sink: Callable[[Any], None]) -> Ran:
        """What became of the task whose turn has come; its events reach `sink`. Raises what its plan or Ctrl-C does.

        What it has printed before is printed first; what of it cannot be printed takes no outcome from anybody.
        """
        with self._change:
            if name not in self._begun and name not in self._schedule.waiting:  # once more: `--reruns`
                self._schedule.again(self._jobs[name][0])
            self._schedule.call(name)
            self._fill()
            while name not in self._begun:
                self._change.wait(_LOOK_UP)
            begun = self._begun[name]
        _tell(begun.output.turn())  # Ctrl-C in the middle of it: `stop` ends the task, with its report
        with self._change:
            del self._begun[name]
        return begun.pending.finish(sink)

    def skip(self, name: str) -> None:
        """Its turn has come, and it does not run: what it depends on did not pass."""
        with self._change:
            self._schedule.call(name)
            self._schedule.end(name, False)
            self._fill()

    def stop(self) -> list[Ran | BrokenTask]:
        """The run is over: nothing more begins, what runs is cancelled. All that ran and that nobody has asked for."""
        with self._change:
            self._schedule.close()
            left, self._begun = {name: begun.pending for name, begun in self._begun.items()}, {}
        if self._gauge is not None:
            self._gauge.cancel()
        for pending in left.values():
            pending.cancel()
        return [each for name, pending in left.items() for each in _end(name, pending)]

    def _fill(self) -> None:
        """Begin what may; the lock is held."""
        for name in self._schedule.startable(self._limit):
            self._schedule.begin(name)
            output = Output()
            self._begun[name] = StartedTask(self._harness.begin(partial(self._aside, name, output)), output)
        self._change.notify_all()

    async def _aside(self, name: str, output: Output, caller: Caller) -> Ran:
        with kept_in(output):
            return await self._play(name, caller)

    async def _play(self, name: str, caller: Caller) -> Ran:
        """On the loop. The plan is made beside it, so that making it holds up nobody."""
        well = False
        try:
            plan = await asyncio.to_thread(self._jobs[name][1])
            result = await self._harness.play(plan, caller.heard_by(self._hear), self._people.ask, self._people.repair)
            well = reached(plan.spec, result)
            if result.failure is not None and result.failure.code == "INTERRUPTED":
                self._schedule.close()  # Ctrl-C: nothing takes its place
            return Ran(plan, result)
        finally:
            with self._change:
                self._schedule.end(name, well)
                self._fill()


def _tell(error: Exception | None) -> None:
    """On stderr, which may be what does not work; as ASCII, since the error may be about what cannot be encoded."""
    if error is not None:
        with suppress(Exception):
            said = f"{type(error).__name__}: {error}".encode("ascii", "backslashreplace").decode()
            sys.stderr.write(f"taskspec: some output of this task is missing here: {said}\n")


def _end(name: str, pending: LoopFuture[Ran]) -> list[Ran | BrokenTask]:
    """What became of it; nothing when it had not begun, or its plan could not be made."""
    try:
        return [pending.finish(lambda _event: None)]
    except (SpecError, CancelledError):
        return []
    except Exception as error:  # noqa: BLE001 - it must not take what else ran along, nor the end of the session
        return [BrokenTask(name, error)]
