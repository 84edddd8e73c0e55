"""The files that a campaign is made of, read and checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.cli.checking import check_paths
from harness.cli.project import project_of
from harness.faults.checks import Project, misplaced_in_plan
from harness.model.settings import Settings, load_settings
from harness.spec.fault_plan import LoadedFaultPlan, idle_patterns, load_fault_plan
from harness.spec.loaded import Loaded
from harness.spec.parametrize import expand
from harness.spec.problems import Problem, SpecError
from harness.spec.suite import by_name


@dataclass(frozen=True, slots=True)
class Given:
    """A fault plan, the tasks it may strike, and the project they belong to."""

    loaded: LoadedFaultPlan
    tasks: tuple[Loaded, ...]
    settings: Settings
    warnings: tuple[Problem, ...]


def given(paths: list[Path], faults: Path) -> Given:
    """Raises SpecError or SettingsError for files that are wrong."""
    checked = check_paths(paths, strict=False, needs_steps=False)
    errors = [each for each in checked.problems if each.severity == "error" and each.file not in checked.plans]
    if errors or not checked.loaded:
        raise SpecError(errors or [Problem("", None, None, "", f"no task files in {', '.join(map(str, paths))}")])
    settings = load_settings(project_of(checked.loaded[0].folder) or Path.cwd())
    loaded = load_fault_plan(faults, frozenset(settings.channels) or None)
    tasks = tuple(case for task in checked.loaded for case in expand(task))
    places = list(misplaced_in_plan(loaded, Project(settings)))
    if wrong := [each for each in places if each.severity == "error"]:
        raise SpecError(wrong)
    odd = (*loaded.warnings, *places, *idle_patterns(loaded, tasks), *_alone(loaded, tasks))
    return Given(loaded, tasks, settings, odd)


def _alone(loaded: LoadedFaultPlan, tasks: tuple[Loaded, ...]) -> Iterator[Problem]:
    """Warnings: what a struck task depends on is not there, so that it cannot run before it."""
    known = by_name(tasks)
    for task in tasks:
        if not any(True for _ in loaded.plan.of(task.spec)):
            continue
        for number, name in enumerate(task.spec.dependencies):
            if name not in known:
                message, hint = f"`{name}` is not among these tasks", "name its file, too"
                yield task.origin.problem(("dependencies", number), message, hint=hint, severity="warning")
