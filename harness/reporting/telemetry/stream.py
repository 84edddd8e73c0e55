"""The stream: receives events from any thread, stamps and redacts them, and calls the methods of the sinks."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from msgspec import Struct

from harness.model.events import (
    Event,
    ModelAnswered,
    ModelAsked,
    ResilienceActed,
    StepEnded,
    TaskEnded,
    ToolAnswered,
    ToolCalled,
)
from harness.model.plan import Plan
from harness.reporting.telemetry.record import (
    ModelReply,
    ModelRequest,
    Record,
    StepDone,
    TaskDone,
    TelemetryEvent,
    ToolReply,
    ToolRequested,
    redacted,
)
from harness.resilience import Clock
from harness.resilience.events import ServiceChanged, ToolServerChanged
from harness.resilience.thresholds import ThresholdCrossed


class TextRedactor(Protocol):
    """Removes secrets from texts (`harness.reporting.redaction`)."""

    def text(self, text: str) -> str: ...

    def plus(self, secrets: Iterable[str]) -> TextRedactor: ...


class Sink:
    """Receives the events of a run through the methods that it overrides. `sinks.py` lists all sinks.

    The first error of a sink is reported under the sink's name, and has no other effect.
    """

    name: str

    def on_record(self, record: Record) -> None:
        """Take a record at once, on the thread where the event occurred: it must not block."""

    def on_event(self, event: Event, redactor: TextRedactor) -> None:
        """Take an event of the engine at once, for facts that no record has: real times, begin and end of a span."""

    def on_delivery(self, record: Record) -> None:
        """Take a record soon after, on the thread that waits for tasks; it may call hooks or write to the terminal."""

    def on_turn(self, event: Event) -> None:
        """Take an event of the task whose turn it is, on the thread that waits for the task."""

    def close(self) -> None:
        """End the sink: the run is over."""


class _Running(Struct):
    """The task that work belongs to; None once the task has ended, since the watch over a service goes on."""

    plan: Plan | None
    wake: Callable[[Any], None] | None


_TASK: ContextVar[_Running | None] = ContextVar("taskspec_task", default=None)


@contextmanager
def in_task(plan: Plan, wake: Callable[[Any], None] | None = None) -> Iterator[None]:
    """Attribute all events that are emitted within, or by work that is started within, to this task until its end.

    `wake` is called with each such record, for a thread that waits and should then call `deliver`.
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
    """Attribute no event that is emitted within to a task, whichever task has begun the work."""
    running = _TASK.get() or _Running(None, None)
    token = _TASK.set(_Running(None, running.wake))
    try:
        yield
    finally:
        _TASK.reset(token)


