"""The stream itself: takes events from any thread, stamps and redacts them, and gives each to every sink."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol, assert_never

from harness.model.events import AttemptEnded, Event, RemedyChosen, StepEnded, StepStarted, TaskEnded, TaskStarted
from harness.model.figures import attempts_made, figures, step_key
from harness.model.plan import Plan
from harness.model.record import Attempt, StepRecord, TaskResult
from harness.recovery import GiveUp, Remedy, RepairPrecondition, Retry, Rewind, Skip, Substitute, Trust
from harness.recovery.catalog import FAMILIES, ErrorType, Family, Scope
from harness.recovery.failure import Failure
from harness.reporting.telemetry.record import Record, StepDone, TaskDone, TelemetryEvent, redacted
from harness.resilience import Clock
from harness.resilience.events import Degraded, FellBack, GaveUp, Recovered, Retrying, ServiceChanged, Waiting
from harness.resilience.thresholds import VALIDATION, ThresholdCrossed
from harness.spec.steps import Step

# Of which kind a failure is: what events carry and thresholds count by.

_BY_CODE = {
    "HTTP_RATE_LIMITED": "rate_limit",
    "HTTP_UNAVAILABLE": "unavailable",
    "SERVICE_DOWN": "unavailable",
    "CIRCUIT_OPEN": "unavailable",
    "HTTP_TIMEOUT": "timeout",
    "NET_TIMEOUT": "timeout",
    "AGENT_TIMEOUT": "timeout",
    "AUTHENTICATION_FAILED": "auth",
    "SESSION_LOST": "auth",
    "INVALID_INPUT": "invalid",
    "HTTP_CLIENT_ERROR": "invalid",
    "HTTP_UNEXPECTED_STATUS": "invalid",
    "HTTP_NOT_FOUND": "not_found",
    "AGENT_FAILED": "agent_crash",
    "AGENT_INVALID_STEP": VALIDATION,
}

_SERVERS = frozenset({Scope.ORIGIN, Scope.WORLD})


def origin(failure: Failure) -> dict[str, str]:
    """`code`, `severity` and `source` of a failure, as fields of an event."""
    hook = failure.family is Family.PRECONDITION and "pytest_taskspec_repair" in failure.message
    server = failure.family is Family.NETWORK or failure.scope in _SERVERS
    return {
        "code": failure.code,
        "severity": str(failure.severity),
        "source": "hook" if hook else "server" if server else "client",
    }


def category(failure: Failure) -> str:
    """Where resilience has no word for it, the `error_type`; where that is `unknown`, the category of the catalog.

    A page or browser that was ended for another task's sake is no lost session of this one.
    """
    if failure.family is Family.BROWSER and failure.circumstances.innocent:
        return str(failure.category)
    found = _BY_CODE.get(failure.code) or FAMILIES[failure.family].event_category
    return found or str(failure.category if failure.type is ErrorType.UNKNOWN else failure.type)


# What the engine says, in the words of resilience: a remedy is a retry or a fallback, a passed step a recovery.

PROPOSALS = 3
"""Proposals of an agent that are no step, in a row, end its task (`harness/engine/agent.py`)."""
_REFUSED = "AGENT_INVALID_STEP"
_LEFT_ALONE = "CIRCUIT_OPEN"
"""Nothing was sent: no attempt failed, and waiting for the circuit is no retry."""
_MANY = 1000
Told = Iterator[tuple[int | None, TelemetryEvent]]
"""Number of the step, or None, and the event."""


@dataclass(slots=True)
class _OpenFailure:
    """A step that failed and has not passed since; a rewind does not end it."""

    since: float | None = None
    """Seconds of the task at which its first failed attempt ended."""
    failed: int = 0
    """Attempts."""
    refused: int = 0
    """Proposals in a row that were no step."""
    chosen: Counter[tuple[Family, type]] = field(default_factory=Counter)
    """Remedies so far, of each kind for each kind of failure."""
    category: str = ""


@dataclass(slots=True)
class _Course:
    """One task so far."""

    under_way: list[tuple[int, Step]] = field(default_factory=list)
    """Steps that have begun and not ended: a precondition, and a step of its repair."""
    troubles: dict[Hashable, _OpenFailure] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    """Steps that were given up."""

    def key(self, index: int) -> Hashable:
        step = self._step(index)
        return step_key(index, step) if step else (index, "")

    def trouble(self, index: int) -> _OpenFailure:
        return self.troubles.setdefault(self.key(index), _OpenFailure())

    def name(self, index: int) -> str:
        step = self._step(index)
        return step.describe() if step else f"step {index}"

    def _step(self, index: int) -> Step | None:
        number, step = self.under_way[-1] if self.under_way else (None, None)
        return step if number == index else None


class Translator:
    """Follows the tasks of one process. `steps`: tells of each step too."""

    def __init__(self, *, steps: bool = False) -> None:
        self._steps = steps
        self._courses: dict[str, _Course] = {}

    def translate(self, event: Event) -> Told:
        """What the event means, in order; nothing for most."""
        course = self._courses.setdefault(event.plan.key, _Course())
        match event:
            case TaskStarted(plan=plan):
                self._courses[plan.key] = _Course()
            case StepStarted(index=index, step=step):
                course.under_way.append((index, step))
                act: str = step.act  # a proposal that is no step stands in the trace as one
                if act != "invalid" and (trouble := course.troubles.get(course.key(index))):
                    trouble.refused = 0
            case AttemptEnded(plan=plan, index=index, attempt=attempt):
                yield from _attempted(course, plan, index, attempt)
            case RemedyChosen(index=index):
                yield from ((index, each) for each in _remedy(course, event))
            case StepEnded(record=record):
                yield from self._ended(course, record)
            case TaskEnded(plan=plan, result=result):
                yield from _finished(self._courses.pop(plan.key, course), result)

    def _ended(self, course: _Course, record: StepRecord) -> Told:
        name, failure = course.name(record.index), record.failure
        if record.passed and record.attempts:  # a step whose effect was found to be there has no attempt that passed
            yield from _recovered(course, record.index, record.attempts[-1])
        if record.passed or record.skipped:
            course.troubles.pop(course.key(record.index), None)
        if record.skipped:
            yield record.index, Degraded(name, f"the task goes on without it: {failure.message if failure else ''}")
        if self._steps:
            seconds = sum(attempt.seconds for attempt in record.attempts)
            error = failure.message if failure else ""
            made = len(attempts_made(record))
            yield record.index, StepDone(name, record.passed, made, round(seconds, 3), error)
        if course.under_way:
            course.under_way.pop()


def _attempted(course: _Course, plan: Plan, index: int, attempt: Attempt) -> Told:
    if not isinstance(attempt.outcome, Failure):
        yield from _recovered(course, index, attempt)
        return
    trouble = course.trouble(index)
    trouble.since = attempt.t + attempt.seconds if trouble.since is None else trouble.since
    trouble.category = category(attempt.outcome)
    if attempt.outcome.code == _REFUSED:
        yield index, _refusal(course, plan, index, attempt.outcome)
    elif attempt.outcome.code != _LEFT_ALONE:
        trouble.failed += 1


def _recovered(course: _Course, index: int, last: Attempt) -> Told:
    """What is told of a step that had failed; `last` is its attempt that passed, or that left its effect behind."""
    if trouble := course.troubles.pop(course.key(index), None):
        end = last.t + last.seconds
        after = max(0.0, end - (end if trouble.since is None else trouble.since))
        yield index, Recovered(course.name(index), round(after, 3), trouble.failed + last.passed, trouble.category)


def _refusal(course: _Course, plan: Plan, index: int, failure: Failure) -> TelemetryEvent:
    """The agent is asked again, with no remedy between; the step is another one then."""
    trouble = course.trouble(index)
    trouble.refused += 1
    name, kind = f"proposal of {plan.agent}", category(failure)
    if trouble.refused < PROPOSALS:
        return Retrying(name, trouble.refused, PROPOSALS - 1, 0.0, failure.message, kind, **origin(failure))
    course.lost.add(index)
    return GaveUp(name, failure.message, exhausted=True, category=kind, **origin(failure))


def _remedy(course: _Course, event: RemedyChosen) -> Iterator[TelemetryEvent]:
    failure, name, trouble = event.failure, course.name(event.index), course.trouble(event.index)
    kind, error = category(failure), failure.message
    if failure.code == _LEFT_ALONE and isinstance(event.remedy, Retry):
        yield Waiting(name, event.remedy.after, _rests(failure))
        return
    key = failure.family, type(event.remedy)
    trouble.chosen[key] += 1
    trouble.category = trouble.category or kind
    match event.remedy:
        case Retry() | Rewind() | RepairPrecondition() as remedy:
            number, delay = trouble.chosen[key], remedy.after if isinstance(remedy, Retry) else 0.0
            allowed = max(number, _allowed(event.plan, failure, remedy))
            yield Retrying(name, number, allowed, delay, error, kind, **origin(failure))
        case Substitute(selector=selector):
            yield FellBack(name, failure.selector or "", selector, error)
        case Trust(source=source):
            yield FellBack(name, "memory" if source == "environment" else "environment", source, error)
        case GiveUp():
            course.lost.add(event.index)
            yield GaveUp(name, error, exhausted=trouble.failed > 1, category=kind, **origin(failure))
        case Skip():
            return
        case _:
            assert_never(event.remedy)


def _rests(refusal: Failure) -> str:
    circuit = refusal.details.get("circuit", {}).get("name")
    return f"circuit {circuit} is open" if circuit else refusal.message


def _allowed(plan: Plan, failure: Failure, remedy: Remedy) -> int:
    """How many remedies of this kind the task's rule has for such a failure."""
    remedies = islice(plan.rulebook.remedies(failure, lambda: 0.5), _MANY)
    return sum(type(each) is type(remedy) for each in remedies)


