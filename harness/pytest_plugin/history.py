"""What pytest says of each task, into the history of the project: as it is said, so that a killed run keeps it."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.pytest_plugin.collect import TaskItem
from harness.pytest_plugin.command_line import redactor_of, without_secrets
from harness.pytest_plugin.executions import Executions
from harness.pytest_plugin.order import task_items
from harness.pytest_plugin.state import State
from harness.pytest_plugin.telemetry import METRICS
from harness.pytest_plugin.terminal import environment
from harness.reporting.allure.files import executor_of
from harness.reporting.files import read_json
from harness.reporting.history.file import BrokenFileError, HistoryError, put_aside
from harness.reporting.history.record import Ending, Process, RunRecord, checkout_of
from harness.reporting.history.writing import RunWriter, happenings_of
from harness.reporting.redaction import Redactor
from harness.reporting.task_record import TaskRecord
from harness.spec.loaded import Loaded

HISTORY = "taskspec-history"
"""What the plugin is called."""
_INTERRUPTED = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)


class RunHistory:
    """A plugin in every process; only the one that hears of all tasks writes: under xdist the controller.

    A history that cannot be written is said once, in the summary, and fails no run.
    """

    def __init__(self, config: pytest.Config, state: State) -> None:
        self._config = config
        self._state = state
        self._root: Path = state.settings.root
        self._writes = not hasattr(config, "workerinput") and state.settings.history_runs > 0
        self._executions = Executions(self._root)
        self._run: RunRecord | None = None
        self._writer: RunWriter | None = None
        self._notes: list[str] = []
        self._status: int | None = None
        self._redactor = Redactor()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Every report of a task says so, those of its fixtures too; xdist carries it to the controller."""
        report = yield
        if isinstance(item, TaskItem):
            report.taskspec_id = item.loaded.spec.task_id
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """A run of tasks begins."""
        tasks = task_items(session.items)
        if tasks and not session.config.getoption("collectonly"):
            self._begin({item.nodeid: item.loaded for item in tasks})

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """The controller collects nothing itself: the first worker that has found tasks begins the run."""
        if self._run is None and self._writes:
            from harness.pytest_plugin.xdist import tasks_in

            if tasks := tasks_in(node.config, ids):
                self._begin(tasks)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._writer is not None and (execution := self._executions.of(report)):
            try:
                self._writer.add(execution)
            except HistoryError as error:
                self._give_up(error)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._status = int(exitstatus)

    def pytest_unconfigure(self) -> None:
        """Without a terminal nobody has asked for `finish`."""
        self.finish(self._state.interrupted)

    def finish(self, interrupted: Sequence[TaskRecord] = ()) -> list[str]:
        """End the run, with the tasks that pytest makes no report of; what is to be said in the summary, once."""
        if self._writer is not None and self._run is not None:
            try:
                for execution in map(self._executions.interrupted, interrupted):
                    self._writer.add(execution)
                note = self._writer.finish(self._ended(self._run), self._state.settings.history_runs)
                self._notes += [note] if note else []
            except HistoryError as error:
                self._give_up(error)
            self._close()
        notes, self._notes = self._notes, []
        return [f"history: {note}" for note in notes]

    def _begin(self, tasks: Mapping[str, Loaded]) -> None:
        if self._run is not None or not self._writes:
            return
        self._redactor = redactor_of(self._state.settings, list(tasks.values()), os.environ)
        self._executions = Executions(self._root, tasks, self._redactor.text)
        try:
            self._run = self._begun()
            self._writer = self._opened(self._run)
        except HistoryError as error:
            self._give_up(error)

    def _opened(self, run: RunRecord) -> RunWriter:
        """A file that is certainly broken is put aside. Raises HistoryError."""
        process = Process.own()
        try:
            return RunWriter(self._root, run, process)
        except BrokenFileError:
            self._notes.append(put_aside(self._root, run.run))
            return RunWriter(self._root, run, process)

    def _begun(self) -> RunRecord:
        checkout = checkout_of(self._root, os.environ)
        return RunRecord(
            run=self._state.run_id,
            started=datetime.now(UTC),
            project=self._root.name,
            arguments=tuple(without_secrets(self._config.invocation_params.args, self._redactor)),
            environment=environment(self._config, self._state),
            commit=checkout.commit,
            branch=checkout.branch,
            ci=executor_of(os.environ),
            shard=str(self._config.getoption("--task-shard", None) or ""),
        )

    def _ended(self, run: RunRecord) -> RunRecord:
        ending: Ending = "interrupted" if self._status in _INTERRUPTED else "finished"
        return run.model_copy(
            update={
                "finished": datetime.now(UTC),
                "ending": ending,
                "exit_status": self._status,
                "environment": environment(self._config, self._state),
                "happenings": happenings_of(self._root, run.run),
                "metrics": self._metrics(),
            }
        )

    def _metrics(self) -> dict[str, Any]:
        """The figures of this run; none when they could not be written."""
        try:
            document = read_json(self._root / METRICS)
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) and document.get("run") == self._state.run_id else {}

    def _give_up(self, error: HistoryError) -> None:
        self._notes.append(str(error))
        self._close()

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
