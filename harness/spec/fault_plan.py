"""`*.faults.yaml`: faults and the tasks that they strike, apart from the tasks' own files."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from msgspec import Struct
from pydantic import BaseModel, Field, ValidationError, model_validator

from harness.recovery.declaration import Declaration
from harness.spec.fault_checks import fault_problems, same_ids, uncalled_tool, unused_act
from harness.spec.faults import Fault
from harness.spec.faults.base import FaultExpect
from harness.spec.file_names import PLAN_SUFFIXES
from harness.spec.loaded import Loaded
from harness.spec.parametrize import base_id
from harness.spec.problems import JsonPath, Problem, SpecError, describe_value, did_you_mean
from harness.spec.references import ONLY_STEPS, BadReferenceError, references
from harness.spec.source import Origin, read_mapping
from harness.spec.task import TaskSpec
from harness.spec.validation import FAULTS, NO_FAULT, not_a_key, problems_of_error, too_many_items, value_at

# Problems of a fault plan: in its types, and beyond them.

_MAY_REFER = "references to inputs, persona, param, env, fake or now"
_OF_TASKS = ("tuple_type", "too_short", "string_type")
"""Types of pydantic's errors about `tasks`, which stands beside the keys of the fault."""


def _plan_problems(plan: FaultPlan, origin: Origin, channels: frozenset[str] | None) -> Iterator[Problem]:
    """Yield all problems of a plan whose types are right. Without `channels`, every channel name is accepted."""
    for number, planned in enumerate(plan.faults):
        yield from fault_problems(planned.fault, ("faults", number), origin, channels)
    yield from same_ids([planned.fault for planned in plan.faults], origin)
    yield from _reserved_ids(plan, origin)
    yield from _of_references(plan, origin)


CLEAN = "clean"
"""What reports and folders call trials without a fault."""


def _reserved_ids(plan: FaultPlan, origin: Origin) -> Iterator[Problem]:
    """Yield problems for ids that mean other trials: those without a fault, and those of a fault that has no id."""
    unnamed = {_kind_name(plan, number): number for number, each in enumerate(plan.faults) if not each.fault.id}
    for number, planned in enumerate(plan.faults):
        name, path = planned.fault.id, ("faults", number, "id")
        if name == CLEAN:
            yield origin.problem(path, "`clean` is what the trials without a fault are called", hint="use another id")
        elif name in unnamed:
            yield origin.problem(path, f"the id `{name}` is what faults[{unnamed[name]}] is called, which has no id")


def _kind_name(plan: FaultPlan, number: int) -> str:
    """The name of a fault without an id."""
    return f"{plan.faults[number].fault.kind}-{number}"


def _broken_plan_problems(
    error: ValidationError, data: dict[str, Any], origin: Origin, channels: frozenset[str] | None
) -> Iterator[Problem]:
    """Yield pydantic's errors in plain words with their places, and all problems of the rest of the plan."""
    found = list(problems_of_error(error, data, origin))
    yield from (_in_plain_words(path, kind, problem, data, origin) for path, kind, problem in found)
    rest = _partial_plan(data, [path for path, _, _ in found])
    if rest is not None:
        yield from _plan_problems(rest, origin, channels)


def _in_plain_words(path: JsonPath, kind: str, problem: Problem, data: dict[str, Any], origin: Origin) -> Problem:
    if kind == "extra_forbidden":
        return not_a_key(path, list(_keys(path[:-1], data)), origin)
    if len(path) == 2 and kind in _OF_TASKS:
        said, expected = describe_value(value_at(data, (*path, "tasks"))), "the id of a task, or a list of ids"
        return origin.problem((*path, "tasks"), "not a task id", expected=expected, found=said)
    return problem


def _partial_plan(data: dict[str, Any], wrong: Iterable[JsonPath]) -> FaultPlan | None:
    """The plan without its wrong parts; its faults keep their numbers. None if nothing usable is left."""
    rest: dict[str, Any] = copy.deepcopy(data)
    for path in wrong:
        if len(path) > 1 and path[0] == "faults" and isinstance(path[1], int):
            rest["faults"][path[1]] = NO_FAULT
        else:
            rest.pop(str(path[0]), None)
    try:
        return FaultPlan.model_validate_json(json.dumps(rest), strict=True)
    except ValidationError:
        return None


