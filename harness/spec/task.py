"""TaskSpec: a task as its file declares it (docs/design/task-files.md)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from msgspec import Struct
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    PrivateAttr,
    TypeAdapter,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from harness.recovery.catalog import ErrorType
from harness.recovery.declaration import BuiltLater, Declaration, shown_default
from harness.spec.agents import SCRIPTED
from harness.spec.allowed_writes import AllowedWrite, allowed_write_of
from harness.spec.marks import OrOne, Reason, SkipIf, as_list
from harness.spec.page_handlers import Handler
from harness.spec.problems import did_you_mean
from harness.spec.steps import Step

# Rules, faults, routes and the context's options are imported when a task has some.


def _later(module: str, name: str) -> Any:
    """The type of this name, for annotations: its module is imported with the first value."""
    return Annotated[Any, BuiltLater(lambda: getattr(import_module(module), name))]


if TYPE_CHECKING:
    from harness.recovery.rulebook import Rulebook
    from harness.spec.context import ContextOptions
    from harness.spec.faults import Fault
    from harness.spec.routes import Route
    from harness.spec.users import User
else:
    Rulebook, Fault = _later("harness.recovery.rulebook", "Rulebook"), _later("harness.spec.faults", "Fault")
    ContextOptions, Route = _later("harness.spec.context", "ContextOptions"), _later("harness.spec.routes", "Route")
    User = _later("harness.spec.users", "User")


@cache
def _default_rules() -> Rulebook:
    from harness.recovery.rulebook import Rulebook

    return Rulebook()


# Parts of a TaskSpec with keys of their own.

FinalState = Literal["completed", "partial_success", "failed", "aborted"]


class Expect(Declaration):
    """The outcome that a fault task must show; its pytest item passes when it does, and only then."""

    final_state: FinalState = Field(description="How the task must end.")
    error_type: ErrorType | None = Field(
        None, description="The error type of the failure. A task that must fail names the `error_type` or the `code`."
    )
    code: str | None = Field(None, description="The code of the failure; `harness explain CODE` explains it.")
    step_index: int | None = Field(
        None,
        ge=-1,
        description="The step at which the task must fail. -1 stands for the preconditions, the number of steps for "
        "the success criteria, as a step number.",
    )
    warnings: tuple[str, ...] = Field((), description="Types of warnings that must appear; others may appear too.")
    criteria: tuple[str, ...] = Field(
        (),
        description="Criteria that must hold on the page as the failure has left it. Only for a task that must fail.",
    )

    @property
    def fails(self) -> bool:
        """Whether the task must fail."""
        return self.final_state in ("failed", "aborted")

    @model_validator(mode="after")
    def _a_failure_is_named(self) -> Expect:
        failing = self.fails
        if self.criteria and not failing:
            raise ValueError(f"what a task that ends {self.final_state} must show stands in its `success_criteria`")
        if failing and self.error_type is None and self.code is None:
            raise ValueError(f"`expect: {{final_state: {self.final_state}}}` must name the `error_type` or `code` too")
        if not failing and (self.error_type or self.code or self.step_index is not None):
            raise ValueError(f"a task that ends {self.final_state} has no error: drop error_type, code, step_index")
        return self


class FallbackPlan(Declaration):
    """What to do when the task fails. Without `enabled` nothing is done."""

    enabled: bool = Field(False, description="Whether the plan is used.")
    alternative_task_id: str | None = Field(
        None, description="Id of a task to run in the same world when this one `failed` (not `aborted`)."
    )
    relaxed_success_criteria: tuple[str, ...] = Field(
        (),
        description="When a success criterion does not hold but all of these criteria do, the task ends "
        "`partial_success`.",
    )


class ScoringCheckpoint(Declaration):
    """A part of the score: what must hold at the end, and what it weighs (docs/decisions/005)."""

    id: str = Field(description="Name of the part for `depends_on`.")
    name: str | None = Field(None, description="Name of the part in reports. Default: the id.")
    assertion: str = Field(description="Criterion that must hold at the end.")
    weight: float = Field(
        1.0,
        ge=0,
        description="Share of the score. The weights of the parts that apply are scaled to add up to 1, as a weight.",
    )
    required: bool = Field(
        False, description="Whether the task is at most `partial_success` when this part does not hold."
    )
    depends_on: tuple[str, ...] = Field((), description="Ids of earlier parts. This part counts only when they hold.")
    when: str | None = Field(None, description="A criterion. When it does not hold, this part does not apply.")


class StateBinding(Declaration):
    """A memory entry and the place in the environment that must have the same value."""

    channel: str = Field(min_length=1, description="A channel of `[tool.harness.channels]`.")
    path: str = Field(min_length=1, max_length=1000, description="Place in the channel's document.")

    @model_validator(mode="after")
    def _one_place(self) -> StateBinding:
        if "*" in self.path:
            raise ValueError("a binding is to one place: its path takes no `*`")
        return self


def _binding_of(value: Any) -> Any:
    """`"env.shop.orders.last"` is short for `{channel: env, path: shop.orders.last}`."""
    if not isinstance(value, str):
        return value
    channel, _, path = value.partition(".")
    if not path:
        raise ValueError("a place in the environment is written `channel.path`, such as `env.shop.orders.last`")
    return {"channel": channel, "path": path}


class Repair(Declaration):
    """How a precondition that does not hold is set up: memory first, then the task, then the steps."""

    precondition: str | None = Field(
        None, description="The precondition that the repair is for, as written in `preconditions`. Default: all."
    )
    memory: dict[str, JsonValue] = Field(default_factory=dict, description="Memory entries to write first.")
    task: str | None = Field(None, description="Id of a task to run next, in the same world.")
    steps: tuple[Step, ...] = Field((), description="Steps to do last.")

    @model_validator(mode="after")
    def _does_something(self) -> Repair:
        if not (self.memory or self.task or self.steps):
            raise ValueError("a repair needs at least one of `memory`, `task`, `steps`")
        return self


class DataFile(Declaration):
    """A file beside the task that has the cases; when the task is loaded, its rows take the place of this."""

    file: str = Field(
        min_length=1,
        description="A `.csv` file with a header row, or a `.json` file with a list of objects, in the task's folder.",
    )
    id: str | None = Field(
        None, min_length=1, description="The column whose values are the ids of the cases. Default: the column `id`."
    )


class _OrDataFile:
    """Adds the data file to the JSON Schema of `parametrize`. A task that was loaded has its rows instead."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found = handler(schema)
        data_file = handler(core_schema.definitions_schema(TypeAdapter(DataFile).core_schema, []))
        return {**found, "anyOf": [*found["anyOf"], data_file]}


