"""TaskSpec: a task as its file declares it (specs/003 2.1, DESIGN 4.1)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, PrivateAttr

from harness.recovery import Rulebook
from harness.spec.faults import Fault
from harness.spec.parts import (
    Budget,
    Expect,
    FallbackPlan,
    Repair,
    ScoringCheckpoint,
    StateBinding,
    binding_of,
)
from harness.spec.problems import did_you_mean
from harness.spec.steps import Step

TAG = r"[A-Za-z][A-Za-z0-9_-]*"
FAMILY = r"[A-Za-z0-9_-]+"
"""Both become names of pytest marks, a family as `family_<x>`; checked in `marks`, in plain words."""


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
    checkpoints: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        (), description="Step numbers; before each of them the state is saved (specs/003 2.1)."
    )
    fallback_plan: FallbackPlan = FallbackPlan()
    state_bindings: dict[str, Annotated[StateBinding, BeforeValidator(binding_of)]] = Field(
        default_factory=dict, description="Memory key -> place in the environment, `channel.path`."
    )
    repairs: tuple[Repair, ...] = Field((), description="For `on_precondition_fail: attempt_repair`.")
    budget: Budget = Budget()
    parametrize: dict[str, list[JsonValue]] | list[dict[str, JsonValue]] = Field(
        default_factory=list, description="Cases: `${param.x}` stands for their values."
    )
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
