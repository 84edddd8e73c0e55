"""TaskSpec: a task as its file declares it (specs/003 2.1, DESIGN 4.1)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, PrivateAttr, model_validator

from harness.failure import ErrorType
from harness.recovery import Rulebook
from harness.spec.faults import Fault
from harness.spec.problems import did_you_mean
from harness.spec.steps import Step

TAG = r"[A-Za-z][A-Za-z0-9_-]*"
FAMILY = r"[A-Za-z0-9_-]+"
"""Both become names of pytest marks, a family as `family_<x>`; checked in `marks`, in plain words."""

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
    """What to do when the task fails (specs/003 2.1)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = False
    alternative_task_id: str | None = None
    relaxed_success_criteria: tuple[str, ...] = ()


class ScoringCheckpoint(BaseModel):
    """A part of the score: what must hold at the end, and what it weighs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str | None = None
    assertion: str
    weight: float = Field(1.0, ge=0)
    required: bool = False
    depends_on: tuple[str, ...] = ()
    when: str | None = None


def _with_tuples(value: Any) -> Any:
    """Lists as tuples: after a rule's shorthand is expanded, pydantic takes no list for a tuple in strict mode."""
    if isinstance(value, dict):
        return {key: _with_tuples(item) for key, item in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


class TaskSpec(BaseModel):
    """One task. Assignment is validated (specs/003 7.1: `task.step_timeout = 1`); a Plan made from it is frozen."""

    model_config = ConfigDict(validate_assignment=True, extra="allow")

    task_id: str = Field(min_length=1, max_length=200)
    family: str | None = Field(None, json_schema_extra={"pattern": f"^{FAMILY}$"})
    episode_id: str | None = None
    priority: int = Field(3, ge=1, le=5, description="1 is the most urgent.")
    seed: int = 0
    time: str | None = None
    persona: dict[str, JsonValue] = Field(default_factory=dict)
    goal: str = ""
    inputs: dict[str, JsonValue] = Field(default_factory=dict)
    allowed_domains: tuple[str, ...] = ()
    preconditions: tuple[str, ...] = ()
    memory: dict[str, JsonValue] = Field(default_factory=dict, description="Entries that stand before the first step.")
    memory_keys: tuple[str, ...] = ()
    success_criteria: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    rubrics: dict[str, float] = Field(default_factory=dict)
    scoring_checkpoints: tuple[ScoringCheckpoint, ...] = ()
    dependencies: tuple[str, ...] = ()
    tags: tuple[Annotated[str, Field(json_schema_extra={"pattern": f"^{TAG}$"})], ...] = ()
    timeout: int = Field(300, ge=10, le=3600, description="The whole task, recovery included, in seconds.")
    step_timeout: int = Field(30, ge=1, le=300, description="One attempt of a step, in seconds.")
    error_recovery: Annotated[Rulebook, BeforeValidator(_with_tuples)] = Rulebook()
    checkpoints: tuple[int, ...] = ()
    fallback_plan: FallbackPlan = FallbackPlan()
    state_bindings: dict[str, Any] | list[Any] | None = None
    repairs: dict[str, Any] | list[Any] | None = None
    budget: dict[str, Any] | None = None
    parametrize: dict[str, Any] | list[Any] | None = None
    faults: tuple[Fault, ...] = ()
    expect: Expect | None = None
    steps: tuple[Step, ...] = ()
    expected_memory: dict[str, JsonValue] = Field(default_factory=dict)

    _place: tuple[Path, str] | None = PrivateAttr(None)

    if not TYPE_CHECKING:  # type checkers would take any name as assignable

        def __setattr__(self, name: str, value: Any) -> None:
            """`extra="allow"` is for the keys of files; a new name in Python is a slip. Raises ValueError."""
            if not name.startswith("_") and name not in TaskSpec.model_fields and name not in (self.model_extra or {}):
                hint = did_you_mean(name, TaskSpec.model_fields)
                raise ValueError(f"a task has no `{name}`{f': {hint}' if hint else ''}")
            super().__setattr__(name, value)

    @property
    def place(self) -> tuple[Path, str] | None:
        """The folder it came from, and its file as shown to people; None for a task made in Python."""
        return self._place

    def placed(self, folder: Path, source: str) -> TaskSpec:
        """This task, knowing where it came from."""
        self._place = (folder, source)
        return self
