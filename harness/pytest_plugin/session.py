"""The hooks of a session that collects tasks; `activation` registers them when it meets its first task file."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from harness.pytest_plugin.ci import asked_for
from harness.pytest_plugin.items import CHANNELS
from harness.pytest_plugin.options import WITH_DEPENDENCIES, refuse_without_cluster
from harness.pytest_plugin.role import RUN_ID, Role, role_of, worker_input
from harness.pytest_plugin.selection import WithDependencies, arrange, names_of, task_items
from harness.pytest_plugin.settings import settings_of
from harness.pytest_plugin.signals import Signals
from harness.pytest_plugin.state import AFRESH, DONE, STATE, SessionState


def begin(config: pytest.Config, name: str) -> None:
    """Read the settings, make the state, and register the hooks of this module. Raises UsageError for bad settings."""
    settings = settings_of(config)
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
    """Name and object of each plugin that acts on the collection."""
    signals = Signals(config)
    signals.begin()
    yield "taskspec-signals", signals
    if config.getoption(WITH_DEPENDENCIES):
        yield "taskspec-dependencies", WithDependencies()
    if role_of(config) is not Role.DRIVER:
        refuse_without_cluster(config)
    elif not config.getoption("collectonly"):
        from harness.pytest_plugin.cluster import ClusterRun

        yield "taskspec-cluster", ClusterRun(config, state)
    if shard := config.getoption("--task-shard"):
        from harness.pytest_plugin.shards import Sharding

        yield "taskspec-shard", Sharding(shard, state.durations)
    if config.getoption("task_store"):
        from harness.pytest_plugin.stored import begin_store

        state.stored = stored = begin_store(config, state)
        yield from stored.plugins(config)
    if asked_for(config):
        from harness.pytest_plugin.ci_page import CiPage

        yield "taskspec-ci-page", state.fence.enclose("job summary", CiPage(config, state))


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
    state.selected = {item.loaded.spec.task_id for item in tasks}
    state.names = names_of(tasks)
    state.last = {
        each.loaded.spec.episode_id: each.loaded.spec.task_id for each in tasks if each.loaded.spec.episode_id
    }
    state.look_at_plans([item.loaded.spec for item in tasks])
    if tasks and not session.config.getoption("collectonly"):
        from harness.pytest_plugin.running import begin_run  # it loads what reports a run

        begin_run(session.config, tasks)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Let the run go on after a broken task file, which is an error of its own."""
    broken = session.config.stash[STATE].broken
    if broken and broken == session.testsfailed:  # no other file is broken
        session.config.option.continue_on_collection_errors = True
