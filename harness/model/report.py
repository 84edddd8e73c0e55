"""ErrorReport: what is written of a task that failed; `harness.model.diagnosis` makes it."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from harness.recovery.catalog import Category, ErrorType, Severity
from harness.spec.task import FinalState


class AssertionContext(BaseModel):
    """What `context.assertion` says: why a criterion does not hold."""

    model_config = ConfigDict(frozen=True)

    expression: str
    expected: JsonValue = None
    actual: JsonValue = None
    diff: str = ""


class Context(BaseModel):
    """What surrounded the failure. Further keys are evidence of the failure's code."""

    model_config = ConfigDict(frozen=True, extra="allow")

    url: str | None = None
    screenshot_id: str | None = None
    dom_snapshot_id: str | None = None
    memory_snapshot: dict[str, JsonValue] | None = None
    env_snapshot: dict[str, JsonValue] | None = None
    browser_console_logs: tuple[str, ...] = ()
    assertion: AssertionContext | None = None


class Metrics(BaseModel):
    """How far the task came."""

    model_config = ConfigDict(frozen=True)

    steps_completed: int
    steps_total: int
    time_elapsed_seconds: float
    retries_count: int = Field(description="Of all steps; what a retry is: docs/figures.md.")


class FaultReport(BaseModel):
    """What was made to go wrong on purpose, and what became of it. Times are seconds since the start of the task."""

    model_config = ConfigDict(frozen=True)

    id: str = Field(description="The fault's `id`; without one, its kind and number. Those of a plan: `plan/id`.")
    title: str = Field(description="What people call it: its `id`; without one, its kind.")
    kind: str
    target: str = Field("", description="What it strikes: a host, a URL, a selector ...")
    where: str = Field("", description="File and line that declare it; empty for one from Python.")
    struck: int = Field(0, description="How often; 0: it never struck.")
    times: tuple[float, ...] = Field((), description="When: the first ones, and the last.")
    steps: tuple[int, ...] = Field((), description="The step under way at each of `times`.")
    healed: tuple[float, ...] = Field((), description="When it was undone.")
    problem: str = Field("", description="Why it could not be done, or undone.")
    why: str = Field("", description="Of one that never struck: what was missing.")
    behind: bool = Field(
        False, description="The failure follows it: it struck in the failing step or the one before, or stood then."
    )
    text: str = Field("", description="All that in a line.")


class ErrorReport(BaseModel):
    """A task that failed: `error_type`, one of 14 values, and a finer `code` with category, severity and hint."""

    model_config = ConfigDict(frozen=True)

    task_id: str
    error_type: ErrorType
    timestamp: datetime
    step_index: int = Field(
        description="Which step failed (0-based); -1: before the first; the number of steps: criteria."
    )
    step: dict[str, JsonValue] | None = None
    error_message: str = ""
    stack_trace: str | None = None
    context: Context = Context()
    recovery_attempted: bool = False
    recovery_strategy: str | None = None
    recovery_success: bool = False
    final_state: FinalState = "failed"
    metrics: Metrics | None = None
    code: str = "UNKNOWN"
    category: Category = Category.EXECUTION
    severity: Severity = Severity.ERROR
    retryable: bool = False
    hint: str = ""
    tried: tuple[str, ...] = Field((), description="The attempts at the failed step, a line each.")
    warnings: tuple[dict[str, JsonValue], ...] = ()
    faults: tuple[FaultReport, ...] = Field((), description="What was made to go wrong on purpose.")
    score: dict[str, JsonValue] | None = Field(None, description="How much was reached: total, parts, rubrics.")
    expected: bool = Field(False, description="The task declares this outcome in `expect`.")
    source: str = Field("", description="The task's file.")
