"""Tasks become pytest items, by public API only (docs/design/pytest-and-parallel.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from harness.model.settings import Settings
from harness.pytest_plugin.errors import KnownDefect, TaskFailed, TaskSpecWarning
from harness.pytest_plugin.options import variants
from harness.pytest_plugin.role import role_of
from harness.pytest_plugin.state import STATE
from harness.recovery.failure import Failure
from harness.reporting.allure.labels import entitle, labels
from harness.spec.load import load_file
from harness.spec.loaded import Loaded
from harness.spec.names import commandless
from harness.spec.parametrize import expand, param
from harness.spec.problems import Problem, SpecError
from harness.spec.references import ReferenceScope, as_text, interpolate
from harness.spec.source import Origin, file_label
from harness.spec.task import TaskSpec

# The advice for a project that does not declare how its tasks' states are kept apart.


def undeclared_lines(config: pytest.Config, settings: Settings) -> list[str]:
    """Lines about what to declare, and why: after the first run, and each that could not run tasks in parallel."""
    channels = settings.writable_channels
    if settings.isolation is not None or not channels:
        return []
    told = settings.root / ".harness" / "isolation-told"  # the first run has said it
    parallel = settings.task_workers != 1 or role_of(config).distributes
    if told.exists() and not parallel:
        return []
    with suppress(OSError):  # then the advice is shown once more
        told.touch()
    names = ", ".join(f"`{name}`" for name in channels)
    what = f"channel {names}" if len(channels) == 1 else f"channels {names}"
    return [
        f"isolation is not declared, so tasks run one at a time, because {what} can be written.",
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
    unloaded: Failure | None = None
    """Why its file cannot be loaded; then `loaded` has hardly more than a name, and the item fails with this."""

    @property
    def task_id(self) -> str:
        return self.loaded.spec.task_id

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


def items_of(file: pytest.Module) -> Iterator[TaskItem]:
    """The items of a file: one for each case of its task, or one that fails because the file is no good task.

    Where nothing is run (`--collect-only`), such a file is an error of the collection: CollectError.
    """
    try:
        loaded = _load(file)
        _modify(file, loaded)
        warnings = (*loaded.warnings, *_misplaced_faults(file, loaded))
    except SpecError as error:
        if file.config.getoption("collectonly"):
            raise file.CollectError(commandless(str(error))) from None
        yield _unloaded(file, error)
        return
    for warning in warnings:
        file.warn(TaskSpecWarning(str(warning)))
    cases = expand(loaded, *variants(file.config))
    for case in cases:
        yield _item(file, case, cases)


def _load(file: pytest.Module) -> Loaded:
    """The task of a file, by the settings of the project. Raises SpecError."""
    state = file.config.stash[STATE]
    return load_file(
        file.path,
        file.config.getoption("--taskspec-strict"),
        file.config.stash[CHANNELS],
        needs_steps=not state.agent,
        agents=tuple(state.settings.agents),
        defaults=state.settings.defaults,
        extra_keys=state.settings.extra_keys,
        logins=tuple(state.settings.logins),
        tools={name: each.allow for name, each in state.settings.tools.items()},
        profiles=tuple(state.settings.browser.profiles),
    )


_NAMED = re.compile(r"""^[\s{"']*task_id["']?\s*:\s*["']?([A-Za-z0-9][\w.-]{0,199})""", re.MULTILINE)
"""Finds the id of a task in a file that cannot be read as a whole."""


def _unloaded(file: pytest.Module, error: SpecError) -> TaskItem:
    """The item of a file that cannot be loaded: it has the name that it would have, so that its history goes on."""
    try:
        found = _NAMED.search(file.path.read_text("utf-8", "replace"))
    except OSError:
        found = None
    first = error.problems[0]
    spec = TaskSpec(task_id=found[1] if found else file.path.name.partition(".")[0])
    item = _item(file, Loaded(spec, file.path, Origin(file_label(file.path))), ())
    details = {"file": first.file, "line": first.line, "problems": list(map(str, error.problems))}
    item.unloaded = Failure("SPEC_INVALID", str(error), details=details)
    return item


def _modify(file: pytest.Module, loaded: Loaded) -> None:
    """Let the project's hooks change the task; raises CollectError for values that do not fit."""
    try:
        file.config.hook.pytest_taskspec_modify_task(config=file.config, task=loaded.spec, path=file.path)
    except ValidationError as error:
        what = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise file.CollectError(
            f"{loaded.source}: pytest_taskspec_modify_task assigned an invalid value: {what}"
        ) from None
    except ValueError as error:
        raise file.CollectError(f"{loaded.source}: pytest_taskspec_modify_task: {error}") from None


def _misplaced_faults(file: pytest.Module, loaded: Loaded) -> list[Problem]:
    """Warnings about faults that do not fit the project; raises SpecError for one that could not even begin."""
    if not loaded.spec.faults:
        return []
    from harness.faults.checks import Project, misplaced_faults  # not loaded in a session without faults

    found = list(misplaced_faults(loaded, Project(file.config.stash[STATE].settings)))
    if errors := [each for each in found if each.severity == "error"]:
        raise SpecError(errors)
    return found


def _item(file: pytest.Module, loaded: Loaded, cases: tuple[Loaded, ...]) -> TaskItem:
    def task(request: pytest.FixtureRequest) -> None:  # a plain function: a bound method breaks reruns
        __tracebackhide__ = True
        from harness.pytest_plugin.run import perform  # the engine is loaded only in a session that runs a task

        perform(request, loaded)

    shown = _with_goal(loaded.spec)
    task.__doc__ = shown.goal
    function: Any = task
    for mark in _marks(file.config, loaded):  # before from_parent, which reads usefixtures
        function = mark(function)
    entitle(function, shown)
    item: TaskItem = TaskItem.from_parent(file, name=loaded.spec.task_id, callobj=function)
    item.loaded, item.cases = loaded, cases
    return item


def _marks(config: pytest.Config, loaded: Loaded) -> list[pytest.MarkDecorator]:
    family = [f"family_{loaded.spec.family}"] if loaded.spec.family else []
    names = dict.fromkeys([*family, *loaded.spec.tags, *(["slow"] if loaded.spec.slow else [])])
    for name in names:
        register_mark(config, name)
    reason = loaded.spec.left_out()
    left_out = [pytest.mark.skip(reason=reason)] if reason else []
    if defect := loaded.spec.expected_failure:  # `perform` raises something else for all that it does not excuse
        left_out.append(pytest.mark.xfail(reason=defect, raises=KnownDefect, strict=True))
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
