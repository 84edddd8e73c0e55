"""Parts of a TaskSpec that have keys of their own (specs/003 2.1, DESIGN 4.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from harness.recovery.catalog import ErrorType
from harness.spec.steps import Step

FinalState = Literal["completed", "partial_success", "failed", "aborted"]


class Expect(BaseModel):
    """The outcome that a fault task must show; its pytest item passes when it does, and only then."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    final_state: FinalState = Field(description="How the task must end.")
    error_type: ErrorType | None = Field(
        None, description="Of the failure; a task that must fail names this or the `code`."
    )
    code: str | None = Field(None, description="Of the failure; `harness explain CODE` tells of it.")
    step_index: int | None = Field(
        None,
        ge=-1,
        description="Where it must fail; -1: the preconditions; the number of steps: the criteria, as a step number.",
    )
    warnings: tuple[str, ...] = Field((), description="Types of warnings that must be given; others may be.")

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

    enabled: bool = Field(False, description="Whether the plan is followed at all.")
    alternative_task_id: str | None = Field(
        None, description="Id of a task to run in the same world when this one `failed` (not `aborted`)."
    )
    relaxed_success_criteria: tuple[str, ...] = Field(
        (), description="Criteria that must all hold when a success criterion does not: then `partial_success`."
    )


class ScoringCheckpoint(BaseModel):
    """A part of the score: what must hold at the end, and what it weighs (DESIGN 4.1)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(description="What `depends_on` calls it.")
    name: str | None = Field(None, description="What reports call it; without it, the id.")
    assertion: str = Field(description="Criterion that must hold at the end.")
    weight: float = Field(
        1.0, ge=0, description="Its share; those of the parts that apply are scaled to add up to 1, as a weight."
    )
    required: bool = Field(False, description="When it does not hold, the task is at most `partial_success`.")
    depends_on: tuple[str, ...] = Field((), description="Ids of parts before it; it counts only when they hold.")
    when: str | None = Field(None, description="Criterion; when it does not hold, this part does not apply.")


class StateBinding(BaseModel):
    """A memory entry and the place in the environment that must have the same value (DESIGN 4.4)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    channel: str = Field(min_length=1, description="A channel of `[tool.harness.channels]`.")
    path: str = Field(min_length=1, max_length=1000, description="Place in the channel's document.")

    @model_validator(mode="after")
    def _one_place(self) -> StateBinding:
        if "*" in self.path:
            raise ValueError("a binding is to one place: its path takes no `*`")
        return self


def binding_of(value: Any) -> Any:
    """`"env.shop.orders.last"` is short for `{channel: env, path: shop.orders.last}`."""
    if not isinstance(value, str):
        return value
    channel, _, path = value.partition(".")
    if not path:
        raise ValueError("a place in the environment is written `channel.path`, such as `env.shop.orders.last`")
    return {"channel": channel, "path": path}


class Repair(BaseModel):
    """How a precondition that does not hold is set up (DESIGN 4.4): memory first, then the task, then the steps."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    precondition: str | None = Field(
        None, description="The precondition that it is for, as written there; without it, for all."
    )
    memory: dict[str, JsonValue] = Field(default_factory=dict, description="Memory entries to write, before all else.")
    task: str | None = Field(None, description="Id of a task to run after that, in the same world.")
    steps: tuple[Step, ...] = Field((), description="Steps to do last.")

    @model_validator(mode="after")
    def _does_something(self) -> Repair:
        if not (self.memory or self.task or self.steps):
            raise ValueError("a repair needs at least one of `memory`, `task`, `steps`")
        return self


@dataclass(frozen=True, slots=True)
class Own:
    """What the project's own keys (`extra_keys`) say of a task."""

    skip: str = ""
    """Why the task is left out; empty: it is not."""
    tags: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    """Key and text, for reports."""


class Budget(BaseModel):
    """What a task may use up; over it the task ends with `budget_exceeded` (DESIGN 4.4)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_steps: int | None = Field(
        None,
        ge=1,
        description="Steps begun, those done again included; an agent has 30 unless it is said, as a number of steps.",
    )
    max_requests: int | None = Field(
        None, ge=1, description="Requests that the task's pages sent, as a number of requests."
    )
    max_seconds: float | None = Field(None, gt=0, description="From the start of the task, in seconds.")
    max_retries: int | None = Field(
        None,
        ge=0,
        description="Retries (ways back to a checkpoint are some) and fallbacks of all steps, as a number of attempts.",
    )
