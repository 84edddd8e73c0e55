"""The hooks of a run of tasks: what is set up for it, and what it reports. `begin_run` registers them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.model.tool_settings import shared_problem
from harness.pytest_plugin import foreign
from harness.pytest_plugin.history import HISTORY, RunHistory, first_line
from harness.pytest_plugin.items import TaskItem, undeclared_lines
from harness.pytest_plugin.late_reports import LateReports
from harness.pytest_plugin.narrowing import CHANGED
from harness.pytest_plugin.not_run import interrupted_tasks, not_begun
from harness.pytest_plugin.role import RUN_ID, Role, role_of
from harness.pytest_plugin.selection import task_items
from harness.pytest_plugin.shards import DURATIONS
from harness.pytest_plugin.state import BROWSER, FLAKY, NARROWING, RECORD, STATE, SessionState
from harness.pytest_plugin.telemetry import OUTPUT, TELEMETRY, RunTelemetry, check_extras, telemetry_of
from harness.pytest_plugin.terminal import add_properties, environment, torn_properties, write_summary
from harness.reporting.allure.labels import attach_text
from harness.reporting.summary import rerun_lines
from harness.reporting.task_record import LAST_RUN, TaskRecord, torn_down, write_last_run
from harness.reporting.workspace import moved_aside
from harness.runner.chain import is_remote
from harness.spec.agents import BRIDGE
from harness.spec.names import how_many

if TYPE_CHECKING:
    from harness.reporting.allure.sink import RunLabel

RUN = "taskspec-run"
"""The name of this module as a plugin."""
_RUN_LABEL: pytest.StashKey[RunLabel] = pytest.StashKey()
_ONE_PROCESS = "the agent `bridge` cannot serve the processes of `-n`: use `--task-workers`"
_EVIDENCE = "evidence of the task"
"""The title of what is said about a task whose fixture failed after it."""
_MAY_SKIP = {"skip", "skipif"}
"""Marks of an item that is perhaps not run."""


def begin_run(config: pytest.Config, tasks: Sequence[TaskItem] = ()) -> None:
    """Begin the run of a session, once, and set up its selected tasks. Raises UsageError for bad settings."""
    if not config.pluginmanager.has_plugin(RUN):
        _begin(config)
    if tasks:
        set_up(config, tasks)


def _begin(config: pytest.Config) -> None:
    """Register the hooks of this module and of those that report. Raises UsageError for bad settings."""
    state = config.stash[STATE]
    check_extras(state.settings)
    if problem := shared_problem(state.settings.tools, config.getoption("numprocesses", None) or 1):
        raise pytest.UsageError(problem)
    if state.chosen == BRIDGE and role_of(config) is Role.CONTROLLER:
        raise pytest.UsageError(_ONE_PROCESS)
    if config.getoption("--alluredir", None):
        from harness.reporting.allure.sink import RunLabel, fence_files

        fence_files(state.fence)
        config.stash[_RUN_LABEL] = RunLabel(state.run_id)
        config.stash[_RUN_LABEL].register()
    config.stash[TELEMETRY] = RunTelemetry(config, state)
    state.tell = config.stash[TELEMETRY].emit
    for name, plugin in _plugins(config, state):
        config.pluginmanager.register(plugin, name)


def _plugins(config: pytest.Config, state: SessionState) -> Iterator[tuple[str, object]]:
    yield RUN, sys.modules[__name__]
    yield "taskspec-telemetry", config.stash[TELEMETRY]
    yield HISTORY, state.fence.enclose("history", RunHistory(config, state))
    if role_of(config).reports:
        yield "taskspec-late-reports", state.fence.enclose("late reports", LateReports(config))
    if role_of(config) is Role.CONTROLLER:
        from harness.pytest_plugin.xdist import XdistHooks

        yield "taskspec-xdist", XdistHooks()


def set_up(config: pytest.Config, tasks: Sequence[TaskItem]) -> None:
    """Set up the run of the selected tasks. Bad settings are reported once, not by every task: UsageError."""
    from harness.pytest_plugin import parallel as ahead  # the engine is loaded only in a session that runs a task

    state = config.stash[STATE]
    if role_of(config).reports:
        foreign.refuse(config)
        state.check_folders()
    try:
        telemetry_of(config).begin()
        telemetry_of(config).announce(len(tasks))
        harness = state.harness()
        _say_if_no_video(config, state)
        if role_of(config) is Role.SLOT:
            from harness.pytest_plugin.cluster_line import UPLINK

            config.stash[UPLINK].attach(harness, state.stored.ledger if state.stored else None)
        if role_of(config) is not Role.DRIVER:
            _serve_agents(config, state, tasks)
            if first := first_to_run(config, tasks):
                harness.prepare(first.loaded.spec)
            ahead.begin(config, state)
    except (ValueError, OSError) as error:
        if role_of(config).reports:
            raise pytest.UsageError(str(error)) from error
        for item in tasks:  # an xdist worker can report it only through its tests
            state.problems[item.loaded.source] = [f"the harness cannot be set up: {error}"]
    history: Any = config.pluginmanager.getplugin(HISTORY)
    history.begin({item.nodeid: item.loaded for item in tasks})


def _say_if_no_video(config: pytest.Config, state: SessionState) -> None:
    """Say once that videos are wanted and nothing can make them: the tasks run all the same."""
    if state.settings.video != "off" and role_of(config).reports:
        from harness.browser.video import NO_FFMPEG, find_ffmpeg  # only such a session needs it

        if find_ffmpeg() is None:
            telemetry_of(config).say(f"--task-video: no video will be kept, since there is {NO_FFMPEG}")


def _serve_agents(config: pytest.Config, state: SessionState, tasks: Sequence[TaskItem]) -> None:
    """Serve agents that run elsewhere, if a task is theirs. Raises ValueError and OSError."""
    if not any(is_remote(item.loaded.spec, state.settings, state.chosen) for item in tasks):
        return
    if not role_of(config).reports:
        raise ValueError(
            "the agent `bridge` cannot serve the processes of `-n`: use `--task-workers` for several tasks"
        )
    port, wait = config.getoption("task_bridge_port"), config.getoption("task_bridge_wait")
    address = state.harness().serve_bridge(port or 0, 60.0 if wait is None else wait)
    telemetry_of(config).say(f"bridge: agents connect to {address.url} with the token {address.token}")
    if address.note:
        telemetry_of(config).say(f"bridge: {address.note}")


def first_to_run(config: pytest.Config, tasks: Sequence[TaskItem]) -> TaskItem | None:
    """The first task that is certain to run here: a worker of xdist does not know its tasks yet."""
    if not role_of(config).reports or config.getoption("setuponly") or config.getoption("setupplan"):
        return None
    sure = (item for item in tasks if _MAY_SKIP.isdisjoint(mark.name for mark in item.iter_markers()))
    return next((item for item in sure if item.unloaded is None), None)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist: give every worker the run id of the controller, and what it has read of durations."""
    state: SessionState = node.config.stash[STATE]
    node.workerinput[RUN_ID] = state.run_id
    changed = node.config.pluginmanager.getplugin(NARROWING).changed
    if changed is not None:
        node.workerinput[CHANGED] = sorted(map(str, changed))
    if state.durations is not None:
        node.workerinput[DURATIONS] = dict(state.durations.seconds)


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: Any, sched: Any) -> None:
    """xdist: report a task whose worker died."""
    from harness.pytest_plugin.lost import report_lost_task
    from harness.runner.not_run import died

    report_lost_task(sched.config, report, crashitem, died(getattr(sched, "why", {}).get(crashitem, "")))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Name the run in the results before the first one is written, since a killed run writes nothing at its end.

    The controller of xdist does not know the items: there only a file of an earlier run shows that it is about tasks.
    """
    config: Any = session.config
    alluredir = config.getoption("--alluredir", None)
    if not alluredir or not role_of(config).reports or config.getoption("collectonly"):
        return
    from harness.reporting.allure.results import written_run

    if task_items(getattr(session, "items", [])) or written_run(Path(alluredir)):
        config.stash[STATE].fence.call("Allure", _write_allure_files, config, Path(alluredir))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
    """Add the record as an attribute of the report; xdist passes it to the controller."""
    report = yield
    if call.when == "call" and (record := item.stash.get(RECORD, None)):
        report.taskspec = record.model_dump(mode="json")
        add_properties(item, record)
    if call.when == "teardown" and (record := item.stash.get(RECORD, None)):
        _torn_down(item, report, record)
    if call.when == "teardown" and RECORD in item.stash:
        del item.stash[RECORD]  # pytest keeps the items until the end of the run
    if call.when != "teardown" and report.skipped and isinstance(item, TaskItem):  # a mark skips the test in its setup
        report.taskspec_skipped = item.task_id
    return report


def _torn_down(item: pytest.Item, report: Any, record: TaskRecord) -> None:
    """Judge a task whose fixtures were torn down: if one failed, what is held of the task becomes its evidence."""
    state = item.config.stash[STATE]
    failed = first_line(report) if report.failed else None
    kept = state.fence.call("evidence", state.harness().archive.judged, record.key, failed)
    if failed is None:
        return
    record = torn_down(record, kept, keeps_passed=state.settings.evidence == "all")
    report.taskspec = record.model_dump(mode="json")
    report.user_properties += torn_properties(record)  # junit.xml reads them from this report
    report.sections.append((_EVIDENCE, record.hint))
    state.fence.call("Allure", attach_text, _EVIDENCE, record.hint)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep skipped tasks in `--lf` if they failed before, and were skipped because a dependency did not run."""
    config: Any = session.config
    state = config.stash[STATE]
    try:
        if state.ahead is not None:
            from harness.pytest_plugin import parallel as ahead

            ahead.end(state)
    finally:
        if not role_of(config).reports:
            config.workeroutput[BROWSER] = state.browser
        cache: Any = config.pluginmanager.getplugin("lfplugin")
        for item in state.unjudged if cache is not None and cache.active else ():
            cache.lastfailed[getattr(item, "id", item.nodeid)] = True
        if not role_of(config).reports:
            state.close()  # a worker that has reported its end has 5 s; one that cannot report it stops here
            if telemetry := config.stash.get(TELEMETRY, None):
                telemetry.close()
                config.workeroutput[OUTPUT] = state.fence.problems  # the controller says it


