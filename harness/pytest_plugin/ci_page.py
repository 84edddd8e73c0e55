"""The Markdown page and annotations that a CI system shows of a run, made at its end from pytest's reports."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.model.settings import Settings
from harness.pytest_plugin import ci as summary_file
from harness.pytest_plugin.ci import annotate, is_wanted
from harness.pytest_plugin.history import Executions
from harness.pytest_plugin.not_run import interrupted_tasks
from harness.pytest_plugin.state import SessionState
from harness.reporting.files import shown_path
from harness.reporting.history.comparison import passed_last
from harness.reporting.history.file import HistoryError
from harness.reporting.history.reading import found_again, task_points
from harness.reporting.history.record import Execution, RunRecord
from harness.reporting.history.writing import happenings_of
from harness.reporting.markdown import Page
from harness.reporting.triage import Cause, causes, troubles


class CiPage:
    """A plugin that is registered only on request."""

    def __init__(self, config: pytest.Config, state: SessionState) -> None:
        self._config = config
        self._state = state
        self._told = Executions(state.settings.root)
        self._executions: dict[tuple[str, int], Execution] = {}
        self._uncollected: dict[str, str] = {}
        self._started = datetime.now(UTC)
        self._problem = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if execution := self._told.of(report):
            self._executions[execution.nodeid, execution.number] = execution

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
        found = self._causes(run)
        if is_wanted(self._config):
            annotate(terminalreporter, found)
        self._write(run, found)
        if self._problem:
            terminalreporter.write_line(self._problem)

    def _run(self) -> RunRecord:
        root, run = self._state.settings.root, self._state.run_id
        return RunRecord(
            run=run,
            started=self._started,
            finished=datetime.now(UTC),
            executions=tuple(found_again(each, root, (run,)) for each in self._executions.values()),
            happenings=happenings_of(root, run),
        )

    def _causes(self, run: RunRecord) -> tuple[Cause, ...]:
        services = self._state.settings.services.items()
        hosts = {host: name for name, service in services for host in service.hosts}
        return causes(troubles(run, self._passed_before(run)), hosts)

    def _passed_before(self, run: RunRecord) -> frozenset[str]:
        """The node ids of tasks that passed when they ran before; none without a history."""
        try:
            points = task_points(self._state.settings.root)
        except HistoryError:
            return frozenset()
        before = {nodeid: [each for each in found if each.run < run.run] for nodeid, found in points.items()}
        return passed_last(before)

    def _write(self, run: RunRecord, found: tuple[Cause, ...]) -> None:
        file = summary_file.place(self._config)
        if file is None:
            return
        reports = tuple(_report_lines(self._config, self._state.settings, bool(found)))
        try:
            summary_file.append(file, Page(run, found, self._uncollected, reports))
        except OSError as error:
            self._problem = f"{summary_file.SUMMARY_OPTION}: {file}: {error.strerror}"


def _report_lines(config: pytest.Config, settings: Settings, failed: bool) -> Iterator[tuple[str, str]]:
    """Name and place of each report that people can open."""
    if failed:
        yield "artifacts of each failure", shown_path(settings.artifacts)
        yield "read one", "harness show TASK_ID"
    if alluredir := config.getoption("--alluredir", None):
        yield "Allure results", str(alluredir)
    if junit := config.getoption("--junitxml", None):
        yield "JUnit", str(junit)
