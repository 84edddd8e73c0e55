"""The stream itself: takes events from any thread, stamps and redacts them, and gives each to every sink."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from harness.model.events import Event
from harness.model.plan import Plan
from harness.resilience import Clock
from harness.resilience.events import ServiceChanged
from harness.resilience.thresholds import ThresholdCrossed
from harness.telemetry.record import Record, TelemetryEvent, redacted
from harness.telemetry.translation import Translator


class Redactor(Protocol):
    """Takes secrets out of texts (`harness.reporting.redaction`)."""

    def text(self, text: str) -> str: ...

    def plus(self, secrets: Iterable[str]) -> Redactor: ...


Sink = Callable[[Record], None]
"""Takes a record. What it raises is said once, and harms nobody."""
Listener = Callable[[Event, Redactor], None]
"""Takes what the engine says as it is, for what a record does not hold: real times, a span's begin and end."""


@dataclass(slots=True)
class _Running:
    """A task, as what was begun in it knows it; nothing when the task is over. The watch over a service lives on."""

    plan: Plan | None
    wake: Callable[[Any], None] | None


_TASK: ContextVar[_Running | None] = ContextVar("taskspec_task", default=None)


@contextmanager
def in_task(plan: Plan, wake: Callable[[Any], None] | None = None) -> Iterator[None]:
    """What policies emit in here, and in what is started here, belongs to this task until its end.

    `wake` is called with each such record, for a thread that waits: it is to call `deliver`.
    """
    running = _Running(plan, wake)
    token = _TASK.set(running)
    try:
        yield
    finally:
        _TASK.reset(token)
        running.plan = running.wake = None


@contextmanager
def of_all_tasks() -> Iterator[None]:
    """What is emitted in here belongs to no task, whichever of them has begun what goes on."""
    running = _TASK.get() or _Running(None, None)
    token = _TASK.set(_Running(None, running.wake))
    try:
        yield
    finally:
        _TASK.reset(token)


class Telemetry:
    """One stream for each process. Sinks are called in the moment, one at a time, and must not block."""

    def __init__(
        self,
        run: str,
        clock: Clock,
        redactor: Redactor,
        *,
        worker: str = "",
        steps: bool = False,
        sinks: Sequence[Sink] = (),
        listeners: Sequence[Listener] = (),
        later: Sequence[Sink] = (),
    ) -> None:
        """`steps`: tell of each step. `later`: sinks that belong to one thread, which calls `deliver`."""
        self.run = run
        self.worker = worker
        self.problems: dict[str, str] = {}
        """Sink -> what went wrong with it first."""
        self._clock = clock
        self._redactor = redactor
        self._translator = Translator(steps=steps)
        self._sinks = list(sinks)
        self._later = tuple(later)
        self._listeners = tuple(listeners)
        self._waiting: deque[Record] = deque()
        self.lock = threading.RLock()
        """Held while sinks are told; by whoever looks into one from another thread, too."""

    def add(self, sink: Sink) -> None:
        """One more, from now on; one that itself emits into this stream, for instance."""
        self._sinks.append(sink)

    def emit(self, event: TelemetryEvent) -> None:
        """An event of resilience (`resilience.events.Emit`); from any thread.

        Services and thresholds are of all tasks, whichever of them started the service.
        """
        running = _TASK.get() or _Running(None, None)
        shared, wake = isinstance(event, ServiceChanged | ThresholdCrossed), running.wake
        record = self._tell(event, None if shared else running.plan, None)
        if wake is not None and not isinstance(event, ThresholdCrossed):
            wake(record)

    def on(self, event: Event) -> None:
        """What the engine says; from any thread, in the order of each task."""
        with self.lock:
            self._redactor = self._redactor.plus(event.plan.all_secrets)
            for step, told in self._translator.translate(event):
                self._tell(told, event.plan, step)
            for listener in self._listeners:
                self._guarded(listener, event, self._redactor)

    def deliver(self) -> None:
        """Give what has come since to the sinks of this thread."""
        while self._waiting:
            record = self._waiting.popleft()
            for sink in self._later:
                self._guarded(sink, record)

    def _tell(self, event: TelemetryEvent, plan: Plan | None, step: int | None) -> Record:
        with self.lock:
            record = Record(
                at=self._clock.wall(),
                event=redacted(event, self._redactor.text),
                run=self.run,
                worker=self.worker,
                task_id=plan.task_id if plan else "",
                step=step,
                faulted=plan is not None and _no_sign(plan),
            )
            if self._later:
                self._waiting.append(record)
            for sink in self._sinks:
                self._guarded(sink, record)
            return record

    def _guarded(self, sink: Callable[..., None], *args: object) -> None:
        try:
            sink(*args)
        except Exception as error:  # noqa: BLE001 - a disk, a plugin, an exporter must not fail a task: the one place
            self.problems.setdefault(name_of(sink), f"{type(error).__name__}: {error}")


def _no_sign(plan: Plan) -> bool:
    """Whether what goes wrong in a task was ordered, or declared by its file."""
    expect = plan.spec.expect
    return bool(plan.faults) or (expect is not None and expect.final_state in ("failed", "aborted"))


def name_of(sink: Callable[..., None]) -> str:
    """What people call a sink: its own `name`, or that of its class or function."""
    return str(getattr(sink, "name", None) or getattr(sink, "__name__", type(sink).__name__))