def _finished(course: _Course, result: TaskResult) -> Told:
    """What no remedy has told: a task that failed before or beside its steps, or whose end another one took over."""
    failure, name, end = result.failure, f"task {result.task_id}", result.steps_total
    told = result.skipped or result.failed_index in course.lost
    if failure and failure.code != "INTERRUPTED" and not told:
        index = -1 if result.failed_index is None else result.failed_index
        yield index, GaveUp(name, failure.message, exhausted=False, category=category(failure), **origin(failure))
    if result.alternative is not None:
        yield end, FellBack(name, result.task_id, result.alternative.task_id, _replaced(result))
    for warning in result.warnings:
        if warning.type == "criteria_relaxed":
            yield end, Degraded(name, warning.message)
    yield None, _done(result)


def _replaced(result: TaskResult) -> str:
    """What the task failed with that an alternative one took over; of a good end only its warning knows."""
    said = (each.details.get("error_message") for each in result.warnings if each.type == "alternative_task_used")
    return result.failure.message if result.failure else str(next(said, ""))


def _done(result: TaskResult) -> TaskDone:
    counted = figures(result)
    return TaskDone(
        final_state="skipped" if result.skipped else result.final_state,
        seconds=round(result.elapsed, 3),
        steps=result.steps_completed,
        attempts=counted.attempts,
        failures=counted.failed_attempts,
        retries=counted.retries,
        successful_retries=counted.successful_retries,
        fallbacks=counted.fallbacks,
        recovered=counted.recovered,
        recovery_seconds=round(counted.recovery_seconds, 3),
        reason=result.skipped,
        **(origin(result.failure) if result.failure else {}),
        expected=bool(result.error and result.error.expected),
    )


class TextRedactor(Protocol):
    """Takes secrets out of texts (`harness.reporting.redaction`)."""

    def text(self, text: str) -> str: ...

    def plus(self, secrets: Iterable[str]) -> TextRedactor: ...


Sink = Callable[[Record], None]
"""Takes a record. What it raises is said once, and harms nobody."""
Listener = Callable[[Event, TextRedactor], None]
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
        redactor: TextRedactor,
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
