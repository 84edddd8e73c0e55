"""Writes pytest's reports of tasks into the project's history, as they come, so that a killed run keeps them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.masking import MARK
from harness.model.browser_settings import OPTIONS, names
from harness.pytest_plugin.errors import error_of
from harness.pytest_plugin.items import TaskItem
from harness.pytest_plugin.role import role_of
from harness.pytest_plugin.state import SessionState
from harness.pytest_plugin.telemetry import METRICS
from harness.pytest_plugin.terminal import environment
from harness.reporting.files import read_json
from harness.reporting.history.file import BrokenFileError, HistoryError, put_aside
from harness.reporting.history.reading import kept_place
from harness.reporting.history.record import Execution, Outcome, RunRecord
from harness.reporting.history.writing import RunWriter, begun_record, ended_record
from harness.reporting.redaction import redactor_of
from harness.reporting.task_record import TaskRecord
from harness.resilience.owner import Owner
from harness.spec.expressions import environment_names
from harness.spec.loaded import Loaded
from harness.task_secrets import is_secret_name

# pytest's reports of tasks as executions: one for each time that a task ran or was left out.


class Executions:
    """Counts executions by node, and keeps each until its fixtures have been torn down, which may fail too."""

    def __init__(
        self, root: Path, nodeids: Iterable[str] = (), redacted: Callable[[str], str] = lambda text: text
    ) -> None:
        """`root`: the folder of the project, which artifacts are relative to. `nodeids`: of the tasks of the run."""
        self._root = root
        self.redacted = redacted
        self._count: Counter[str] = Counter()
        self._open: dict[tuple[str, str], Execution] = {}
        """(node, worker) -> its last execution whose fixtures are not torn down yet."""
        self._nodes = {nodeid.partition("::")[2]: nodeid for nodeid in nodeids}

    def of(self, report: Any) -> Execution | None:
        """The execution that a report of a task is about; None if it is nothing new, or not about a task."""
        document = getattr(report, "taskspec", None)
        task_id = document["task_id"] if document else getattr(report, "taskspec_id", None)
        where = (report.nodeid, getattr(report, "worker_id", ""))
        if task_id is None or (report.when == "setup" and report.passed):
            return None
        if report.when == "teardown":
            return self._torn_down(where, report)
        record = TaskRecord.model_validate(document) if document else None
        nodeid, worker = where
        seconds, reason = (
            record.seconds if record else round(report.duration, 3),
            self.redacted(_reason(report, record)),
        )
        start = getattr(report, "start", 0)
        at = (record and record.started) or (datetime.fromtimestamp(start, UTC) if start else None)
        facts = {"worker": worker, "seconds": seconds, "reason": reason, "at": at}
        found = self._open[where] = self._next(nodeid, str(task_id), report.outcome, record, **facts)
        return found

    def interrupted(self, record: TaskRecord) -> Execution:
        """The execution of a task that Ctrl-C ended, or that had just passed: pytest makes no report of it."""
        nodeid = self._nodes.get(record.task_id, f"{record.source}::{record.task_id}")
        outcome: Outcome = "passed" if record.verdict in ("passed", "passed as declared") else "failed"
        return self._next(nodeid, record.task_id, outcome, record, seconds=record.seconds, at=record.started)

    def _next(self, nodeid: str, task_id: str, outcome: Outcome, record: TaskRecord | None, **facts: Any) -> Execution:
        self._count[nodeid] += 1
        number, record = self._count[nodeid], self._with_kept_place(record)
        return Execution(nodeid=nodeid, task_id=task_id, number=number, outcome=outcome, record=record, **facts)

    def _torn_down(self, where: tuple[str, str], report: Any) -> Execution | None:
        """The execution after its teardown: a fixture that fails then makes a passed task a failed one."""
        found = self._open.pop(where, None)
        if found is None or report.passed or found.outcome == "failed":
            return None
        reason, record = self.redacted(first_line(report)), found.record
        if record is not None:
            document = getattr(report, "taskspec", None)
            record = TaskRecord.model_validate(document) if document else record.model_copy(update={"torn": True})
            record = self._with_kept_place(record.model_copy(update={"message": record.message or reason}))
        return found.model_copy(update={"outcome": report.outcome, "reason": reason, "record": record})

    def _with_kept_place(self, record: TaskRecord | None) -> TaskRecord | None:
        if record is None or record.artifacts is None:
            return record
        return record.model_copy(update={"artifacts": kept_place(record.artifacts, self._root)})


def _reason(report: Any, record: TaskRecord | None) -> str:
    """The reason of a skip, or of a failure outside of the task itself."""
    if getattr(report, "wasxfail", None):
        return f"xfail: {report.wasxfail}"
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return first_line(report) if report.when == "setup" and record is None else ""


def first_line(report: pytest.TestReport) -> str:
    """The first line of a fixture's error, as pytest shows it at the end."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(getattr(crash, "message", None) or report.longrepr or "").strip().splitlines()
    return f"{report.when}: {lines[0]}" if lines else str(report.when)


