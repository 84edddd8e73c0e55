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
    Own,
    Repair,
    ScoringCheckpoint,
    StateBinding,
    binding_of,
)
from harness.spec.problems import did_you_mean
from harness.spec.profiles import PROFILES, USUAL, Limits, TimeoutProfile
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

    task_id: str = Field(
        min_length=1, max_length=200, description="Names the task, its pytest item and its directory under `errors/`."
    )
    family: str | None = Field(
        None,
        json_schema_extra={"pattern": f"^{FAMILY}$"},
        description="The mark `family_<x>` and Allure's feature: letters, digits, `_` and `-`.",
    )
    episode_id: str | None = Field(
        None,
        description="Tasks of one episode share memory and environment; each starts with the cookies, localStorage and "
        "IndexedDB of the last one that passed.",
    )
    priority: int = Field(
        3, ge=1, le=5, description="Order of the run, and Allure's severity; 1 comes first, as a rank."
    )
    owner: str | None = Field(
        None, max_length=200, description="Who looks after it, a person or a team: Allure's owner."
    )
    seed: int = Field(0, description="Where the random numbers of `jitter` start, as a plain number.")
    time: str | None = Field(
        None,
        description="ISO 8601 with a zone: where the world's clock, the browser's `Date` and `time_since` start.",
    )
    persona: dict[str, JsonValue] = Field(
        default_factory=dict, description="For whom the task is done: `${persona.x}`; agents are given it."
    )
    goal: str = Field("", description="What the task is for: shown in reports, given to agents.")
    inputs: dict[str, JsonValue] = Field(default_factory=dict, description="Values that `${inputs.x}` stands for.")
    page_values: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="Values that pages read as `window.__taskspec.NAME`, there before any script of theirs runs.",
    )
    allowed_domains: tuple[str, ...] = Field(
        (), description="Hosts that may be reached, and those below them; nothing is sent elsewhere. Empty: all."
    )
    preconditions: tuple[str, ...] = Field((), description="Criteria that must hold before the first step.")
    memory: dict[str, JsonValue] = Field(default_factory=dict, description="Entries that stand before the first step.")
    memory_keys: tuple[str, ...] = Field(
        (), description="Memory entries that must be there at the end: else a warning, strict: a failure."
    )
    success_criteria: tuple[str, ...] = Field((), description="Criteria that must hold after the last step.")
    artifacts: tuple[str, ...] = Field(
        (), description="Downloads and screenshots that must be there at the end: else a warning, strict: a failure."
    )
    rubrics: dict[str, float] = Field(
        default_factory=dict, description="Metric (`SR`, `LH-F1`, `cost_efficiency`) -> its weight in the score."
    )
    scoring_checkpoints: tuple[ScoringCheckpoint, ...] = Field(
        (), description="Parts of the score, looked at when the task ends, passed or failed."
    )
    dependencies: tuple[str, ...] = Field(
        (), description="Ids of tasks that run before this one; when one did not pass, this one is skipped."
    )
    tags: tuple[Annotated[str, Field(json_schema_extra={"pattern": f"^{TAG}$"})], ...] = Field(
        (), description="pytest marks and Allure tags: a letter, then letters, digits, `_` and `-`."
    )
    timeout_profile: TimeoutProfile | None = Field(
        None,
        description="`timeout` and `step_timeout` where they are not declared: simple 300 and 30, medium 450 and 45, "
        "complex 600 and 60, in seconds.",
    )
    timeout: int = Field(300, ge=10, le=3600, description="The whole task, recovery included, in seconds.")
    step_timeout: int = Field(30, ge=1, le=300, description="One attempt of a step, in seconds.")
    expect_timeout: float = Field(
        0,
        ge=0,
        le=3600,
        description="How long an `assert` and each success criterion wait until they hold, in seconds.",
    )
    error_recovery: Annotated[Rulebook, BeforeValidator(_with_tuples)] = Field(
        Rulebook(), description="What to do about each kind of failure."
    )
    checkpoints: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        (), description="Numbers of steps; the state is saved before each of them."
    )
    fallback_plan: FallbackPlan = Field(FallbackPlan(), description="What may do instead when the task fails.")
    state_bindings: dict[str, Annotated[StateBinding, BeforeValidator(binding_of)]] = Field(
        default_factory=dict,
        description="Memory key -> the place in the environment that must agree: `channel.path`, or both apart.",
    )
    repairs: tuple[Repair, ...] = Field(
        (), description="How preconditions are set up, for `on_precondition_fail: attempt_repair`."
    )
    budget: Budget = Field(Budget(), description="What the task may use up; over it the task is aborted.")
    parametrize: dict[str, list[JsonValue]] | list[dict[str, JsonValue]] = Field(
        default_factory=list, description="Cases, each a task of its own: `${param.x}` stands for its values."
    )
    faults: tuple[Fault, ...] = Field((), description="What goes wrong on purpose.")
    expect: Expect | None = Field(
        None, description="The outcome that the task must show: its item passes when it does, and only then."
    )
    steps: tuple[Step, ...] = Field((), description="What is done, in order; without steps an agent chooses them.")
    expected_memory: dict[str, JsonValue] = Field(
        default_factory=dict, description="Memory as it must be at the end: else a warning, strict: a failure."
    )

    _place: tuple[Path, str] | None = PrivateAttr(None)
    _own: Own = PrivateAttr(Own())

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

    @property
    def own(self) -> Own:
        """What the project's own keys say of it."""
        return self._own

    def owned(self, own: Own) -> TaskSpec:
        """This task with what the project's own keys say of it: their tags are its tags."""
        if own.tags:
            self.tags = tuple(dict.fromkeys((*self.tags, *own.tags)))
        self._own = own
        return self

    def limits(self, usual: TimeoutProfile = USUAL) -> Limits:
        """`timeout` and `step_timeout`: as declared, else by the task's profile, else by the `usual` one."""
        declared = {name: getattr(self, name) for name in Limits._fields if name in self.model_fields_set}
        return PROFILES[self.timeout_profile or usual]._replace(**declared)

    def placed(self, folder: Path, source: str) -> TaskSpec:
        """This task, knowing where it came from."""
        self._place = (folder, source)
        return self
