"""Checks task files, each against the settings of its project."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from harness.cli.project import project_of
from harness.settings import Settings, SettingsError, load_settings
from harness.spec.advice import advice
from harness.spec.load import Loaded, find_tasks, load_file
from harness.spec.parametrize import expand
from harness.spec.problems import Problem, SpecError
from harness.spec.source import file_label
from harness.spec.suite import check_suite


@dataclass(frozen=True, slots=True)
class Checked:
    """The files that were looked at, those that load, and all that is wrong or unwise."""

    files: tuple[str, ...]
    loaded: tuple[Loaded, ...]
    problems: tuple[Problem, ...]

    @property
    def broken(self) -> frozenset[str]:
        """Where the errors are."""
        return frozenset(each.file for each in self.problems if each.severity == "error")


def check_paths(paths: Sequence[Path], *, strict: bool) -> Checked:
    """`strict`: warnings are errors, and what specs/003 requires has to be there."""
    try:
        files = find_tasks(paths)
    except SpecError as error:
        return Checked((), (), error.problems)
    if not files:
        where, hint = ", ".join(map(str, paths)), "*.task.yaml, *.task.json, folders with task_spec.json"
        return Checked((), (), (Problem("", None, None, "", f"no task files in {where} ({hint})"),))
    projects = _Projects()
    found = [_checked(file, projects, strict) for file in files]
    loaded = [task for task, _ in found if task is not None]
    cases = [case for task in loaded for case in expand(task)]
    suite = _promoted(check_suite(cases), strict)
    problems = (*projects.problems(), *(each for _, several in found for each in several), *suite)
    return Checked(tuple(map(file_label, files)), tuple(loaded), problems)


def _checked(file: Path, projects: _Projects, strict: bool) -> tuple[Loaded | None, list[Problem]]:
    settings = projects.settings(file.parent)
    load = partial(
        load_file, file, known_channels=frozenset(settings.channels) or None, needs_steps=not settings.chosen_agent
    )
    try:
        task = load()
    except SpecError as error:
        return None, _strictly(load, list(error.problems)) if strict else list(error.problems)
    problems = [*task.warnings, *advice(task)]
    return task, _strictly(load, _promoted(problems, strict)) if strict else problems


def _strictly(load: Callable[..., Loaded], problems: list[Problem]) -> list[Problem]:
    """These, and what only strict loading finds."""
    try:
        load(strict=True)
    except SpecError as error:
        problems = [*problems, *(each for each in error.problems if each not in problems)]
    return sorted(problems, key=lambda each: (each.file, each.line or 0, each.column or 0))


def _promoted(problems: Iterable[Problem], strict: bool) -> list[Problem]:
    return [replace(each, severity="error") if strict else each for each in problems]


class _Projects:
    """The settings of each project that files belong to; those that cannot be read are told of once."""

    def __init__(self) -> None:
        self._broken: dict[str, Problem] = {}
        self.settings = cache(self._settings)

    def _settings(self, folder: Path) -> Settings:
        project = project_of(folder)
        if project is None:
            return Settings()
        try:
            return load_settings(project)
        except SettingsError as error:
            file = project / "pyproject.toml"
            message = str(error).replace(f"{file}: ", "")
            self._broken[str(file)] = Problem(file_label(file), None, None, "", message)
            return Settings()

    def problems(self) -> tuple[Problem, ...]:
        return tuple(self._broken.values())
