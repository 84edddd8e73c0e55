"""The Trace: steps to play, or that were played (specs/003 5)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, JsonValue


class TraceStep(BaseModel):
    """One line: a step, and what was seen of it. Further keys are the step's own."""

    model_config = ConfigDict(frozen=True, extra="allow")

    act: str
    t: float | None = Field(None, description="Seconds since the start.")
    url: str | None = None
    selector: str | None = None
    value: JsonValue = None
    note: str | None = None


class TraceWarning(BaseModel):
    """Something the run got over."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str
    step_index: int | None = None
    message: str | None = None


class TraceError(BaseModel):
    """What ended the run."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str
    step_index: int | None = None
    message: str | None = None


class Trace(BaseModel):
    """A whole trace; `oracle_trace.json` beside a `task_spec.json` is one."""

    model_config = ConfigDict(frozen=True, extra="allow")

    task_id: str | None = None
    steps: tuple[TraceStep, ...]
    warnings: tuple[TraceWarning, ...] = ()
    error: TraceError | None = None
