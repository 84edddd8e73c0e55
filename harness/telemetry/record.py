"""One thing that happened, with when and where; as a line of JSON and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any, ClassVar, get_args

from harness.resilience.events import CircuitChanged, FellBack, ResilienceEvent
from harness.resilience.thresholds import ThresholdCrossed


@dataclass(frozen=True, slots=True)
class StepDone:
    """A step is over, well or not."""

    type: ClassVar[str] = "step"
    name: str
    passed: bool
    attempts: int
    seconds: float
    """Of all attempts, without the waits between them."""
    error: str = ""
    """What the last attempt failed with."""


@dataclass(frozen=True, slots=True)
class TaskDone:
    """A task is over."""

    type: ClassVar[str] = "task"
    final_state: str
    """As in the result; `skipped` for a task that was left out."""
    seconds: float
    steps: int
    """Steps completed."""
    attempts: int
    """At all steps, preconditions and criteria included; not those that a circuit refused."""
    failures: int
    """Attempts that failed."""
    code: str = ""
    """Of the failure, when there is one."""
    severity: str = ""
    source: str = ""
    """As of the failure of a step."""
    reason: str = ""
    """Why it was left out."""
    expected: bool = False
    """It failed as its file declares."""
    retries: int = 0
    """What this and the following count: `harness.model.figures`."""
    successful_retries: int = 0
    fallbacks: int = 0
    recovered: int = 0
    recovery_seconds: float = 0.0


TelemetryEvent = ResilienceEvent | ThresholdCrossed | StepDone | TaskDone
EVENTS: Mapping[str, type[TelemetryEvent]] = {event.type: event for event in get_args(TelemetryEvent)}


@dataclass(frozen=True, slots=True)
class Record:
    """An event, stamped. Its texts are redacted."""

    at: datetime
    event: TelemetryEvent
    run: str
    worker: str = ""
    """Of pytest-xdist."""
    task_id: str = ""
    """Empty for what belongs to no task: a site that died, what began in a task that has ended."""
    step: int | None = None
    """What the engine did at this step (-1: before the first); None for what no step did."""
    faulted: bool = False
    """What goes wrong in it was ordered (`faults`) or declared (`expect` of a failure): no threshold counts it."""

    def as_json(self, level: str) -> dict[str, Any]:
        """Plain JSON; `level` in the words of `logging`."""
        stamp = {name: getattr(self, name) for name in ("run", "worker", "task_id", "step", "faulted")}
        head = {"at": self.at.isoformat(), "level": level, "type": self.event.type}
        return {**head, **stamp, **asdict(self.event), **_as_in_004(self.event)}


def _as_in_004(event: TelemetryEvent) -> dict[str, str]:
    """`from` and `to`, as specs/004 4.7 calls them; `from` is no name that a field can have."""
    match event:
        case CircuitChanged() | FellBack():
            return {"from": event.before, "to": event.after}
        case _:
            return {}


def read(line: str | bytes) -> Record | None:
    """A line of events.jsonl; None for one that is broken, or that another version wrote."""
    try:
        found = json.loads(line)
        kind = EVENTS[found["type"]]
        event = kind(**{field.name: found[field.name] for field in fields(kind)})
        stamp = {field.name: found[field.name] for field in fields(Record) if field.name not in ("at", "event")}
        return Record(datetime.fromisoformat(found["at"]), event, **stamp)
    except (ValueError, KeyError, TypeError):
        return None


def redacted(event: TelemetryEvent, text: Callable[[str], str]) -> TelemetryEvent:
    """The event with each of its texts replaced by what `text` makes of it."""
    return replace(event, **{field.name: _clean(getattr(event, field.name), text) for field in fields(event)})


def _clean(value: Any, text: Callable[[str], str]) -> Any:
    if isinstance(value, Mapping):
        return {text(str(key)): _clean(item, text) for key, item in value.items()}
    return text(value) if isinstance(value, str) else value
