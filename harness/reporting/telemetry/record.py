"""One event with its time and place, and its conversion to a line of JSON and back."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, ClassVar, get_args

from msgspec import Struct
from msgspec.structs import fields

from harness.model.consumption import is_unpriced, money_text, tokens_text
from harness.model.figures import TaskDone
from harness.model.inference import CallOutcome, ModelCall
from harness.model.tool_use import call_code
from harness.model.tools import ToolCall, ToolOutcome
from harness.resilience.events import (
    CircuitChanged,
    ClientChanged,
    Degraded,
    Escalated,
    FellBack,
    GaveUp,
    HookRefused,
    InvariantBroken,
    PagesEnded,
    ResilienceEvent,
    Retrying,
    ServiceChanged,
    SlotAwaited,
    ToolServerChanged,
    Waiting,
    one_line,
    written,
    written_name,
)
from harness.resilience.thresholds import ThresholdCrossed
from harness.values import map_texts, replace


class StepDone(Struct, frozen=True):
    """A step has ended, passed or failed."""

    type: ClassVar[str] = "step"
    name: str
    passed: bool
    attempts: int
    seconds: float
    """The sum of all attempts' durations, without the waits between them."""
    error: str = ""
    """The message of the last attempt's failure."""

    def line(self) -> str:
        several = f", {self.attempts} attempts" if self.attempts > 1 else ""
        how = f"{'passed' if self.passed else 'failed'} in {self.seconds:.2f} s{several}"
        return f"{self.name}: {how}{_reason_text(self.error)}"


class RunBegun(Struct, frozen=True):
    """The tasks of a run are known; the last such record counts."""

    type: ClassVar[str] = "run-begun"
    tasks: int
    """The number of tasks that it is to run, without those that it leaves out."""

    def line(self) -> str:
        return f"run of {self.tasks} tasks"


class TaskBegun(Struct, frozen=True):
    """A task has begun."""

    type: ClassVar[str] = "task-begun"
    key: str
    """The name of its folder below `errors/`, if it fails."""
    steps: int
    """The number of steps in its file; 0 if an agent chooses them."""

    def line(self) -> str:
        return f"task begun{f' ({self.steps} steps)' if self.steps else ''}"


class StepBegun(Struct, frozen=True):
    """A step has begun. Of a task's steps at most one in a second has such a record."""

    type: ClassVar[str] = "step-begun"
    name: str

    def line(self) -> str:
        return f"begins {one_line(self.name)}"


Progress = RunBegun | TaskBegun | StepBegun
"""The records that only a live view needs: what they tell is in no report and in no log, except with `debug`."""


class ModelRequest(Struct, frozen=True):
    """A request to a model leaves."""

    type: ClassVar[str] = "model-asked"
    agent: str
    model: str
    """The name in `[tool.harness.models]`."""

    def line(self) -> str:
        return f"{self.agent} thinks ({self.model})"


class ModelReply(Struct, frozen=True):
    """A request to a model has ended: it was answered, has failed, or was cancelled."""

    type: ClassVar[str] = "model-answered"
    agent: str
    model: str
    provider: str
    identifier: str
    """The provider's name of the model."""
    attempt: int
    """1 for the first request of a question to this model."""
    outcome: CallOutcome
    code: str
    """The code of its failure, if it has failed."""
    seconds: float
    first_token: float | None
    """Seconds until the answer began; None: it did not."""
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    estimated: bool
    """Whether the provider has not said how many tokens it has used."""
    cost_usd: float | None
    """US dollars; None: nobody knows."""
    replayed: bool
    """Whether a recording has answered it."""

    @classmethod
    def of(cls, call: ModelCall) -> ModelReply:
        facts = (call.agent, call.model, call.provider, call.identifier, call.attempt, call.outcome, call.code)
        usage, cost = call.usage, None if is_unpriced(call) else call.cost or 0.0
        used = (usage.input, usage.cache_read, usage.output, usage.estimated)
        return cls(*facts, call.seconds, call.first_token, *used, cost, call.replayed)

    def line(self) -> str:
        ended = {"answered": "", "failed": f", failed: {self.code}", "cancelled": ", cancelled"}[self.outcome]
        return f"{self.agent} thought {self.seconds:.1f} s ({self.model}{ended}{_used(self)})"


class ToolRequested(Struct, frozen=True):
    """A call of a tool begins."""

    type: ClassVar[str] = "tool-called"
    server: str
    tool: str

    def line(self) -> str:
        return f"calling {self.server}.{self.tool}"


class ToolReply(Struct, frozen=True):
    """A call of a tool has ended: it was answered, has failed, or was cancelled."""

    type: ClassVar[str] = "tool-answered"
    id: str
    """Unique in the task; the trace has the call's arguments and result under this id."""
    server: str
    tool: str
    effect: str
    tries: int
    """How often it was sent, or was to be sent; 0: it was refused before."""
    outcome: ToolOutcome
    code: str
    """The code of its failure, if it has failed."""
    seconds: float
    error: str = ""
    """The message of its failure."""

    @classmethod
    def of(cls, call: ToolCall) -> ToolReply:
        code, seconds = call_code(call), round(call.seconds, 3)
        facts = (call.id, call.server, call.tool, call.effect, call.tries)
        return cls(*facts, call.outcome, code, seconds, call.message)

    def line(self) -> str:
        ended = {"error": "answered with an error", "failed": self.code}.get(self.outcome, self.outcome)
        tries = f", {self.tries} tries" if self.tries > 1 else ""
        how = f"{ended} in {self.seconds:.1f} s{tries}"
        return f"{self.server}.{self.tool}: {how}{_reason_text(self.error)}"