class Own(Struct, frozen=True):
    """The facts about a task that the project's own keys (`extra_keys`) give."""

    skip: str = ""
    """The reason why the task is skipped; empty: it is not."""
    tags: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    """Key and text pairs for reports."""


class Budget(Declaration):
    """What a task may use up; over it the task ends with `budget_exceeded` (docs/design/steps-and-recovery.md)."""

    max_steps: int | None = Field(
        None,
        ge=1,
        description="Steps begun, including those that are done again. Default for agents: 30, as a number of steps.",
    )
    max_requests: int | None = Field(
        None, ge=1, description="Requests that the task's pages sent, as a number of requests."
    )
    max_seconds: float | None = Field(None, gt=0, description="Time from the start of the task, in seconds.")
    max_retries: int | None = Field(
        None,
        ge=0,
        description="Retries and fallbacks of all steps. Going back to a checkpoint is a retry, as a number of "
        "attempts.",
    )
    max_model_calls: int | None = Field(
        None,
        ge=1,
        description="Requests to models of the task's agents, with those that failed, as a number of requests.",
    )
    max_tokens: int | None = Field(None, ge=1, description="Input and output of these requests, as a number of tokens.")
    max_cost: float | None = Field(
        None, gt=0, description="What these requests cost, whose models must have a known price, in US dollars."
    )


# Time limits by the amount of work.

TimeoutProfile = Literal["simple", "medium", "complex"]


class Limits(NamedTuple):
    """The time limits of the whole task and of one attempt of a step, in seconds."""

    timeout: int
    step_timeout: int


_PROFILES: Mapping[str, Limits] = {"simple": Limits(300, 30), "medium": Limits(450, 45), "complex": Limits(600, 60)}
_USUAL: TimeoutProfile = "simple"

