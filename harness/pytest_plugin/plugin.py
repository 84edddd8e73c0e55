"""Entry point `pytest11`: hooks only; what they do stands in the modules beside it."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from harness.pytest_plugin import options
from harness.pytest_plugin.collect import CHANNELS, TaskFile, TaskItem, collect_file, register_mark
from harness.pytest_plugin.lost import report_lost_task
from harness.pytest_plugin.order import ordered, task_items
from harness.pytest_plugin.run import RECORD
from harness.pytest_plugin.state import STATE, State
from harness.pytest_plugin.terminal import environment, live_progress, write_summary
from harness.reporting.allure_files import write_allure_files
from harness.reporting.history import LAST_RUN, write_last_run
from harness.reporting.task_record import TaskRecord
from harness.spec.suite import check_suite


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add_own(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser) -> Generator[None, Any, Any]:
    result = yield
    options.add_shared(parser)
    return result


def pytest_configure(config: pytest.Config) -> None:
    register_mark(config, "taskspec")
    settings = options.settings_of(config)
    config.stash[STATE] = State(settings, live_progress(config))
    config.stash[CHANNELS] = frozenset(settings.channels) or None
    if worker := getattr(config, "workerinput", None):
        config.stash[STATE].run_id = worker["taskspec_run_id"]
    elif config.pluginmanager.hasplugin("xdist"):
        from harness.pytest_plugin.xdist import XdistHooks

        config.pluginmanager.register(XdistHooks(), "taskspec-xdist")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist: every worker writes under the run of the controller, which owns the services."""
    state = node.config.stash[STATE]
    node.workerinput["taskspec_run_id"] = state.run_id
    if state.settings.services and not node.config.getoption("collectonly"):
        state.harness().start()


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: Any, sched: Any) -> None:
    """xdist: a worker died while it ran this item."""
    state: State = sched.config.stash[STATE]
    if record := report_lost_task(state, crashitem):
        report.taskspec = record.model_dump(mode="json")
        report.longrepr = f"{report.longrepr}\n  artifacts: {record.artifacts}"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> TaskFile | None:
    return collect_file(file_path, parent)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    state = config.stash[STATE]
    tasks = task_items(items)
    if problems := [p for p in check_suite([item.loaded for item in tasks]) if p.severity == "error"]:
        raise pytest.UsageError("\n".join(map(str, problems)))
    items[:] = ordered(items)
    state.selected = {item.loaded.spec.task_id for item in tasks}


def pytest_itemcollected(item: pytest.Item) -> None:
    if isinstance(item, TaskItem):
        item.config.stash[STATE].known.add(item.loaded.spec.task_id)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
    """The record travels as an attribute of the report; xdist carries it to the controller."""
    report = yield
    if call.when == "call" and (record := item.stash.get(RECORD, None)):
        report.taskspec = record.model_dump(mode="json")
    return report


def pytest_unconfigure(config: pytest.Config) -> None:
    if state := config.stash.get(STATE, None):
        state.close()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    records = _records(terminalreporter)
    if not records or hasattr(config, "workerinput"):
        return
    state = config.stash[STATE]
    write_last_run(state.settings.root / LAST_RUN, state.run_id, records)
    if alluredir := config.getoption("--alluredir", None):
        write_allure_files(Path(alluredir), environment(config, state), os.environ)
    write_summary(terminalreporter, records, state.settings, Path(alluredir) if alluredir else None)


def _records(terminalreporter: Any) -> list[TaskRecord]:
    reports = [r for kind in ("passed", "failed", "rerun") for r in terminalreporter.stats.get(kind, [])]
    return [TaskRecord.model_validate(report.taskspec) for report in reports if hasattr(report, "taskspec")]
