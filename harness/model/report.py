"""ErrorReport: what is written of a task that failed; `harness.model.diagnosis` makes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from harness.model.consumption import ModelCallLine, ModelFigures
from harness.model.tool_use import ToolCallLine, ToolErrorReport, ToolFigures
from harness.recovery.catalog import Category, ErrorType, Severity, Suspect
from harness.recovery.declaration import Document
from harness.spec.task import FinalState


class AssertionContext(Document):
    """What `context.assertion` says: why a criterion does not hold."""

    expression: str
    expected: JsonValue = None
    actual: JsonValue = None
    diff: str = ""


class Context(BaseModel):
    """What surrounded the failure. Further keys are evidence of the failure's code."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    url: str | None = None
    user: str | None = Field(None, description="The user whose page it is, in a task with several.")
    screenshot_id: str | None = None
    dom_snapshot_id: str | None = None
    memory_snapshot: dict[str, JsonValue] | None = None
    env_snapshot: dict[str, JsonValue] | None = None
    browser_console_logs: tuple[str, ...] = ()
    assertion: AssertionContext | None = None

    @property
    def vanished(self) -> list[str]:
        """Texts that the page showed after the last act, and no longer shows."""
        return [str(each) for each in (self.model_extra or {}).get("vanished_texts", ())]


class Metrics(Document):
    """How far the task came."""

    steps_completed: int
    steps_total: int = Field(description="Number of steps, without those that were not used.")
    steps_unused: int = Field(
        0, description="Steps of rounds for which the list of a `for_each` had no item, as a number of steps."
    )
    time_elapsed_seconds: float
    retries_count: int = Field(description="Number of retries of all steps, as defined in docs/figures.md.")


class FaultReport(Document):
    """What was made to go wrong on purpose, and what became of it. Times are seconds since the start of the task."""

    id: str = Field(description="The fault's `id`, or its kind and number; a fault of a plan has `plan/id`.")
    title: str = Field(description="Name for people: the fault's `id`, or its kind.")
    kind: str
    target: str = Field("", description="What the fault strikes: a host, a URL, a selector ...")
    where: str = Field("", description="File and line of the declaration; empty for a fault from Python.")
    struck: int = Field(0, description="How often the fault struck; 0 if it never did.")
    times: tuple[float, ...] = Field((), description="Times of the first strikes and of the last one.")
    steps: tuple[int, ...] = Field((), description="The step that was running at each of `times`.")
    healed: tuple[float, ...] = Field((), description="Times at which the fault was undone.")
    problem: str = Field("", description="Why the fault could not strike or be undone.")
    why: str = Field("", description="What was missing, if the fault never struck.")
    behind: bool = Field(
        False,
        description="Whether the failure follows the fault: it struck in the failing step or the step before, or was "
        "in effect then.",
    )
    text: str = Field("", description="The fault in one line.")


class RoutedRequestReport(Document):
    """A request that a route answered."""

    step_index: int = Field(description="The step that was running; -1 before the first.")
    method: str
    url: str
    status: int = Field(description="Status of the answer, as an HTTP status. 101 for a WebSocket.")
    what: str = Field("", description="What the route did about a WebSocket, such as `dropped sent ping`.")


class RouteReport(Document):
    """What the task wanted to be answered in place of a site, and what was."""

    route: int = Field(description="Place of the route in the task's file, counted from 0.")
    url: str = Field(description="Pattern of the route.")
    methods: tuple[str, ...] = Field((), description="Methods of the route; empty: all.")
    where: str = Field("", description="File and line of the declaration; empty for a route from Python.")
    count: int = Field(0, description="How many requests it answered, as a number of requests.")
    requests: tuple[RoutedRequestReport, ...] = Field((), description="The first of these requests, and the last one.")
    problem: str = Field("", description="The last request that it could not answer, and why.")
    text: str = Field("", description="The route in one line.")


class ErrorReport(Document):
    """A task that failed: `error_type`, one of 14 values, and a finer `code` with category, severity and hint."""

    task_id: str
    error_type: ErrorType
    timestamp: datetime
    step_index: int = Field(
        description="The step that failed, counted from 0. -1 stands for before the first step, the number of steps "
        "for the success criteria."
    )
    step_number: str = Field(
        "", description="The same as reports show it, if the step stands with others for one of the file: `4.2`."
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
    suspect: Suspect | None = Field(None, description="Where to look first.")
    retryable: bool = False
    hint: str = ""
    tried: tuple[str, ...] = Field((), description="The attempts at the failed step, one line each.")
    warnings: tuple[dict[str, JsonValue], ...] = ()
    faults: tuple[FaultReport, ...] = Field((), description="The injected faults.")
    routes: tuple[RouteReport, ...] = Field((), description="The routes, and what they answered.")
    score: dict[str, JsonValue] | None = Field(None, description="The score: total, parts, rubrics.")
    expected: bool = Field(False, description="Whether the task declares this outcome in `expect`.")
    source: str = Field("", description="The task's file.")
    agent: str = Field("", description="The agent that chose the last steps; empty for the steps of the file.")
    takeovers: tuple[str, ...] = Field((), description="The agents that failed and in whose place others went on.")
    models: dict[str, ModelFigures] = Field({}, description="Name of each model asked, and what its calls have used.")
    models_total: ModelFigures | None = Field(None, description="What all calls of models have used.")
    model_calls: tuple[ModelCallLine, ...] = Field((), description="The first 200 requests to models.")
    tools: dict[str, dict[str, ToolFigures]] = Field(
        {}, description="Name of a tool server -> name of a tool -> what its calls have done."
    )
    tools_total: ToolFigures | None = Field(None, description="What all calls of tools have done.")
    tool_calls: tuple[ToolCallLine, ...] = Field(
        (), description="The first 200 calls of tools; partial_trace.json has their arguments and results."
    )
    tool_error: ToolErrorReport | None = Field(None, description="The call of a tool behind the failure.")


OF_TOOLS = {"tools", "tools_total", "tool_calls", "tool_error"}
"""The fields that only a task that has called tools has."""
OF_AGENTS = {"agent", "takeovers", "models", "models_total", "model_calls"}
"""The fields that only a task with an agent has."""


def control_of(warnings: Iterable[Mapping[str, Any]]) -> str:
    """`observed` if one of these warnings, or their details, says so; else empty."""
    return next((str(each["control"]) for each in warnings if "control" in each), "")
