"""The events of the engine while it runs: one frozen value for each kind, for the sinks.

Its answers to failures are events of `harness.resilience.events`, as those of circuits, services and policies are.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

from harness.model.inference import ModelCall
from harness.model.plan import Plan
from harness.model.record import Attempt, Sent, StepRecord, TaskResult
from harness.model.tools import ToolCall
from harness.recovery import Remedy
from harness.recovery.failure import Failure
from harness.resilience.events import Degraded, FellBack, GaveUp, Recovered, ResilienceEvent, Retrying, Waiting
from harness.spec.steps import Step
from harness.values import replace


class TaskStarted(Struct, frozen=True):
    plan: Plan
    at: datetime


class StepStarted(Struct, frozen=True):
    plan: Plan
    index: int
    step: Step
    at: datetime


class AttemptEnded(Struct, frozen=True):
    plan: Plan
    index: int
    attempt: Attempt


MODEL = "model "
"""How the name begins in the events of the policies around a model."""
Resilience = Retrying | Waiting | FellBack | Degraded | Recovered | GaveUp


class ResilienceActed(Struct, frozen=True):
    """A failure was answered or overcome; for a retry, the event comes before its wait."""

    plan: Plan
    index: int
    event: Resilience
    remedy: Remedy | None = None
    """The remedy that the rule chose, if the event is about one."""


def emit_of_call(emit: Callable[[Event], None], plan: Plan, index: int, event: ResilienceEvent) -> None:
    """Emit what a policy did about a call of a model or a tool, as an event of the step that made the call."""
    if isinstance(event, Resilience):
        if isinstance(event, Retrying | GaveUp) and event.code:
            event = replace(event, **Failure(event.code, event.error).origin)
        emit(ResilienceActed(plan, index, event))


class WriteSeen(Struct, frozen=True):
    """An unsafe request leaves a page, which makes a write of a step whose file does not say so.

    The event comes before the answer: this process may end before the step does.
    """

    plan: Plan
    index: int
    """The number of the step that runs."""
    sent: Sent


class StepEnded(Struct, frozen=True):
    plan: Plan
    record: StepRecord


class TaskEnded(Struct, frozen=True):
    """`result.error` and `result.artifacts` are set when it failed; its directory is complete on disk."""

    plan: Plan
    result: TaskResult
    at: datetime


class ModelAsked(Struct, frozen=True):
    """A request to a model leaves: each attempt has its own, and its `ModelAnswered`."""

    plan: Plan
    agent: str
    model: str
    step: int
    """The index of the step that the agent is choosing."""
    at: datetime


class ModelAnswered(Struct, frozen=True):
    """A request to a model has ended, with its entry in the ledger: answered, failed or cancelled."""

    plan: Plan
    call: ModelCall


class ToolCalled(Struct, frozen=True):
    """A call of a tool begins; its `ToolAnswered` follows after all its tries."""

    plan: Plan
    server: str
    tool: str
    step: int | None
    at: datetime


class ToolAnswered(Struct, frozen=True):
    """A call of a tool has ended, with its entry in the ledger."""

    plan: Plan
    call: ToolCall


Event = (
    TaskStarted | StepStarted | AttemptEnded | ResilienceActed | WriteSeen | StepEnded | TaskEnded | ModelAsked
    | ModelAnswered | ToolCalled | ToolAnswered
)  # fmt: skip
