"""Reads a fault plan from its file, with every problem of it told at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from harness.spec.complaints import at
from harness.spec.fault_plan import SUFFIXES, FaultPlan, PlannedFault, is_fault_plan, matches
from harness.spec.fault_plan_checks import plan_complaints, plan_problems
from harness.spec.loaded import Loaded
from harness.spec.origin import Origin
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
        raise SpecError(_sorted(plan_complaints(error, data, origin))) from None
    if problems := _sorted(plan_problems(plan, origin, known_channels)):
        raise SpecError(problems)
    return LoadedFaultPlan(plan, path, origin)


def idle_patterns(loaded: LoadedFaultPlan, tasks: Sequence[Loaded]) -> Iterator[Problem]:
    """Warnings: patterns that no task matches, and steps that none of the tasks has."""
    known = [task.spec.task_id for task in tasks]
    for number, planned in enumerate(loaded.plan.faults):
        path: Way = ("faults", number)
        for place, pattern in enumerate(planned.tasks):
            if not any(matches(pattern, task.spec) for task in tasks):
                single = isinstance(at(loaded.origin.main.data if loaded.origin.main else {}, (*path, "tasks")), str)
                where: Way = (*path, "tasks") if single else (*path, "tasks", place)
                message, hint = f"no task matches `{pattern}`", did_you_mean(pattern, known)
                yield loaded.origin.problem(where, message, hint=hint, severity="warning")
        yield from _too_late(loaded, path, planned, [task.spec for task in tasks if planned.strikes(task.spec)])


def _too_late(loaded: LoadedFaultPlan, path: Way, planned: PlannedFault, struck: list[TaskSpec]) -> Iterator[Problem]:
    most = max((len(spec.steps) for spec in struck if spec.steps), default=None)
    if most is not None and planned.fault.step >= most and all(spec.steps for spec in struck):
        message = f"no task that it strikes has a step {planned.fault.step}: it would never strike"
        yield loaded.origin.problem((*path, "step"), message, expected=f"0 to {most - 1}", severity="warning")


def _sorted(problems: Iterable[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda each: (each.line or 0, each.column or 0))


def _stem(path: Path) -> str:
    suffix = next((each for each in SUFFIXES if path.name.lower().endswith(each)), path.suffix)
    return path.name[: len(path.name) - len(suffix)] or path.name