def pytest_unconfigure(config: pytest.Config) -> None:
    if state := config.stash.get(STATE, None):
        if label := config.stash.get(_RUN_LABEL, None):
            label.unregister()
        state.close()
        if role_of(config).reports:  # the workers share the logins and floors of the run
            _remove_shared(state)
            telemetry_of(config).close()


def _remove_shared(state: SessionState) -> None:
    if state.settings.logins:
        shutil.rmtree(state.settings.logins_of(state.run_id), ignore_errors=True)
    if state.settings.models:
        shutil.rmtree(state.settings.floors_of(state.run_id), ignore_errors=True)


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    state, skipped = config.stash[STATE], _skipped(terminalreporter)
    records = _records(terminalreporter)
    interrupted = interrupted_tasks(config, state, exitstatus, records)
    records += interrupted
    if not (records or skipped) or not role_of(config).reports:
        return
    last_run, alluredir = state.settings.root / LAST_RUN, config.getoption("--alluredir", None)
    place = Path(alluredir) if alluredir else None
    telemetry, fence = telemetry_of(config), state.fence
    if records:
        fence.call("last run", write_last_run, last_run, state.run_id, records)
    if place:
        fence.call("Allure", _write_allure_files, config, place)
    history: Any = config.pluginmanager.getplugin(HISTORY)
    more = [*telemetry.finish(records), *(history.finish(interrupted) or ()), *_passed_over(state)]
    with fence.around("summary"):
        more += [*told_by(config, NARROWING), *told_by(config, FLAKY)]
        if left := not_begun(state, exitstatus, [*(each.task_id for each in records), *(name for name, _ in skipped)]):
            more.append(f"not run: {how_many(left, 'task')}, because the run was interrupted")
        more += moved_aside(state.links, keeps=state.settings.keep_previous > 0)
        more += [f"services: {line}" for line in state.kept_services]
        more += undeclared_lines(config, state.settings)
        repeated = (each for each in terminalreporter.stats.get("rerun", []) if hasattr(each, "taskspec"))
        more += rerun_lines(records, [TaskRecord.model_validate(each.taskspec) for each in repeated])
    fence.call("summary", write_summary, terminalreporter, records, skipped, state.settings, place, more, state.idle)
    telemetry.sum_up_failed_outputs()