# The command line of a run without its secrets, so that it may be stored.

_Hide = Callable[[str], str]


def without_secrets(arguments: Sequence[object], redact: _Hide) -> Iterator[str]:
    """The arguments without secrets: an option with a secret name hides its value, after `=` or as the next word.

    Of the URLs of browser endpoints the hosts stay visible.
    """
    hide: _Hide | None = None
    for argument in map(str, arguments):
        name, equals, value = argument.partition("=")
        hidden = _hiding_of(name)
        if hide and not argument.startswith("-"):
            yield hide(argument)
        elif hidden and equals:
            yield f"{name}={hidden(value)}"
        else:
            yield redact(argument)
        hide = None if equals else hidden


def _hiding_of(option: str) -> _Hide | None:
    """The text shown for the value of an option that may be secret."""
    if option in OPTIONS:
        return lambda urls: ",".join(names([url.strip() for url in urls.split(",") if url.strip()]))
    return (lambda _: MARK) if option.startswith("-") and is_secret_name(option) else None


HISTORY = "taskspec-history"
"""The name of the plugin."""
_HISTORY_OUTPUT, _STORE_OUTPUT = "history", "store"


class RunHistory:
    """A plugin in every process; only the one that sees all reports writes: under xdist the controller.

    It is called within the fence: if the history cannot be written, the summary says so once, and the run goes on.
    """

    def __init__(self, config: pytest.Config, state: SessionState) -> None:
        self._config = config
        self._state = state
        self._root: Path = state.settings.root
        self._stored = state.stored.journal if state.stored else None
        self._writes = role_of(config).reports and (state.settings.history_runs > 0 or bool(self._stored))
        self._executions = Executions(self._root)
        self._begun = False
        self._run: RunRecord | None = None
        """The run while it goes on."""
        self._writer: RunWriter | None = None
        self._fence = state.fence
        self._notes: list[str] = []
        self._status: int | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Add the task id to every report of a task, those of its fixtures too; xdist passes it to the controller."""
        report = yield
        if isinstance(item, TaskItem):
            report.taskspec_id = item.task_id
        return report

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Begin the run in the controller, which collects nothing itself, with the first worker that found tasks."""
        if not self._begun and self._writes:
            from harness.pytest_plugin.crashed_workers import of_task
            from harness.pytest_plugin.xdist import tasks_in

            tasks = any(map(of_task, ids))  # a file that cannot be loaded has an item, too
            if tasks or (ids and self._state.settings.page_tests):
                self.begin(tasks_in(node.config, ids))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._run is not None and (execution := self._executions.of(report)):
            self._add(execution)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._status = int(session.exitstatus)
        if not self._begun and self._writes and self._uncollected():
            self.begin({})  # it ended before its first task: without a record, the run before it would be the last

    def pytest_unconfigure(self) -> None:
        """Finish the run if there was no terminal to do it."""
        self.finish(self._state.interrupted)

    def finish(self, interrupted: Sequence[TaskRecord] = ()) -> list[str]:
        """End the run, with the tasks that pytest makes no report of; returns lines for the summary, once."""
        run, self._run = self._run, None
        told: list[str] = []
        if run is not None:
            # The process that goes on with the part must not run again what had passed.
            for record in (*interrupted, *(self._state.passed_over if self._stored else ())):
                self._add(self._executions.interrupted(record))
            ended = self._fence.call(_HISTORY_OUTPUT, self._ended_record, run) or run
            self._fence.call(_HISTORY_OUTPUT, self._finish, ended)
            if self._stored is not None:
                told = self._fence.call(_STORE_OUTPUT, self._stored.finish, ended) or []
        notes, self._notes = self._notes, []
        return [*(f"history: {note}" for note in notes), *told]

    def _add(self, execution: Execution) -> None:
        if self._stored is not None:
            self._fence.call(_STORE_OUTPUT, self._stored.add, execution)
        if self._writer is not None:
            self._fence.call(_HISTORY_OUTPUT, self._write, self._writer, execution)

    def _write(self, writer: RunWriter, execution: Execution) -> None:
        try:
            writer.add(execution)
        except HistoryError:  # the file cannot be used: the next task must not wait for it again
            self._close()
            raise

    def _finish(self, run: RunRecord) -> None:
        if self._writer is not None:
            try:
                note = self._writer.finish(run, self._state.settings.history_runs)
                self._notes += [note] if note else []
            finally:
                self._close()

    def begin(self, tasks: Mapping[str, Loaded]) -> None:
        """Begin the history of a run with these tasks: node id -> task. Once, in the process that writes."""
        if self._begun or not self._writes:
            return
        self._begun = True
        names = {name for task in tasks.values() for name in environment_names(task.spec)}
        redact = redactor_of(self._state.settings, names, os.environ).text
        self._executions = Executions(self._root, tasks, redact)
        run = self._run = self._begun_record(redact)
        if self._stored is not None:
            self._fence.call(_STORE_OUTPUT, self._stored.begin, run, tasks)
        if self._state.settings.history_runs > 0:
            self._writer = self._open_history(run)

    def _open_history(self, run: RunRecord) -> RunWriter:
        """Open the history; a file that is certainly broken is put aside. Raises HistoryError."""
        try:
            return RunWriter(self._root, run, Owner.this())
        except BrokenFileError:
            self._notes.append(put_aside(self._root, run.run))
            return RunWriter(self._root, run, Owner.this())

    def _begun_record(self, redact: _Hide) -> RunRecord:
        arguments = without_secrets(self._config.invocation_params.args, redact)
        shard = str(self._config.getoption("--task-shard", None) or "")
        durations = self._state.durations.digest if self._state.durations else ""
        told = environment(self._config, self._state)
        return begun_record(self._root, self._state.run_id, arguments, told, shard=shard, durations=durations)

    def _ended_record(self, run: RunRecord) -> RunRecord:
        told, interrupted = (
            environment(self._config, self._state),
            self._status
            in (
                pytest.ExitCode.INTERRUPTED,
                pytest.ExitCode.INTERNAL_ERROR,
            ),
        )
        more = {"uncollected": self._uncollected(), "metrics": self._metrics()}
        return ended_record(self._root, run, self._status, told, interrupted=interrupted, **more)

    def _uncollected(self) -> dict[str, str]:
        """File that could not be collected -> why: also of those before the first task, when nothing here was heard."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        errors = terminal.stats.get("error", ()) if terminal else ()
        found = [each for each in errors if isinstance(each, pytest.CollectReport)]
        return {each.nodeid: self._executions.redacted(error_of(each.longreprtext)) for each in found}

    def _metrics(self) -> dict[str, Any]:
        """The figures of this run; none if they could not be written."""
        try:
            document = read_json(self._root / METRICS)
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) and document.get("run") == self._state.run_id else {}

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