def _of_references(plan: FaultPlan, origin: Origin) -> Iterator[Problem]:
    """Yield the problems of malformed references; what they refer to is known only with the task."""
    for number, planned in enumerate(plan.faults):
        for key, text in planned.fault:
            if not isinstance(text, str):
                continue
            try:
                found = {wanted.namespace for _, wanted in references(text)}
            except BadReferenceError as error:
                message, within = f"{error.reference}: {error.problem}", (text, error.offset)
                yield origin.problem(("faults", number, key), message, hint=error.hint, within=within)
                continue
            if found & {"memory", "totp"}:
                message = "memory can be used in steps and criteria only" if "memory" in found else ONLY_STEPS
                yield origin.problem(("faults", number, key), message, expected=_MAY_REFER)


def _keys(around: JsonPath, data: dict[str, Any]) -> Iterator[str]:
    """The keys that a mapping at this path may have."""
    match around:
        case ():
            yield from FaultPlan.model_fields
        case ("gate",):
            yield from Gate.model_fields
        case ("faults", int(), "expect"):
            yield from FaultExpect.model_fields
        case ("faults", int()):
            kind = (value_at(data, around) or {}).get("kind")
            one = isinstance(kind, str) and kind in FAULTS
            models: Iterable[type[BaseModel]] = [FAULTS[str(kind)]] if one else FAULTS.values()
            yield "tasks"
            yield from dict.fromkeys(key for model in models for key in model.model_fields)


_ALL = ("*",)


class PlannedFault(Declaration):
    """A fault, and the tasks that it strikes. In a file, the fault's keys stand beside `tasks`."""

    tasks: tuple[str, ...] = Field(
        _ALL,
        min_length=1,
        description="Ids of the tasks that the fault strikes, one or a list; `*` and `?` are wildcards.",
    )
    fault: Fault

    @model_validator(mode="before")
    @classmethod
    def _as_in_a_file(cls, data: Any) -> Any:
        if not isinstance(data, dict) or isinstance(data.get("fault"), BaseModel):
            return data
        tasks = data.get("tasks", _ALL)
        listed = (tasks,) if isinstance(tasks, str) else tuple(tasks) if isinstance(tasks, list) else tasks
        return {"tasks": listed, "fault": {key: value for key, value in data.items() if key != "tasks"}}

    def strikes(self, spec: TaskSpec) -> bool:
        """Return whether the fault strikes this task; the id of a file means all of its cases."""
        return any(_matches(pattern, spec) for pattern in self.tasks)


class Gate(Declaration):
    """Thresholds that decide a campaign, instead of each single expectation. Shares, 0 to 1."""

    recovery: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Least share of the transient faults with `recovered: true` that the tasks must recover from, as "
        "a share.",
    )
    classification: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Least share of the failures with a declared `code` that must get this code, as a share.",
    )
    artifacts: float | None = Field(
        None, ge=0, le=1, description="Least share of the failed trials that must have all their artifacts, as a share."
    )
    clean: float | None = Field(
        None, ge=0, le=1, description="Least share of the clean trials that must pass, as a share."
    )


class FaultPlan(Declaration):
    """A file of faults: for `pytest --task-faults`, and for the campaigns of `harness chaos`."""

    name: str = Field("", max_length=100, description="Name of the plan in reports. Default: the name of the file.")
    goal: str = Field("", max_length=10_000, description="What the plan is meant to show, for the reader.")
    seed: int | None = Field(None, ge=0, description="Seed for `probability`. Default: the `seed` of each task.")
    faults: tuple[PlannedFault, ...] = Field(
        min_length=1, description="The faults, in the order in which they are armed."
    )
    gate: Gate | None = Field(None, description="Thresholds that decide a campaign. Default: every `expect` must hold.")

    def of(self, spec: TaskSpec) -> Iterator[tuple[int, Fault]]:
        """The faults that strike a task, each with its number in the file."""
        return ((number, each.fault) for number, each in enumerate(self.faults) if each.strikes(spec))


def _matches(pattern: str, spec: TaskSpec) -> bool:
    """Return whether a pattern names the task. Brackets are those of a case (`T[a]`), not a set of letters."""
    plain = pattern.replace("[", "[[]")
    return any(fnmatchcase(name, plain) for name in (spec.task_id, base_id(spec)))


# Reads a fault plan from its file, and reports all of its problems at once.


