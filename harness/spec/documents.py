"""The file formats of memory entries and traces."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from harness.recovery.declaration import Declaration


class MemoryKV(Declaration):
    """One entry: what is known, since when, from whom, how surely."""

    key: str = Field(min_length=1)
    value: JsonValue
    ts: str | None = Field(None, description="When it was written, ISO 8601.")
    source: str | None = Field(None, description="Who wrote it: a task id, a step.")
    confidence: float = Field(1.0, ge=0, le=1)


def plain_values(entries: dict[str, Any]) -> dict[str, Any]:
    """Key -> value, from MemoryKV entries, plain values, or a mixture."""
    return {key: entry["value"] if is_entry(entry) else entry for key, entry in entries.items()}


def is_entry(value: Any) -> bool:
    """Return whether a value is a MemoryKV entry rather than a structured value."""
    return isinstance(value, dict) and {"key", "value"} <= set(value) <= set(MemoryKV.model_fields)


class _TracePart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)


class TraceStep(_TracePart):
    """One line: a step, and what was seen of it. Further keys are the step's own."""

    act: str
    t: float | None = Field(None, description="Seconds since the start.")
    url: str | None = None
    selector: str | None = None
    value: JsonValue = None
    note: str | None = None


class _Noted(_TracePart):
    type: str
    step_index: int | None = None
    message: str | None = None


class TraceWarning(_Noted):
    """Something the run got over."""


class TraceError(_Noted):
    """What ended the run."""


class Trace(_TracePart):
    """A whole trace; `oracle_trace.json` beside a `task_spec.json` is one."""

    task_id: str | None = None
    steps: tuple[TraceStep, ...]
    warnings: tuple[TraceWarning, ...] = ()
    error: TraceError | None = None