def _write_allure_files(config: pytest.Config, place: Path) -> None:
    from harness.reporting.allure.files import write_allure_files

    telemetry = telemetry_of(config)
    told = environment(config, config.stash[STATE]) | telemetry.tool_servers()
    told |= {f"Service {name}": crashed for name, crashed in telemetry.service_crashes().items()}
    write_allure_files(place, told, os.environ)


def told_by(config: pytest.Config, name: str) -> list[str]:
    """The lines of a plugin of this session; none if it has no such plugin."""
    lines: list[str] = getattr(config.pluginmanager.getplugin(name), "lines", [])
    return lines


def _passed_over(state: SessionState) -> list[str]:
    if not (state.passed_over or state.broken_off):
        return []
    from harness.pytest_plugin import parallel as ahead

    return ahead.passed_over_lines(state)


def _records(terminalreporter: Any) -> list[TaskRecord]:
    """The result of each task, its fixtures included; of several attempts (`--reruns`) the last."""
    stats = terminalreporter.stats
    torn = {_execution(r): r for r in stats.get("error", []) if hasattr(r, "taskspec")}
    reports = (r for kind in ("passed", "failed", "xfailed") for r in stats.get(kind, []) if hasattr(r, "taskspec"))
    last = {_execution(r): r for r in reports} | torn
    return [TaskRecord.model_validate(report.taskspec) for report in last.values()]


def _execution(report: Any) -> tuple[str, str]:
    return report.nodeid, getattr(report, "worker_id", "")


def _skipped(terminalreporter: Any) -> list[tuple[str, str]]:
    """Task id and reason of each skipped task; pytest itself shows reasons only with `-rs`."""
    reports = [each for each in terminalreporter.stats.get("skipped", []) if hasattr(each, "taskspec_skipped")]
    return [(each.taskspec_skipped, str(each.longrepr[2]).removeprefix("Skipped: ")) for each in reports]