class LoadedFaultPlan(Struct, frozen=True):
    """A plan that was read from a file, with its origin."""

    plan: FaultPlan
    path: Path
    origin: Origin
    warnings: tuple[Problem, ...] = ()
    """The warnings about the plan."""

    @property
    def source(self) -> str:
        """The file's path as shown to people."""
        return self.origin.file

    @property
    def name(self) -> str:
        """The name that the plan declares; else its file's name."""
        file = self.path.name
        suffix = next((each for each in PLAN_SUFFIXES if file.lower().endswith(each)), self.path.suffix)
        return self.plan.name or file[: len(file) - len(suffix)] or file

    def name_of(self, number: int) -> str:
        """The `id` of a fault; else its kind and its number in the file."""
        fault = self.plan.faults[number].fault
        return fault.id or _kind_name(self.plan, number)


def load_fault_plan(path: Path, known_channels: frozenset[str] | None = None) -> LoadedFaultPlan:
    """Load a plan. Raises SpecError with all its problems. Without `known_channels` every channel is accepted."""
    source = read_mapping(path)
    origin = Origin(source.file, source)
    data = {key: value for key, value in source.data.items() if key != "$schema"}
    if large := list(too_many_items(data, origin)):
        raise SpecError(large)
    try:
        plan = FaultPlan.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        wrong = _broken_plan_problems(error, data, origin, known_channels)
        raise SpecError(_sort_by_place(each for each in wrong if each.severity == "error")) from None
    problems = _sort_by_place(_plan_problems(plan, origin, known_channels))
    if errors := [each for each in problems if each.severity == "error"]:
        raise SpecError(errors)
    return LoadedFaultPlan(plan, path, origin, tuple(problems))


def idle_patterns(loaded: LoadedFaultPlan, tasks: Sequence[Loaded]) -> Iterator[Problem]:
    """Yield warnings for patterns that match no task, and for steps and acts that none of the tasks has."""
    known = [task.spec.task_id for task in tasks]
    for number, planned in enumerate(loaded.plan.faults):
        path: JsonPath = ("faults", number)
        for place, pattern in enumerate(planned.tasks):
            if not any(_matches(pattern, task.spec) for task in tasks):
                single = isinstance(
                    value_at(loaded.origin.main.data if loaded.origin.main else {}, (*path, "tasks")), str
                )
                where: JsonPath = (*path, "tasks") if single else (*path, "tasks", place)
                message, hint = f"no task matches `{pattern}`", did_you_mean(pattern, known)
                yield loaded.origin.problem(where, message, hint=hint, severity="warning")
        struck = [task.spec for task in tasks if planned.strikes(task.spec)]
        yield from _too_late(loaded, path, planned, struck) or _without_its_step(loaded, path, planned, struck)


def _too_late(loaded: LoadedFaultPlan, path: JsonPath, planned: PlannedFault, struck: list[TaskSpec]) -> list[Problem]:
    """A warning if none of the tasks has the fault's step, or one that is called by its name does not."""
    if not struck or not all(spec.steps for spec in struck):
        return []
    step, most = planned.fault.step, max(len(spec.steps) for spec in struck)
    named = (spec for spec in struck if {spec.task_id, base_id(spec)} & {*planned.tasks})
    short = next((spec for spec in named if len(spec.steps) <= step), None)
    if step >= most:
        message, known = f"no task that it strikes has a step {step}: it would never strike", most
    elif short is not None:
        message, known = f"{short.task_id} has no step {step}: it would never strike there", len(short.steps)
    else:
        return []
    return [loaded.origin.problem((*path, "step"), message, expected=f"0 to {known - 1}", severity="warning")]


def _without_its_step(
    loaded: LoadedFaultPlan, path: JsonPath, planned: PlannedFault, struck: list[TaskSpec]
) -> list[Problem]:
    if (tool := uncalled_tool(planned.fault, struck)) is not None:
        message = f"no task that it strikes has a step from step {planned.fault.step} on that calls {tool}"
        return [loaded.origin.problem((*path, "kind"), message, severity="warning")]
    act = unused_act(planned.fault, struck)
    if act is None:
        return []
    message = f"no task that it strikes has a step from step {planned.fault.step} on with the act `{act}`"
    return [loaded.origin.problem((*path, "act"), message, severity="warning")]


def _sort_by_place(problems: Iterable[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda each: (each.line or 0, each.column or 0))