class Telemetry:
    """The stream of a process: stamps events, removes secrets, and calls the sinks, one at a time."""

    def __init__(
        self,
        run: str,
        clock: Clock,
        redactor: TextRedactor,
        sinks: Iterable[Sink] = (),
        *,
        worker: str = "",
        steps: bool = False,
    ) -> None:
        """`sinks`: in the order in which they are called. `steps`: emit a record of each step too."""
        self.run = run
        self.worker = worker
        self.problems: dict[str, str] = {}
        """Sink -> its first error."""
        self._clock = clock
        self._redactor = redactor
        self._steps = steps
        self.sinks = tuple(sinks)
        self._of_records = self._overriding("on_record")
        self._of_events = self._overriding("on_event")
        self._of_deliveries = self._overriding("on_delivery")
        self._of_turns = self._overriding("on_turn")
        self._waiting: deque[Record] = deque()
        self.lock = threading.RLock()
        """Held while sinks are called at once, and by another thread that reads a sink."""

    def _overriding(self, door: str) -> tuple[Sink, ...]:
        """The sinks that override a method."""
        return tuple(sink for sink in self.sinks if getattr(type(sink), door) is not getattr(Sink, door))

    def emit(self, event: TelemetryEvent) -> None:
        """Take an event of resilience (`resilience.events.Emit`); from any thread.

        Events of services, tool servers and thresholds belong to no task, whichever task started the service.
        """
        running = _TASK.get() or _Running(None, None)
        shared, wake = isinstance(event, ServiceChanged | ToolServerChanged | ThresholdCrossed), running.wake
        record = self._pass_on(event, None if shared else running.plan, None)
        if wake is not None and not isinstance(event, ThresholdCrossed):
            wake(record)

    def on(self, event: Event | Record) -> None:
        """Take an event of the engine; from any thread, in the order of each task. A record was already passed on."""
        if isinstance(event, Record):
            return
        with self.lock:
            self._redactor = self._redactor.plus(event.plan.all_secrets)
            if self._steps or not isinstance(event, StepEnded):
                for told, step in _told(event):
                    self._pass_on(told, event.plan, step)
            for sink in self._of_events:
                self._call_guarded(sink, sink.on_event, event, self._redactor)

    def deliver(self) -> None:
        """Call the sinks of this thread, the one that waits for tasks, with the new records."""
        while self._waiting:
            record = self._waiting.popleft()
            for sink in self._of_deliveries:
                self._call_guarded(sink, sink.on_delivery, record)

    def turn(self, event: Event | Record, *, heard: bool) -> None:
        """Take an event of the task whose turn it is, on the thread that waits for it, and deliver.

        `heard`: it was already passed on at once (`on`), since the task began before its turn.
        """
        if not heard:
            self.on(event)
        self.deliver()
        if not isinstance(event, Record):
            for sink in self._of_turns:
                self._call_guarded(sink, sink.on_turn, event)

    def close(self) -> tuple[str, ...]:
        """End all sinks. Returns a line for each sink that failed, with its first error."""
        for sink in self.sinks:
            self._call_guarded(sink, sink.close)
        return tuple(f"telemetry: {sink}: {problem}" for sink, problem in self.problems.items())

    def _pass_on(self, event: TelemetryEvent, plan: Plan | None, step: int | None) -> Record:
        with self.lock:
            record = Record(
                at=self._clock.wall(),
                event=redacted(event, self._redactor.text),
                run=self.run,
                worker=self.worker,
                task_id=plan.task_id if plan else "",
                step=step,
                faulted=plan is not None and _is_failure_expected(plan),
            )
            if self._of_deliveries:
                self._waiting.append(record)
            for sink in self._of_records:
                self._call_guarded(sink, sink.on_record, record)
            return record

    def _call_guarded(self, sink: Sink, method: Callable[..., None], *args: object) -> None:
        try:
            method(*args)
        except Exception as error:  # noqa: BLE001 - a disk, a plugin, an exporter must not fail a task: the one place
            self.problems.setdefault(sink.name, f"{type(error).__name__}: {error}")


def _told(event: Event) -> Iterator[tuple[TelemetryEvent, int | None]]:
    """What a record says of an event of the engine, and at which step; nothing for one that no record is about."""
    match event:
        case ResilienceActed(index=index, event=acted):
            yield acted, index
        case StepEnded(record=record):
            yield StepDone.of(record), record.index
        case ModelAsked(agent=agent, model=model, step=step):
            yield ModelRequest(agent, model), step
        case ModelAnswered(call=call):
            yield ModelReply.of(call), call.step
        case ToolCalled(server=server, tool=tool, step=number):
            yield ToolRequested(server, tool), number
        case ToolAnswered(call=answered):
            yield ToolReply.of(answered), answered.step
        case TaskEnded(plan=plan, result=result):
            yield TaskDone.of(result, plan.agent), None


def _is_failure_expected(plan: Plan) -> bool:
    """Return whether failures of a task were ordered, or declared by its file."""
    expect = plan.spec.expect
    return bool(plan.faults) or (expect is not None and expect.final_state in ("failed", "aborted"))
