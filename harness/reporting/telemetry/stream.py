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
    StepStarted,
    TaskEnded,
    TaskStarted,
    ToolAnswered,
    ToolCalled,
)
from harness.model.figures import TaskDone, attempts_made
from harness.model.plan import Plan
from harness.model.record import StepRecord
from harness.reporting.fence import OutputFence
from harness.reporting.telemetry.record import (
    ModelReply,
    ModelRequest,
    Record,
    StepBegun,
    StepDone,
    TaskBegun,
    TelemetryEvent,
    ToolReply,
    ToolRequested,
    redacted,
)
from harness.resilience import Clock
from harness.resilience.events import ServiceChanged, ToolServerChanged
from harness.resilience.thresholds import ThresholdCrossed

_STREAM = "stream"
_OFTEN = 1.0
"""Seconds between two records about the steps that a task begins."""


class _TextRedactor(Protocol):
    """Removes secrets from texts (`harness.reporting.redaction`)."""

    def text(self, text: str) -> str: ...

    def plus(self, secrets: Iterable[str]) -> _TextRedactor: ...


class Sink:
    """Receives the events of a run through the methods that it overrides. `sinks.py` lists all sinks.

    Whatever a method raises is reported once under the sink's name (`reporting.fence`), and has no other effect.
    """

    name: str
    clean: Callable[[str], str] = str
    """Removes the secrets that are known by now from a text of an event; records have none. The stream sets it."""

    def on_record(self, record: Record) -> None:
        """Take a record at once, on the thread where the event occurred: it must not block."""

    def on_event(self, event: Event) -> None:
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


def _on_a_timer(seconds: float, act: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, act)
    timer.daemon = True  # the end of a run does not wait for it
    timer.start()


