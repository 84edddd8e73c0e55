"""The hooks of a session that collects tasks; `activation` registers them when it meets its first task file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.model.settings import Settings, load_settings
from harness.model.settings_errors import SettingsError
from harness.pytest_plugin.ci import asked_for
from harness.pytest_plugin.errors import TaskSpecWarning
from harness.pytest_plugin.flaky import FailOnFlaky
from harness.pytest_plugin.foreign import given_elsewhere
from harness.pytest_plugin.items import CHANNELS
from harness.pytest_plugin.narrowing import Narrowing
from harness.pytest_plugin.options import (
    TASK_OPTIONS,
    WITH_DEPENDENCIES,
    chosen_profiles,
    refuse_without_cluster,
    variants,
)
from harness.pytest_plugin.role import RUN_ID, Role, role_of, worker_input
from harness.pytest_plugin.selection import WithDependencies, arrange, names_of, task_items
from harness.pytest_plugin.signals import Signals
from harness.pytest_plugin.state import AFRESH, DONE, FLAKY, NARROWING, STATE, SessionState
from harness.spec.context import known_device
from harness.spec.problems import Problem, SpecError, did_you_mean


def begin(config: pytest.Config, name: str) -> None:
    """Read the settings, make the state, and register the hooks of this module. Raises UsageError for bad settings."""
    settings = settings_of(config)
    variants(config)  # if the command line contradicts itself, that is said before anything is collected
    state = SessionState(settings, chosen=config.getoption("--task-agent"))
    if config.getoption("task_durations"):
        from harness.pytest_plugin.shards import durations_of

        state.durations = durations_of(config)
    config.stash[STATE], config.stash[CHANNELS] = state, frozenset(settings.channels) or None
    given = worker_input(config)
    state.run_id, state.afresh = given.get(RUN_ID, state.run_id), given.get(AFRESH, "")
    state.done.update(given.get(DONE, {}))
    config.pluginmanager.register(sys.modules[__name__], name)
    for each, plugin in _plugins(config, state):
        config.pluginmanager.register(plugin, each)
    if role_of(config) is Role.CONTROLLER:  # it collects nothing, and hears of tasks from its workers
        from harness.pytest_plugin.running import begin_run

        begin_run(config)


def _plugins(config: pytest.Config, state: SessionState) -> Iterator[tuple[str, object]]:
    signals = Signals(config)
    signals.begin()
    yield "taskspec-signals", signals
    yield from _of_choice(config, state)
    if role_of(config) is not Role.DRIVER:
        refuse_without_cluster(config)
    elif not config.getoption("collectonly"):
        from harness.pytest_plugin.cluster import ClusterRun

        yield "taskspec-cluster", ClusterRun(config, state)
    if state.settings.page_tests:
        from harness.pytest_plugin.page_tests import PAGE_TESTS, PageTests

        yield PAGE_TESTS, PageTests(config, state)
    if shard := config.getoption("--task-shard"):
        from harness.pytest_plugin.shards import Sharding

        yield "taskspec-shard", Sharding(shard, state.durations, *_known_ids(state))
    if config.getoption("task_store"):
        from harness.pytest_plugin.stored import begin_store

        state.stored = stored = begin_store(config, state)
        yield from stored.plugins(config)
    if asked_for(config):
        from harness.pytest_plugin.ci_page import CiPage

        yield "taskspec-ci-page", state.fence.enclose("job summary", CiPage(config, state))


def _known_ids(state: SessionState) -> Iterator[Callable[[pytest.Item], str | None]]:
    """What names items as the history knows them, if that knows ordinary tests."""
    if state.settings.page_tests:
        from harness.pytest_plugin.page_tests import known_id

        yield known_id


def _of_choice(config: pytest.Config, state: SessionState) -> Iterator[tuple[str, object]]:
    """What chooses the tasks of the run, and judges it as a whole."""
    if role_of(config) is not Role.SLOT:  # the driver has chosen for it
        yield NARROWING, Narrowing(config, state.settings)
    if config.getoption("task_fail_on_flaky") and role_of(config).reports:
        yield FLAKY, FailOnFlaky()
    if config.getoption(WITH_DEPENDENCIES):
        yield "taskspec-dependencies", WithDependencies()


def pytest_report_header(config: pytest.Config) -> list[str]:
    plans = config.stash[STATE].plans
    if not plans or role_of(config) is not Role.CONTROLLER:  # where tests are collected, their lines say more
        return []
    from harness.reporting.summary import header_lines

    return list(header_lines(plans))


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    plans = config.stash[STATE].plans
    if not plans:
        return []
    from harness.reporting.summary import reach_lines

    return list(reach_lines(plans, [item.loaded.spec for item in task_items(items)]))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    arrange(config.stash[STATE], items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note what is selected, and begin the run if there is one."""
    state, tasks = session.config.stash[STATE], task_items(session.items)
    state.selected = {item.task_id for item in tasks}
    state.names = names_of(tasks)
    state.last = {each.loaded.spec.episode_id: each.task_id for each in tasks if each.loaded.spec.episode_id}
    state.look_at_plans([item.loaded.spec for item in tasks])
    pages = _page_tests(session) if state.settings.page_tests and session.items else None
    if (tasks or pages is not None) and not session.config.getoption("collectonly"):
        from harness.pytest_plugin.running import begin_run  # it loads what reports a run

        begin_run(session.config, tasks, pages)