TelemetryEvent = (
    ResilienceEvent
    | ThresholdCrossed
    | StepDone
    | TaskDone
    | ModelRequest
    | ModelReply
    | ToolRequested
    | ToolReply
    | Progress
)
EVENTS: Mapping[str, type[TelemetryEvent]] = {event.type: event for event in get_args(TelemetryEvent)}


class Record(Struct, frozen=True):
    """An event with time and place. Its texts are redacted."""

    at: datetime
    event: TelemetryEvent
    run: str
    worker: str = ""
    """The worker of pytest-xdist."""
    task_id: str = ""
    """Empty for an event without a task: a site died, or work began in a task that has ended."""
    step: int | None = None
    """The index of the step at which the engine acted (-1: before the first); None for an event outside of steps."""
    faulted: bool = False
    """Failures in it were ordered (`faults`) or declared (`expect` of a failure): no threshold counts them."""

    def as_json(self, level: str) -> dict[str, Any]:
        """The record as plain JSON; `level` is a name of `logging`."""
        stamp = {name: getattr(self, name) for name in ("run", "worker", "task_id", "step", "faulted")}
        head = {"at": self.at.isoformat(), "level": level, "type": self.event.type}
        return {**head, **stamp, **written(self.event)}


def read(line: str | bytes) -> Record | None:
    """The record of a line of events.jsonl; None for a broken line, or one that another version wrote."""
    try:
        found = json.loads(line)
        kind = EVENTS[found["type"]]
        event = kind(**{each.name: found[written_name(kind, each.name)] for each in fields(kind)})
        stamp = {each.name: found[each.name] for each in fields(Record) if each.name not in ("at", "event")}
        return Record(datetime.fromisoformat(found["at"]), event, **stamp)
    except (ValueError, KeyError, TypeError):
        return None


def redacted(event: TelemetryEvent, text: Callable[[str], str]) -> TelemetryEvent:
    """The event with `text` applied to each of its texts."""
    return replace(
        event, **{each.name: map_texts(getattr(event, each.name), text, keys=True) for each in fields(event)}
    )


# An event in one line for people, and its log level.

_LEVELS = {
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "fatal": logging.CRITICAL,
}
"""Severity of a failure in the catalog -> level of its log record."""
_STATES = {
    "permanently_failed": logging.CRITICAL,
    "requires_reauth": logging.ERROR,
    "error": logging.ERROR,
    "offline": logging.WARNING,
    "restarting": logging.WARNING,
    "detached": logging.WARNING,
    "lost": logging.ERROR,
    "refused": logging.ERROR,
    "down": logging.WARNING,
}
"""State of a service, a tool server or a client -> level of the record that says so; the others are news."""


def level(event: TelemetryEvent) -> int:
    """The level in `logging`: warning, error and critical for failures."""
    match event:
        case ServiceChanged(after=state) | ToolServerChanged(after=state) | ClientChanged(after=state):
            return _STATES.get(state, logging.INFO)
        case ThresholdCrossed(after=reached):
            return _LEVELS.get(reached, logging.INFO)
        case GaveUp(severity=severity) | TaskDone(expected=False, final_state="failed" | "aborted", severity=severity):
            return _LEVELS.get(severity, logging.ERROR)
        case CircuitChanged(after="open") | Escalated(limit=None):
            return logging.ERROR
        case (
            Retrying() | Waiting() | SlotAwaited() | PagesEnded() | FellBack() | Degraded() | Escalated()
            | InvariantBroken() | HookRefused()
            | TaskDone(final_state="skipped") | ToolReply(outcome="error" | "failed")
        ):  # fmt: skip
            return logging.WARNING
    return logging.DEBUG if isinstance(event, StepDone | ModelRequest | ToolRequested | Progress) else logging.INFO


def describe(event: TelemetryEvent) -> str:
    """The event as a line, such as `Retrying 2/3 in 2.0 s: connection refused`."""
    return event.line()


def _used(event: ModelReply) -> str:
    """`, 12.1k/180 tokens, $0.0021`: what an answer has used; empty for a request that used nothing."""
    if event.replayed:
        return ", replayed"
    if not event.input_tokens + event.output_tokens:
        return ""
    about, tokens = "about " if event.estimated else "", map(tokens_text, (event.input_tokens, event.output_tokens))
    return f", {about}{'/'.join(tokens)} tokens, {'unpriced' if event.cost_usd is None else money_text(event.cost_usd)}"


def _reason_text(why: str) -> str:
    return f": {one_line(why)}" if why else ""
