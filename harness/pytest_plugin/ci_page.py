"""The Markdown page and annotations that a CI system shows of a run, made at its end from pytest's reports."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from harness.model.settings import Settings
from harness.pytest_plugin.ci import SUMMARY_OPTION, is_wanted, place
from harness.pytest_plugin.history import Executions
from harness.pytest_plugin.not_run import interrupted_tasks, not_begun
from harness.pytest_plugin.state import SessionState
from harness.reporting.files import shown_path
from harness.reporting.history.comparison import passed_last
from harness.reporting.history.file import HistoryError
from harness.reporting.history.reading import found_again, task_points
from harness.reporting.history.record import Execution, RunRecord
from harness.reporting.history.writing import happenings_of
from harness.reporting.markdown import LIMIT, Page, commands, line_of, markdown, uncollected_commands
from harness.reporting.triage import Cause, causes, troubles


class CiPage:
    """A plugin that is registered only on request."""

    def __init__(self, config: pytest.Config, state: SessionState) -> None:
        self._config = config
        self._state = state
        self._told = Executions(state.settings.root)
        self._executions: dict[tuple[str, int], Execution] = {}
        self._uncollected: dict[str, str] = {}
        self._others = 0
        """How many reports of ordinary tests are of a failure."""
        self._started = datetime.now(UTC)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if execution := self._told.of(report):
            self._executions[execution.nodeid, execution.number] = execution
        elif report.failed and getattr(report, "taskspec_id", None) is None:
            self._others += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep an error of the collection; under xdist each worker reports the same."""
        if report.failed:
            lines = str(report.longrepr).strip().splitlines()
            self._uncollected[report.nodeid] = lines[-1] if lines else "no reason was given"

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int) -> None:
        """Write the page after the summary of the tasks, when all other files exist."""
        heard = [each.record for each in self._executions.values() if each.record is not None]
        for each in map(self._told.interrupted, interrupted_tasks(self._config, self._state, exitstatus, heard)):
            self._executions[each.nodeid, each.number] = each
        run = self._run()
        hosts = {host: name for name, each in self._state.settings.services.items() for host in each.hosts}
        found = causes(troubles(run, self._passed_before(run)), hosts)
        if is_wanted(self._config):  # GitHub reads them in the log of the job
            terminalreporter.ensure_newline()
            for command in commands(found, partial(line_of, environment=os.environ)):
                terminalreporter.write_line(command)
            for command in uncollected_commands(self._uncollected, os.environ):
                terminalreporter.write_line(command)
        try:
            self._append(run, found, not_begun(self._state, exitstatus, [each.task_id for each in run.last]))
        except OSError as error:
            terminalreporter.write_line(f"{SUMMARY_OPTION}: {place(self._config)}: {error.strerror}")

    def _run(self) -> RunRecord:
        root, run = self._state.settings.root, self._state.run_id
        return RunRecord(
            run=run,
            started=self._started,
            finished=datetime.now(UTC),
            executions=tuple(found_again(each, root, (run,)) for each in self._executions.values()),
            happenings=happenings_of(root, run),
        )

    def _passed_before(self, run: RunRecord) -> frozenset[str]:
        """The node ids of tasks that passed when they ran before; none without a history."""
        try:
            points = task_points(self._state.settings.root)
        except HistoryError:
            return frozenset()
        before = {nodeid: [each for each in found if each.run < run.run] for nodeid, found in points.items()}
        return passed_last(before)

    def _append(self, run: RunRecord, found: tuple[Cause, ...], left: int) -> None:
        """Append the page to the file, if one is named: GitHub collects a step's pages in one. Raises OSError."""
        if (file := place(self._config)) is None:
            return
        reports = tuple(_report_lines(self._config, self._state.settings, bool(found)))
        there = file.stat().st_size if file.exists() else 0
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8", errors="replace") as stream:
            page = Page(run, found, self._uncollected, reports, self._others, left)
            stream.write(markdown(page, LIMIT - there))


def _report_lines(config: pytest.Config, settings: Settings, failed: bool) -> Iterator[tuple[str, str]]:
    """Name and place of each report that people can open."""
    if failed:
        yield "artifacts of each failure", shown_path(settings.artifacts)
        yield "read one", "harness show TASK_ID"
    if alluredir := config.getoption("--alluredir", None):
        yield "Allure results", str(alluredir)
    if junit := config.getoption("--junitxml", None):
        yield "JUnit", str(junit)
