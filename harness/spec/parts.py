"""Parts of a TaskSpec that have keys of their own (specs/003 2.1, DESIGN 4.1)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from harness.failure import ErrorType
from harness.spec.steps import Step

FinalState = Literal["completed", "partial_success", "failed", "aborted"]


class Expect(BaseModel):
    """The outcome that a fault task must show; its pytest item passes when it does, and only then."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    final_state: FinalState
    error_type: ErrorType | None = None
    code: str | None = None
    step_index: int | None = Field(None, ge=-1)
    warnings: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _a_failure_is_named(self) -> Expect:
        failing = self.final_state in ("failed", "aborted")
        if failing and self.error_type is None and self.code is None:
            raise ValueError(f"`expect: {{final_state: {self.final_state}}}` must name the `error_type` or `code` too")
        if not failing and (self.error_type or self.code or self.step_index is not None):
            raise ValueError(f"a task that ends {self.final_state} has no error: drop error_type, code, step_index")
        return self


class FallbackPlan(BaseModel):
    """What to do when the task fails (specs/003 2.1). Without `enabled` nothing is done."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = False
    alternative_task_id: str | None = Field(None, description="Task to run in the same world when this one failed.")
    relaxed_success_criteria: tuple[str, ...] = Field(
        (), description="What must hold instead when a success criterion does not: then `partial_success`."
    )


class ScoringCheckpoint(BaseModel):
    """A part of the score: what must hold at the end, and what it weighs (DESIGN 4.1)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str | None = None
    assertion: str = Field(description="Criterion that must hold at the end.")
    weight: float = Field(1.0, ge=0, description="Its share; the weights of those that apply are normalized.")
    required: bool = Field(False, description="When it does not hold, the task is at most `partial_success`.")
    depends_on: tuple[str, ...] = Field((), description="Ids of others; it counts only when they hold.")
    when: str | None = Field(None, description="Criterion; when it does not hold, this part does not apply.")


class StateBinding(BaseModel):
    """A memory entry and the place in the environment that must have the same value (DESIGN 4.4)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    channel: str = Field(min_length=1)
    path: str = Field(min_length=1, max_length=1000)


def binding_of(value: Any) -> Any:
    """`"env.shop.orders.last"` is short for `{channel: env, path: shop.orders.last}`."""
    if not isinstance(value, str):
        return value
    channel, _, path = value.partition(".")
    return {"channel": channel, "path": path}


class Repair(BaseModel):
    """How a precondition that does not hold is set up (DESIGN 4.4): memory first, then the task, then the steps."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    precondition: str | None = Field(
        None, description="The precondition, as it is written there, that this repairs; none: any."
    )
    memory: dict[str, JsonValue] = Field(default_factory=dict, description="Entries to write.")
    task: str | None = Field(None, description="Id of a task to run first, in the same world.")
    steps: tuple[Step, ...] = Field((), description="Steps to do.")

    @model_validator(mode="after")
    def _does_something(self) -> Repair:
        if not (self.memory or self.task or self.steps):
            raise ValueError("a repair needs at least one of `memory`, `task`, `steps`")
        return self


class Budget(BaseModel):
    """What a task may use up; over it the task ends with `budget_exceeded` (DESIGN 4.4)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_steps: int | None = Field(None, ge=1, description="Steps begun, those done again after a rewind included.")
    max_requests: int | None = Field(None, ge=1, description="Requests that left the task's pages.")
    max_seconds: float | None = Field(None, gt=0, description="Seconds from the start of the task.")
    max_retries: int | None = Field(None, ge=0, description="Attempts after the first, of all steps together.")
