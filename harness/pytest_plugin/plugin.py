"""Entry point `pytest11`: the options, and what finds the first task file. All else is loaded then (`activation`).

A session without task files must not notice this plugin, so what this module imports is light.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.pytest_plugin import faults, foreign, options, ordinary_tests
from harness.pytest_plugin import hookspecs as hooks
from harness.pytest_plugin.activation import expects_tasks, is_task, session_state
from harness.spec.file_names import is_fault_plan

if TYPE_CHECKING:
    from harness.pytest_plugin.collect import TaskFile

REFUSED: pytest.StashKey[pytest.UsageError] = pytest.StashKey()
"""Why tasks cannot be collected: the settings of the project are bad."""


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
    config.addinivalue_line("markers", "taskspec: a task of a TaskSpec file")
    config.pluginmanager.register(faults, "taskspec-faults")
    config.pluginmanager.register(ordinary_tests, "taskspec-ordinary-tests")
    if config.pluginmanager.hasplugin("playwright"):
        from harness.pytest_plugin import playwright as system_browser

        config.pluginmanager.register(system_browser, "taskspec-system-browser")
    if expects_tasks(config):
        session_state(config)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> TaskFile | None:
    named = parent.session.isinitpath(file_path)
    if named and is_fault_plan(file_path):
        right = f"pytest TASKS --task-faults {file_path}"
        raise pytest.UsageError(f"{file_path.name} is a fault plan, not a task: {right}")
    config = parent.config
    if REFUSED in config.stash or not is_task(file_path, tuple(config.getini("taskspec_files")), named=named):
        return None
    try:
        session_state(config)
    except pytest.UsageError as error:  # raised here it would be an error of this file
        config.stash[REFUSED] = error
        return None
    from harness.pytest_plugin.collect import TaskFile

    return TaskFile.from_parent(parent, path=file_path)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """End the session if tasks cannot be collected, with this reason and not for files that are missing since then."""
    try:
        return (yield)
    finally:
        if refused := session.config.stash.get(REFUSED, None):
            raise refused
