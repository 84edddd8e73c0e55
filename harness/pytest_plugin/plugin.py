"""Entry point `pytest11`: the options, and what finds the first task file. All else is loaded then (`activation`).

A session without task files must not notice this plugin, so what this module imports is light.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pytest

from harness.pytest_plugin import foreign, options, ordinary_tests
from harness.pytest_plugin import hookspecs as hooks
from harness.pytest_plugin.activation import end_rare_garbage, expects_tasks, is_task, session_state
from harness.spec.file_names import is_fault_plan, is_gate, is_step_group

if TYPE_CHECKING:
    from harness.pytest_plugin.items import TaskItem

# Ctrl-C while pytest still loads its plugins and the project: nothing has begun, so one line says it all.

_before = sys.excepthook


def _tell_in_one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("\ninterrupted before the run began\n")
    else:
        _before(kind, error, trace)


sys.excepthook = _tell_in_one_line  # until pytest handles an interruption itself


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add_options(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, Any, Any]:
    """Handle the aliases before and after all other plugins and the first conftest.py files register their options."""
    options.look_ahead(early_config, parser, args)
    result = yield
    ours = options.settle(parser, args)
    options.refuse_contradictions(early_config, ours)
    foreign.note_given(early_config, parser, args)
    return result


def pytest_configure(config: pytest.Config) -> None:
    if sys.excepthook is _tell_in_one_line:
        sys.excepthook = _before
    # What is added first is done last: pytest's own, which are added after this one, search for garbage once more.
    config.add_cleanup(partial(end_rare_garbage, config))
    config.addinivalue_line("markers", "taskspec: a task of a TaskSpec file")
    config.pluginmanager.register(ordinary_tests, "taskspec-ordinary-tests")
    if config.pluginmanager.hasplugin("playwright"):
        from harness.pytest_plugin import playwright as system_browser

        config.pluginmanager.register(system_browser, "taskspec-system-browser")
    if expects_tasks(config):
        session_state(config)


# The files that become tasks. What reads them is loaded with the first one (`items`).

_REFUSED: pytest.StashKey[pytest.UsageError] = pytest.StashKey()
"""Why tasks cannot be collected: the settings of the project are bad."""


class TaskFile(pytest.Module):
    """A file with one task, perhaps with several cases.

    It is a Module, so that module-scoped fixtures work; there is no Python module behind it.
    """

    obj = None

    def collect(self) -> Iterable[TaskItem]:
        if _REFUSED in self.config.stash:
            return []
        try:
            state = session_state(self.config)
        except pytest.UsageError as error:  # raised here it would be an error of this file
            self.config.stash[_REFUSED] = error
            return []
        from harness.pytest_plugin.items import items_of

        try:
            return list(items_of(self))
        except BaseException:
            state.broken += 1
            raise


class NoTaskFile(pytest.File):
    """A file of this project that was named as if it were a task."""

    def collect(self) -> Iterable[pytest.Item]:
        if is_step_group(self.path):
            what, right = "a step group", f"a task runs its steps with `use: {self.path.name.partition('.')[0]}`"
        elif is_gate(self.path):
            what, right = "the gate of an evaluation", f"harness eval TASKS --gate {self.path}"
        else:
            what, right = "a fault plan", f"pytest TASKS --task-faults {self.path}"
        raise self.CollectError(f"{self.path.name} is {what}, not a task: {right}")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The collector of a task file. pytest asks about all files beside a named one too, so nothing is read yet."""
    named = parent.session.isinitpath(file_path)
    if named and (is_fault_plan(file_path) or is_step_group(file_path) or is_gate(file_path)):
        return NoTaskFile.from_parent(parent, path=file_path)
    if is_task(file_path, tuple(parent.config.getini("taskspec_files")), named=named):
        return TaskFile.from_parent(parent, path=file_path)
    return None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """If tasks could not be collected, say this reason, and not that tasks are missing since."""
    try:
        return (yield)
    finally:
        if refused := session.config.stash.get(_REFUSED, None):
            raise refused