TAG = r"[A-Za-z][A-Za-z0-9_-]*"
FAMILY = r"[A-Za-z0-9_-]+"
"""Tags and families become names of pytest marks, a family as `family_<x>`; `spec/checks.py` reports bad ones."""


def _with_tuples(value: Any) -> Any:
    """Convert lists to tuples: after a shorthand is expanded, pydantic's strict mode takes no list for a tuple."""
    if isinstance(value, dict):
        return {key: _with_tuples(item) for key, item in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


class TaskSpec(BaseModel):
    """One task. Assignment is validated (`task.step_timeout = 1`); a Plan made from it is frozen."""

    model_config = ConfigDict(validate_assignment=True, extra="allow", defer_build=True)

    task_id: str = Field(
        min_length=1, max_length=200, description="Names the task, its pytest item and its directory under `errors/`."
    )
    family: str | None = Field(
        None,
        json_schema_extra={"pattern": f"^{FAMILY}$"},
        description="Name of a family of tasks: the pytest mark `family_<x>` and Allure's feature. Letters, digits, "
        "`_` and `-`.",
    )
    episode_id: Annotated[str | None, AfterValidator(lambda name: name or None)] = Field(
        None,
        description="Tasks with the same id form an episode. They share memory and environment, and each starts with "
        "the cookies, localStorage and IndexedDB of the last one that passed. An empty one is none.",
    )
    priority: int = Field(
        3, ge=1, le=5, description="Order of the run and Allure's severity. Tasks with 1 run first, as a rank."
    )
    owner: str | None = Field(
        None, max_length=200, description="The person or team responsible for the task: Allure's owner."
    )
    seed: int = Field(0, description="Seed of the random numbers for `jitter` and of `${fake.x}`, as a plain number.")
    time: str | None = Field(
        None,
        description="Time at which the world's clock, the browser's `Date` and `time_since` start. ISO 8601 with a "
        "zone.",
    )
    persona: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="The person for whom the task is done. Agents read it; steps use it as `${persona.x}`.",
    )
    goal: str = Field("", description="Purpose of the task. Reports show it, and agents get it.")
    inputs: dict[str, JsonValue] = Field(default_factory=dict, description="Values for `${inputs.x}`.")
    page_values: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="Values that pages read as `window.__taskspec.NAME`. They are set before any script of the page "
        "runs.",
    )
    allowed_domains: tuple[str, ...] = Field(
        (),
        description="Hosts that pages may reach, with their subdomains. Nothing is sent to other hosts. Default: all "
        "hosts.",
    )
    browser: ContextOptions | None = Field(
        None,
        description="What the task's browser context emulates: device, viewport, locale, permissions and so on. It "
        "overrides `[tool.harness.browser]` and its profiles.",
    )
    allowed_writes: tuple[Annotated[AllowedWrite, BeforeValidator(allowed_write_of)], ...] = Field(
        (),
        description="Requests that change something, and that steps of an agent may cause whose policy lets only "
        "declared writes pass: a pattern such as `POST http://shop.test/cart*`, `tool shop.place_order`, or a "
        "mapping.",
    )
    login: str | None = Field(
        None,
        description="Name of a login of `[tool.harness.logins]`. The task begins with its cookies, localStorage and "
        "IndexedDB.",
    )
    users: dict[str, User] = Field(
        default_factory=dict, description="Several people who act in the task: name -> `login` and `browser`."
    )
    preconditions: tuple[str, ...] = Field((), description="Criteria that must hold before the first step.")
    memory: dict[str, JsonValue] = Field(
        default_factory=dict, description="Memory entries that exist before the first step."
    )
    memory_keys: tuple[str, ...] = Field(
        (),
        description="Memory entries that must exist at the end. A missing one is a warning, and with "
        "`--taskspec-strict` a failure.",
    )
    success_criteria: tuple[str, ...] = Field((), description="Criteria that must hold after the last step.")
    artifacts: tuple[str, ...] = Field(
        (),
        description="Downloads and screenshots that must exist at the end. A missing one is a warning, and with "
        "`--taskspec-strict` a failure.",
    )
    rubrics: dict[str, float] = Field(
        default_factory=dict, description="Metric (`SR`, `LH-F1`, `cost_efficiency`) -> its weight in the score."
    )
    scoring_checkpoints: tuple[ScoringCheckpoint, ...] = Field(
        (), description="Parts of the score. They are checked when the task ends, passed or failed."
    )
    dependencies: tuple[str, ...] = Field(
        (), description="Ids of tasks that run before this one. When one of them did not pass, this task is skipped."
    )
    tags: tuple[Annotated[str, Field(json_schema_extra={"pattern": f"^{TAG}$"})], ...] = Field(
        (), description="pytest marks and Allure tags: a letter, then letters, digits, `_` and `-`."
    )
    skip: Reason | None = Field(
        None, description="Why the task is not run. It is skipped with this reason, in every run."
    )
    skip_if: Annotated[tuple[SkipIf, ...], BeforeValidator(as_list), OrOne()] = Field(
        (), description="Where the task is skipped: one condition or a list; the first that holds gives the reason."
    )
    only: bool = Field(
        False,
        description="Whether only this task, others with `only`, and their dependencies run. Refused where the "
        "environment variable `CI` is set.",
    )
    expected_failure: Reason | None = Field(
        None,
        description="The known defect for which the task fails for now: pytest's strict `xfail`. When it passes, or "
        "fails because of the machine or what the project provides, that is a failure. An end that is right stands in "
        "`expect`.",
    )
    slow: bool = Field(
        False, description="Whether all time limits of the task are three times as long. It has the pytest mark `slow`."
    )
    timeout_profile: TimeoutProfile | None = Field(
        None,
        description="Default for `timeout` and `step_timeout`: simple 300 and 30, medium 450 and 45, complex 600 and "
        "60, in seconds.",
    )
    timeout: int = Field(300, ge=10, le=3600, description="Limit for the whole task, including recovery, in seconds.")
    step_timeout: int = Field(30, ge=1, le=300, description="Limit for one attempt of a step, in seconds.")
    expect_timeout: float = Field(
        0,
        ge=0,
        le=3600,
        description="How long an `assert` and each success criterion wait until they hold, in seconds.",
    )
    error_recovery: Annotated[Rulebook, BeforeValidator(_with_tuples)] = Field(
        default_factory=_default_rules,
        json_schema_extra=shown_default(_default_rules),
        description="What to do about each kind of failure.",
    )
    checkpoints: tuple[Annotated[int, Field(ge=0)] | Annotated[str, Field(pattern=r"^\d+\.\d+$")], ...] = Field(
        (),
        description="Numbers of the steps before which the state is saved; of a step of a group also as reports have "
        'it, as `"4.2"`.',
    )
    fallback_plan: FallbackPlan = Field(FallbackPlan(), description="What counts or runs instead when the task fails.")
    state_bindings: dict[str, Annotated[StateBinding, BeforeValidator(_binding_of)]] = Field(
        default_factory=dict,
        description="Memory key -> place in the environment that must have the same value, as `channel.path` or as a "
        "mapping.",
    )
    repairs: tuple[Repair, ...] = Field(
        (), description="How to set up preconditions that do not hold, for `on_precondition_fail: attempt_repair`."
    )
    handlers: tuple[Handler, ...] = Field(
        (),
        max_length=20,
        description="What may be in the way at any step, such as a cookie banner, and the steps that remove it.",
    )
    before_each: tuple[Step, ...] = Field(
        (), max_length=100, description="Step groups, or steps, before the task, in place of the project's; `[]`: none."
    )
    after_each: tuple[Step, ...] = Field(
        (), max_length=100, description="The same at its end, also after a failure. If they fail, the task has failed."
    )
    budget: Budget = Field(Budget(), description="What the task may use. When it needs more, it is aborted.")
    parametrize: Annotated[dict[str, list[JsonValue]] | list[dict[str, JsonValue]], _OrDataFile()] = Field(
        default_factory=lambda: [],  # noqa: PIE807 - of `list` itself pydantic would parse the signature, for 2 ms
        description="Cases, or the data file that has them. Each case becomes a task of its own and uses its values as "
        "`${param.x}`.",
    )
    routes: tuple[Route, ...] = Field(
        (), description="Answers to requests of the pages and of `api` steps, given in place of their site."
    )
    faults: tuple[Fault, ...] = Field((), description="Faults to inject: what goes wrong on purpose.")
    expect: Expect | None = Field(
        None, description="The outcome that the task must have. Its pytest item passes only with this outcome."
    )
    steps: tuple[Step, ...] = Field((), description="Steps, in order. Without steps an agent chooses them.")
    agent: str | None = Field(
        None,
        min_length=1,
        description="Name of the agent that chooses the steps, also if the task has some; `scripted` executes its own "
        "`steps`, `manual` is a person at the terminal. `--task-agent` overrides it.",
    )
    agent_fallback: tuple[Annotated[str, Field(min_length=1)], ...] | None = Field(
        None,
        description="Names of the agents that go on, in this order, when the one before fails. `scripted` begins the "
        "task anew. Default: the `fallback` of the agent's settings.",
    )
    agent_fallback_if_unmet: bool = Field(
        False,
        description="Whether the next agent also goes on when the steps are done and a success criterion does not "
        "hold.",
    )
    expected_memory: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="Memory entries and their values at the end. A difference is a warning, and with "
        "`--taskspec-strict` a failure.",
    )

    _place: tuple[Path, str] | None = PrivateAttr(None)
    _own: Own = PrivateAttr(Own())
    _profile: str | None = PrivateAttr(None)
    _repetition: str = PrivateAttr("")

    if not TYPE_CHECKING:  # type checkers would otherwise accept any attribute name

        def __setattr__(self, name: str, value: Any) -> None:
            """`extra="allow"` is for the keys of files; a new name in Python is a slip. Raises ValueError."""
            if not name.startswith("_") and name not in TaskSpec.model_fields and name not in (self.model_extra or {}):
                hint = did_you_mean(name, TaskSpec.model_fields)
                raise ValueError(f"a task has no `{name}`{f': {hint}' if hint else ''}")
            super().__setattr__(name, value)

    @property
    def place(self) -> tuple[Path, str] | None:
        """The task's folder, and its file as shown to people; None for a task made in Python."""
        return self._place

    @property
    def profile(self) -> str | None:
        """The browser profile of `--browser-profile` for which this task was made; None: without that option."""
        return self._profile

    @property
    def variant(self) -> str:
        """What `--browser-profile` and `--task-repeat-each` have added to its id, such as `[phone][2-3]`."""
        return "".join(f"[{each}]" for each in (self._profile, self._repetition) if each)

    def left_out(self, environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> str:
        """The reason why the task is skipped, by its own keys or the project's; empty: it is not."""
        found = (each.reason for each in self.skip_if if each.holds(self._profile, environ, platform))
        return self.skip or self._own.skip or next(found, "")

    @property
    def does_its_steps(self) -> bool:
        """Whether the steps of the file are executed, at least at first, and no agent chooses others in their place."""
        return bool(self.steps) and self.agent in (None, SCRIPTED)

    @property
    def only_its_steps(self) -> bool:
        """Whether nothing but the steps of the file can be done."""
        return self.does_its_steps and not self.agent_fallback

    @property
    def own(self) -> Own:
        """What the project's own keys give."""
        return self._own

    def with_own_keys(self, own: Own) -> TaskSpec:
        """Store what the project's own keys give; their tags are added to the task's tags."""
        if own.tags:
            self.tags = tuple(dict.fromkeys((*self.tags, *own.tags)))
        self._own = own
        return self

    def with_profile(self, name: str) -> TaskSpec:
        """Store the name of the browser profile."""
        self._profile = name
        return self

    def with_repetition(self, name: str) -> TaskSpec:
        """Store which of several repetitions it is."""
        self._repetition = name
        return self

    def limits(self, usual: TimeoutProfile = _USUAL) -> Limits:
        """`timeout` and `step_timeout`: as declared, else by the task's profile, else by the `usual` one."""
        declared = {name: getattr(self, name) for name in Limits._fields if name in self.model_fields_set}
        return _PROFILES[self.timeout_profile or usual]._replace(**declared)

    def with_place(self, folder: Path, source: str) -> TaskSpec:
        """Store the place that the task came from."""
        self._place = (folder, source)
        return self