class Telemetry:
    """The stream of a process: stamps events, removes secrets, and calls the sinks, one at a time."""

    def __init__(
        self,
        run: str,
        clock: Clock,
        redactor: _TextRedactor,
        sinks: Iterable[Sink] = (),
        *,
        worker: str = "",
        steps: bool = False,
        fence: OutputFence | None = None,
        later: Callable[[float, Callable[[], None]], None] = _on_a_timer,
    ) -> None:
        """`sinks`: in the order in which they are called. `steps`: emit a record of each step too. `fence` keeps the
        errors of the sinks. `later` calls a function after so many seconds, on any thread.
        """
        self.run = run
        self.worker = worker
        self.fence = fence or OutputFence()
        self._clock = clock
        self._redactor = redactor
        self._steps = steps
        self.sinks = tuple(sinks)
        for sink in self.sinks:
            sink.clean = self.clean
        self._of_records = self._overriding("on_record")
        self._of_events = self._overriding("on_event")
        self._of_deliveries = self._overriding("on_delivery")
        self._of_turns = self._overriding("on_turn")
        self._waiting: deque[Record] = deque()
        self._later = later
        self._held: dict[str, StepStarted] = {}
        """Key of a running task -> the step that has begun, of which no record is made yet."""
        self._looks = False
        self._told: dict[str, float] = {}
        """Key of a running task -> when the last record about its beginnings was made, in monotonic seconds."""
        self.lock = threading.RLock()
        """Held while sinks are called at once, and by another thread that reads a sink."""

    @property
    def problems(self) -> dict[str, str]:
        """Output -> its first error."""
        return self.fence.problems

    def _overriding(self, door: str) -> tuple[Sink, ...]:
        return tuple(sink for sink in self.sinks if getattr(type(sink), door) is not getattr(Sink, door))

    def emit(self, event: TelemetryEvent) -> None:
        """Take an event of resilience (`resilience.events.Emit`); from any thread.

        Events of services, tool servers and thresholds belong to no task, whichever task started the service.
        """
        running = _TASK.get() or _Running(None, None)
        shared, wake = isinstance(event, ServiceChanged | ToolServerChanged | ThresholdCrossed), running.wake
        record = self.fence.call(_STREAM, self._pass_on, event, None if shared else running.plan, None)
        if record is not None and wake is not None and not isinstance(event, ThresholdCrossed):
            wake(record)

    def tell(self, event: TelemetryEvent, plan: Plan) -> None:
        """Take an event of a task that has run in another process, which can no longer tell it."""
        with self.fence.around(_STREAM):
            self._pass_on(event, plan, None)

    def on(self, event: Event | Record) -> None:
        """Take an event of the engine; from any thread, in the order of each task. A record was already passed on."""
        if isinstance(event, Record):
            return
        with self.lock:
            self._learn_secrets(event.plan)
            with self.fence.around(_STREAM):
                if isinstance(event, TaskStarted | StepStarted | StepEnded | TaskEnded):
                    self._note_progress(event)
                if self._steps or not isinstance(event, StepEnded):
                    for told, step in _told(event):
                        self._pass_on(told, event.plan, step)
            for sink in self._of_events:
                self.fence.call(sink.name, sink.on_event, event)

    def _note_progress(self, event: TaskStarted | StepStarted | StepEnded | TaskEnded) -> None:
        """Tell a live view what begins; of the steps of a task, which may be hundreds in a second, at most one.

        A step that begins too soon after the last record is told when it still runs a little later.
        """
        plan, now = event.plan, self._clock.now()
        if isinstance(event, TaskStarted):
            self._told[plan.key] = now
            self._pass_on(TaskBegun(plan.key, 0 if plan.agent else len(plan.steps)), plan, None)
        elif isinstance(event, TaskEnded):
            self._told.pop(plan.key, None)
            self._held.pop(plan.key, None)
        elif isinstance(event, StepEnded):
            self._held.pop(plan.key, None)
        elif now - self._told.get(plan.key, now) >= _OFTEN:
            self._tell(event)
        else:
            self._held[plan.key] = event
            self._look_later()

    def _tell(self, begun: StepStarted) -> None:
        key = begun.plan.key
        self._held.pop(key, None)
        self._told[key] = self._clock.now()
        self._pass_on(StepBegun(begun.step.describe()), begun.plan, begun.index)

    def _tell_held(self) -> None:
        """Tell the steps that still run, and whose turn it is by now."""
        with self.lock, self.fence.around(_STREAM):
            self._looks, now = False, self._clock.now()
            for key, begun in list(self._held.items()):
                if now - self._told.get(key, now) >= _OFTEN:
                    self._tell(begun)
            if self._held:
                self._look_later()

    def _look_later(self) -> None:
        if not self._looks:
            self._looks = True
            self._later(_OFTEN, self._tell_held)

    def deliver(self) -> None:
        """Call the sinks of this thread, the one that waits for tasks, with the new records."""
        while self._waiting:
            record = self._waiting.popleft()
            for sink in self._of_deliveries:
                self.fence.call(sink.name, sink.on_delivery, record)

    def turn(self, event: Event | Record, *, heard: bool) -> None:
        """Take an event of the task whose turn it is, on the thread that waits for it, and deliver.

        `heard`: it was already passed on at once (`on`), since the task began before its turn.
        """
        if not heard:
            self.on(event)
        self.deliver()
        if not isinstance(event, Record) and self._of_turns:
            self._learn_secrets(event.plan)
            for sink in self._of_turns:
                self.fence.call(sink.name, sink.on_turn, event)

    def close(self) -> list[str]:
        """End all sinks. Returns a line for each output that failed, with its first error."""
        for sink in self.sinks:
            self.fence.call(sink.name, sink.close)
        return self.fence.lines()

    def clean(self, text: str) -> str:
        """The text without the secrets that are known by now."""
        return self._redactor.text(text)

    def _learn_secrets(self, plan: Plan) -> None:
        """Know the secrets of a task, which learns more while it runs."""
        with self.lock:
            self._redactor = self._redactor.plus(plan.all_secrets)

    def _pass_on(self, event: TelemetryEvent, plan: Plan | None, step: int | None) -> Record:
        with self.lock:
            if plan is not None:
                self._learn_secrets(plan)
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
                self.fence.call(sink.name, sink.on_record, record)
            return record


def _told(event: Event) -> Iterator[tuple[TelemetryEvent, int | None]]:
    """What a record says of an event of the engine, and at which step; nothing for one that no record is about."""
    match event:
        case ResilienceActed(index=index, event=acted):
            yield acted, index
        case StepEnded(record=record):
            yield _step_done(record), record.index
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


def _step_done(record: StepRecord) -> StepDone:
    seconds = sum(attempt.seconds for attempt in record.attempts)
    error = record.failure.message if record.failure else ""
    return StepDone(record.step.describe(), record.passed, len(attempts_made(record)), round(seconds, 3), error)


def _is_failure_expected(plan: Plan) -> bool:
    """Return whether failures of a task were ordered, or declared by its file."""
    expect = plan.spec.expect
    return bool(plan.faults) or (expect is not None and expect.final_state in ("failed", "aborted"))
