"""Entry point `pytest11`: the options, and what finds the first task file. All else is loaded then (`activation`).

A session without task files must not notice this plugin, so what this module imports is light.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.pytest_plugin import early, foreign, options, ordinary_tests
from harness.pytest_plugin import hookspecs as hooks
from harness.pytest_plugin.activation import end_rare_garbage, expects_tasks, session_state
from harness.pytest_plugin.collect import collect_file, refuse

early.in_one_line()


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
    early.end()
    # What is added first is done last: pytest's own, which are added after this one, search for garbage once more.
    config.add_cleanup(partial(end_rare_garbage, config))
    config.addinivalue_line("markers", "taskspec: a task of a TaskSpec file")
    config.pluginmanager.register(ordinary_tests, "taskspec-ordinary-tests")
    if config.pluginmanager.hasplugin("playwright"):
        from harness.pytest_plugin import playwright as system_browser

        config.pluginmanager.register(system_browser, "taskspec-system-browser")
    if expects_tasks(config):
        session_state(config)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return collect_file(file_path, parent)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    try:
        return (yield)
    finally:
        refuse(session.config)