def _page_tests(session: pytest.Session) -> int:
    """The number of selected ordinary tests that work in a browser."""
    from harness.pytest_plugin.page_tests import is_page_test

    return sum(map(is_page_test, session.items))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Let the run go on after a broken task file, which is an error of its own."""
    broken = session.config.stash[STATE].broken
    if broken and broken == session.testsfailed:  # no other file is broken
        session.config.option.continue_on_collection_errors = True


# The settings of a session, with the fault plans of its run.


def settings_of(config: pytest.Config) -> Settings:
    """`[tool.harness]` overridden by the command line. Warns of oddities of fault plans. Raises UsageError."""
    try:
        chosen = _chosen_settings(config)
        _check_device(chosen.get("browser", {}).get("device"))
        settings = load_settings(config.rootpath, **chosen)
        _check_profiles(config, settings, device="device" in chosen.get("browser", {}))
        oddities = check_plans(settings)
    except (SettingsError, SpecError) as error:
        raise pytest.UsageError(str(error)) from error
    for oddity in oddities if role_of(config).reports else ():
        config.issue_config_time_warning(TaskSpecWarning(str(oddity)), 2)
    return settings


def _check_device(name: str | None) -> None:
    """Raises UsageError for a `--device` that Playwright does not have."""
    try:
        known_device(name) if name else None
    except ValueError as error:
        raise pytest.UsageError(f"--device {name}: {error}") from error


def _check_profiles(config: pytest.Config, settings: Settings, *, device: bool) -> None:
    """Raises UsageError for a `--browser-profile` that the project does not have, or for two devices.

    `device`: whether the command line has one.
    """
    known = settings.browser.profiles
    for name in chosen_profiles(config):
        if name not in known:
            hint = did_you_mean(name, known) or f"known: {', '.join(sorted(known)) or 'none'}"
            message = f"--browser-profile {name}: [tool.harness.browser.profiles] has no profile of this name ({hint})"
            raise pytest.UsageError(message)
        if known[name].device is not None and device:
            raise pytest.UsageError(f"--browser-profile {name}: this profile has a device, so leave out --device")


def _chosen_settings(config: pytest.Config) -> dict[str, Any]:
    """The settings from the command line. Options of other plugins count where ours are not given."""
    chosen: dict[str, Any] = {}
    if executable := os.environ.get("HARNESS_BROWSER_EXECUTABLE"):
        _put_at(chosen, "browser.executable", executable)
    for setting, value in given_elsewhere(config):
        _put_at(chosen, setting, value)
    for option in TASK_OPTIONS:
        value = config.getoption(option.dest)
        if option.setting and value is not None and value is not False:
            _put_at(chosen, option.setting, option.turn(config, value))
    return chosen


def _put_at(table: dict[str, Any], path: str, value: object) -> None:
    first, _, rest = path.partition(".")
    if rest:
        _put_at(table.setdefault(first, {}), rest, value)
    else:
        table[first] = value


def check_plans(settings: Settings) -> list[Problem]:
    """Check that the fault plans of the run can be used, and fit its project; returns warnings. Raises SpecError."""
    if not settings.faults:
        return []
    from harness.faults.checks import Project, misplaced_in_plan  # not loaded in a session without fault plans
    from harness.runner.compile import plans_of

    problems: list[Problem] = []
    for loaded in plans_of(settings):
        problems += [*loaded.warnings, *misplaced_in_plan(loaded, Project(settings))]
    if errors := [each for each in problems if each.severity == "error"]:
        raise SpecError(errors)
    return problems
