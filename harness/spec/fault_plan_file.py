"""Reads a fault plan from its file, with every problem of it told at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from harness.spec.complaints import at
from harness.spec.fault_checks import unused_act
from harness.spec.fault_plan import SUFFIXES, FaultPlan, PlannedFault, is_fault_plan, matches
from harness.spec.fault_plan_checks import broken_plan_problems, plan_problems
from harness.spec.loaded import Loaded
from harness.spec.origin import Origin
from harness.spec.parametrize import base_id
from harness.spec.problems import Problem, SpecError, Way, did_you_mean
from harness.spec.source import read_mapping
from harness.spec.task import TaskSpec

_GUARDED = ("$schema",)
"""Keys for editors, of no effect here."""


@dataclass(frozen=True, slots=True)
class LoadedFaultPlan:
    """A plan that was read from a file, and where it came from."""

    plan: FaultPlan
    path: Path
    origin: Origin
    warnings: tuple[Problem, ...] = ()
    """What is odd about it, and no error."""

    @property
    def source(self) -> str:
        """The file, as shown to people."""
        return self.origin.file

    @property
    def name(self) -> str:
        """What it calls itself; else its file's name."""
        return self.plan.name or _stem(self.path)

    def name_of(self, number: int) -> str:
        """A fault's `id`; else its kind and its number in the file."""
        fault = self.plan.faults[number].fault
        return fault.id or f"{fault.kind}-{number}"


def find_fault_plans(paths: Iterable[Path]) -> list[Path]:
    """Those named, and all below the folders named; sorted within a folder."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            found |= dict.fromkeys(sorted(each for each in path.rglob("*") if _counts(each, path)))
        elif is_fault_plan(path) and path.exists():
            found[path] = None
    return list(found)


def _counts(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") or part == "node_modules" for part in path.relative_to(folder).parts)
    return not hidden and is_fault_plan(path) and path.is_file()


def load_fault_plan(path: Path, known_channels: frozenset[str] | None = None) -> LoadedFaultPlan:
    """Raises SpecError with all of the file's problems. Without `known_channels`, any name of a channel is taken."""
    source = read_mapping(path)
    origin = Origin(source.file, source)
    data = {key: value for key, value in source.data.items() if key not in _GUARDED}
    try:
        plan = FaultPlan.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        wrong = broken_plan_problems(error, data, origin, known_channels)
        raise SpecError(_sorted(each for each in wrong if each.severity == "error")) from None
    problems = _sorted(plan_problems(plan, origin, known_channels))
    if errors := [each for each in problems if each.severity == "error"]:
        raise SpecError(errors)
    return LoadedFaultPlan(plan, path, origin, tuple(problems))


def idle_patterns(loaded: LoadedFaultPlan, tasks: Sequence[Loaded]) -> Iterator[Problem]:
    """Warnings: patterns that no task matches, and steps and acts that none of the tasks has."""
    known = [task.spec.task_id for task in tasks]
    for number, planned in enumerate(loaded.plan.faults):
        path: Way = ("faults", number)
        for place, pattern in enumerate(planned.tasks):
            if not any(matches(pattern, task.spec) for task in tasks):
                single = isinstance(at(loaded.origin.main.data if loaded.origin.main else {}, (*path, "tasks")), str)
                where: Way = (*path, "tasks") if single else (*path, "tasks", place)
                message, hint = f"no task matches `{pattern}`", did_you_mean(pattern, known)
                yield loaded.origin.problem(where, message, hint=hint, severity="warning")
        struck = [task.spec for task in tasks if planned.strikes(task.spec)]
        yield from _too_late(loaded, path, planned, struck) or _without_its_act(loaded, path, planned, struck)


def _too_late(loaded: LoadedFaultPlan, path: Way, planned: PlannedFault, struck: list[TaskSpec]) -> list[Problem]:
    """None of the tasks has the step, or one has not that is called by its name."""
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


def _without_its_act(
    loaded: LoadedFaultPlan, path: Way, planned: PlannedFault, struck: list[TaskSpec]
) -> list[Problem]:
    act = unused_act(planned.fault, struck)
    if act is None:
        return []
    message = f"no task that it strikes has, from step {planned.fault.step} on, a step of the act `{act}`"
    return [loaded.origin.problem((*path, "act"), message, severity="warning")]


def _sorted(problems: Iterable[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda each: (each.line or 0, each.column or 0))


def _stem(path: Path) -> str:
    suffix = next((each for each in SUFFIXES if path.name.lower().endswith(each)), path.suffix)
    return path.name[: len(path.name) - len(suffix)] or path.name
