"""TaskSpec files become pytest items, by public API only (docs/design/pytest-and-parallel.md)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from harness.model.settings import Settings
from harness.pytest_plugin.errors import TaskFailed, TaskSpecWarning
from harness.pytest_plugin.state import STATE
from harness.reporting.allure.labels import entitle, labels
from harness.spec.load import load_file
from harness.spec.loaded import Loaded
from harness.spec.names import commandless
from harness.spec.parametrize import expand, param
from harness.spec.problems import Problem, SpecError
from harness.spec.references import ReferenceScope, as_text, interpolate
from harness.spec.task import TaskSpec

# The advice for a project that does not declare how its tasks' states are kept apart.

TOLD = "isolation-told"
"""The file in `.harness` that marks that the first run has said it."""


def undeclared_lines(config: pytest.Config, settings: Settings) -> list[str]:
    """Lines about what to declare, and why: after the first run, and each that could not run tasks in parallel."""
    channels = settings.writable_channels
    if settings.isolation is not None or not channels:
        return []
    told = settings.root / ".harness" / TOLD
    parallel = settings.task_workers != 1 or bool(config.getoption("numprocesses", None))
    if told.exists() and not parallel:
        return []
    with suppress(OSError):  # then the advice is shown once more
        told.touch()
    names = ", ".join(f"`{name}`" for name in channels)
    what = f"channel {names} can" if len(channels) == 1 else f"channels {names} can"
    return [
        f"isolation is not declared, so tasks run one at a time, because {what} be written.",
        "  Otherwise tasks would meet each other's changes, and going back to a checkpoint would undo them.",
        "  Declare it in [tool.harness] of pyproject.toml (docs/own-site.md, Isolation):",
        '    isolation = "world"  the site keeps a state for each id in the requests; tasks run in parallel',
        '    isolation = "reset"  one state, reset before each task',
        '    isolation = "none"   one state, never reset and never restored',
    ]


CHANNELS: pytest.StashKey[frozenset[str] | None] = pytest.StashKey()
"""The names of the environment channels; None if the project declares none."""


class TaskItem(pytest.Function):
    """One task, or one case of it."""

    loaded: Loaded
    cases: tuple[Loaded, ...]
    """All cases that its file declares, selected for this run or not."""

    @property
    def id(self) -> Any:
        """The id of the case: pytest 9.2 keeps it apart for `--lf`; older versions have no `id`."""
        whole = super().id
        return type(whole).parse(str(whole))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:  # noqa: ARG002
        if isinstance(excinfo.value, TaskFailed):  # a declared failure explains itself: no Python traceback
            return excinfo.value.representation(self.path)
        return super().repr_failure(excinfo)


class TaskFile(pytest.Module):
    """A file with one task, perhaps with several cases.

    It is a Module, so that module-scoped fixtures work; there is no Python module behind it.
    """

    obj = None

    def collect(self) -> Iterable[TaskItem]:
        try:
            loaded = load_file(
                self.path,
                self.config.getoption("--taskspec-strict"),
                self.config.stash[CHANNELS],
                needs_steps=not self.config.stash[STATE].agent,
                agents=tuple(self.config.stash[STATE].settings.agents),
                defaults=self.config.stash[STATE].settings.defaults,
                extra_keys=self.config.stash[STATE].settings.extra_keys,
            )
        except SpecError as error:
            raise self.CollectError(commandless(str(error))) from None
        self._modified(loaded)
        for warning in (*loaded.warnings, *self._misplaced_faults(loaded)):
            self.warn(TaskSpecWarning(str(warning)))
        cases = expand(loaded)
        for case in cases:
            yield self._item(case, cases)

    def _modified(self, loaded: Loaded) -> None:
        """Let the project's hooks change the task; raises CollectError for values that do not fit."""
        try:
            self.config.hook.pytest_taskspec_modify_task(config=self.config, task=loaded.spec, path=self.path)
        except ValidationError as error:
            what = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            raise self.CollectError(
                f"{loaded.source}: pytest_taskspec_modify_task assigned an invalid value: {what}"
            ) from None
        except ValueError as error:
            raise self.CollectError(f"{loaded.source}: pytest_taskspec_modify_task: {error}") from None

    def _misplaced_faults(self, loaded: Loaded) -> list[Problem]:
        """Warnings about faults that do not fit the project; raises CollectError for one that could not even begin."""
        if not loaded.spec.faults:
            return []
        from harness.faults.checks import Project, misplaced_faults  # not loaded in a session without faults

        found = list(misplaced_faults(loaded, Project(self.config.stash[STATE].settings)))
        if errors := [each for each in found if each.severity == "error"]:
            raise self.CollectError(commandless(str(SpecError(errors))))
        return found

    def _item(self, loaded: Loaded, cases: tuple[Loaded, ...]) -> TaskItem:
        def task(request: pytest.FixtureRequest) -> None:  # a plain function: a bound method breaks reruns
            __tracebackhide__ = True
            from harness.pytest_plugin.run import perform  # the engine is loaded only in a session that runs a task

            perform(request, loaded)

        shown = _with_goal(loaded.spec)
        task.__doc__ = shown.goal
        function: Any = task
        for mark in self._marks(loaded):  # before from_parent, which reads usefixtures
            function = mark(function)
        entitle(function, shown)
        item: TaskItem = TaskItem.from_parent(self, name=loaded.spec.task_id, callobj=function)
        item.loaded, item.cases = loaded, cases
        return item

    def _marks(self, loaded: Loaded) -> list[pytest.MarkDecorator]:
        family = [f"family_{loaded.spec.family}"] if loaded.spec.family else []
        names = [*family, *loaded.spec.tags]
        for name in names:
            register_mark(self.config, name)
        left_out = [pytest.mark.skip(reason=loaded.spec.own.skip)] if loaded.spec.own.skip else []
        return [pytest.mark.taskspec, *left_out, *(getattr(pytest.mark, name) for name in names), *labels(loaded.spec)]


def _with_goal(spec: TaskSpec) -> TaskSpec:
    """The task with its goal in readable form; environment variables stay references."""
    if "${" not in spec.goal:
        return spec
    goal = as_text(interpolate(spec.goal, ReferenceScope(spec.inputs, spec.persona, param=param(spec))))
    return spec.model_copy(update={"goal": goal})


_MARKS: pytest.StashKey[set[str]] = pytest.StashKey()
"""The names that are registered already: many tasks have few tags."""


def register_mark(config: pytest.Config, name: str) -> None:
    """Register a tag as a mark, since `--strict-markers` requires that."""
    seen = config.stash.setdefault(_MARKS, set())
    if name in seen:
        return
    seen.add(name)
    known = {line.partition(":")[0].partition("(")[0].strip() for line in config.getini("markers")}
    if name not in known:
        config.addinivalue_line("markers", f"{name}: tag or family of TaskSpec files")
