"""The stream of events inside pytest: lines on the terminal, hooks of plugins, and the files of a run."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from harness.model.figures import TaskDone
from harness.model.settings import Settings
from harness.pytest_plugin.crashed_workers import WorkerJournal
from harness.pytest_plugin.role import Role, role_of, worker_input
from harness.pytest_plugin.state import SessionState
from harness.pytest_plugin.terminal import live_progress
from harness.reporting.allure.labels import running_test
from harness.reporting.files import write_json, write_text
from harness.reporting.progress import ProgressLine
from harness.reporting.task_record import TaskRecord, error_metrics
from harness.reporting.telemetry.log import LOGGER, EventLog, Tail, append_line, begin, events_of, level_name, line
from harness.reporting.telemetry.metrics import MetricsSink
from harness.reporting.telemetry.record import (
    ModelRequest,
    Progress,
    Record,
    RunBegun,
    StepDone,
    TelemetryEvent,
)
from harness.reporting.telemetry.sinks import PytestSinks, stream_of
from harness.reporting.telemetry.stream import Sink, Telemetry
from harness.resilience.events import GaveUp, InvariantBroken, Retrying, ServiceChanged, SlotAwaited, Waiting
from harness.resilience.thresholds import ThresholdCrossed
from harness.spec.names import blank_unprintable, commandless

# Sinks that belong to pytest's own thread: the terminal, the hook, and the running Allure test.

LONG = 10.0
"""Seconds of a wait that is shown without `-v` too."""


class TerminalLines(Sink):
    """`Retrying 2/3 in 2.0 s: connection refused`: shown with `-v`, and before a long wait. A violated invariant is
    always shown, except with `-q`; crossed thresholds are in the summary.
    """

    name = "terminal"

    def __init__(self, config: pytest.Config, progress: ProgressLine) -> None:
        self._config = config
        self._progress = progress

    def on_delivery(self, record: Record) -> None:
        terminal: Any = self._config.pluginmanager.getplugin("terminalreporter")
        if terminal is None or not is_shown(record, self._config.get_verbosity()):
            return
        capture: Any = self._config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            self._progress.clear()
            terminal.write_line(printable(line(record)))
            terminal.flush()


def is_shown(record: Record, verbosity: int) -> bool:
    """Return whether to show the record now."""
    match record.event:
        case _ if verbosity < 0 or isinstance(record.event, Progress):
            return False
        case InvariantBroken() | SlotAwaited():
            return True
        case Retrying(delay=seconds) | Waiting(seconds=seconds) if seconds >= LONG:
            return True
        case GaveUp() | TaskDone() | StepDone() | ModelRequest():
            return False  # the report of the task says it; the live line shows a request, and its answer has a line
        case event:
            return verbosity > 0 or (isinstance(event, ServiceChanged) and event.crashed)


def printable(text: str) -> str:
    """The text of a page or a server, so that it can neither control the terminal nor command the runner of a job."""
    return commandless(blank_unprintable(text))


class Hook(Sink):
    """`pytest_taskspec_event`; errors of an implementation are in the summary, and fail no task."""

    name = "hook pytest_taskspec_event"

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def on_delivery(self, record: Record) -> None:
        try:
            self._config.hook.pytest_taskspec_event(event=record, config=self._config)
        except (pytest.skip.Exception, pytest.fail.Exception) as outcome:
            raise RuntimeError(f"it ended in {type(outcome).__name__}: {outcome}") from outcome


class AllureEvents(Sink):
    """Keeps the events that the test shows in no step: of circuits, sites and policies while the task ran."""

    name = "Allure"

    def __init__(self) -> None:
        self._lines: list[tuple[str, str]] = []
        """Id of the task, empty for events about all tasks, and the line."""

    def on_delivery(self, record: Record) -> None:
        if record.step is None and not isinstance(record.event, TaskDone | ThresholdCrossed | Progress):
            text = f"{record.at:%H:%M:%S.%f}"[:-3] + f" {level_name(record.event)} {line(record)}"
            self._lines.append((record.task_id, text))

    def attach(self, task_id: str) -> None:
        """Attach the task's events to the running test as one text, if any; those of other tasks are kept for them."""
        own = [text for task, text in self._lines if task in ("", task_id)]
        self._lines = [(task, text) for task, text in self._lines if task not in ("", task_id)]
        if own and running_test() is not None:
            import allure

            allure.attach("\n".join(own), "resilience events", allure.attachment_type.TEXT)


METRICS = Path(".harness/metrics.json")
PROMETHEUS = Path(".harness/metrics.prom")
EXTRAS = {"otel": "opentelemetry", "prometheus": "prometheus_client"}
"""Setting, which is also the name of the extra -> the library that it needs."""
_WATCHED_AFTER = 300.0
"""Seconds for which the page of `--task-live` is served after the run, unless somebody looks at it."""
OUTPUT = "taskspec_telemetry"
"""The key under which an xdist worker reports sinks that failed."""


def check_extras(settings: Settings) -> None:
    """Raise UsageError for a setting whose library is not installed."""
    for name, module in EXTRAS.items():
        if getattr(settings.telemetry, name) and find_spec(module) is None:
            raise pytest.UsageError(
                f"[tool.harness.telemetry] {name} = true needs the package {module}: "
                f"pip install 'pytest-taskspec[{name}]'"
            )


class RunTelemetry:
    """The telemetry of one pytest process: the only one, an xdist worker, or the controller, which reads theirs."""

    def __init__(self, config: pytest.Config, state: SessionState) -> None:
        self._config = config
        self._state = state
        self._settings = state.settings
        self._events = events_of(state.settings.root, state.run_id)
        self._worker: str = worker_input(config).get("workerid", "")
        self._controls = role_of(config).distributes
        self._stream: Telemetry | None = None
        self._tail = Tail(self._events, state.run_id)
        self._allure = AllureEvents()
        self._progress = live_progress(config)
        self._terminal = TerminalLines(config, self._progress)
        self._records: dict[str, list[dict[str, Any]]] = {}
        """Node id -> the records of the task, one for each execution (`--reruns`)."""
        self._fence = state.fence
        self.metrics = MetricsSink(self.emit)

    @property
    def stream(self) -> Telemetry:
        """The stream, made when it is first needed. Raises ValueError for a `redact` that is no regular expression."""
        if self._stream is None:
            settings, run, made = self._settings, self._state.run_id, self._sinks()
            self._stream = stream_of(settings, run, made, worker=self._worker, fence=self._fence)
        return self._stream

    def spare_reports(self) -> None:
        """Keep our log lines out of the output that pytest captures for its reports: the failure itself says more.

        They are kept with `--task-log-profile debug`, a log file or live logs.
        """
        handler = getattr(self._config.pluginmanager.getplugin("logging-plugin"), "report_handler", None)
        if self._settings.log_profile != "debug" and isinstance(handler, logging.Handler):
            handler.addFilter(lambda record: record.name != LOGGER)

    def _sinks(self) -> PytestSinks:
        journal: Sink | None = self._fence.call(WorkerJournal.name, WorkerJournal.of, self._config)
        events: Sink | None = None
        if role_of(self._config) is Role.SLOT:
            from harness.pytest_plugin.cluster_line import UPLINK, ClusterEvents, ClusterJournal

            journal = self._fence.call(ClusterJournal.name, ClusterJournal, self._config.stash[UPLINK])
            events = self._fence.call(ClusterEvents.name, ClusterEvents, self._config.stash[UPLINK])
        return PytestSinks(
            journal=journal,
            events=events,
            ledger=self._state.stored.ledger if self._state.stored else None,
            hook=self._fence.call(Hook.name, Hook, self._config),
            allure=self._allure,
            terminal=None if self._worker else self._terminal,
            live_line=self._progress,
            metrics=None if self._worker or self._controls else self.metrics,
        )

    def emit(self, event: TelemetryEvent) -> None:
        """Take an event of circuits, services and policies (`resilience.events.Emit`); from any thread."""
        self.stream.emit(event)

    def announce(self, tasks: int) -> None:
        """Tell a live view how many tasks the run has. Of the workers of xdist, which have the same, the first does."""
        if self._worker in ("", "gw0"):
            self.stream.emit(RunBegun(tasks))

    def begin(self) -> None:
        """Begin a run with tasks, before any of them, and never in a worker. Figures of an earlier run are deleted."""
        if not self._worker and self._stream is None:
            self._fence.call(EventLog.name, begin, self._events, datetime.now(UTC))
            for figures in (METRICS, PROMETHEUS):
                with contextlib.suppress(OSError):  # replacing it fails too, which is reported
                    (self._settings.root / figures).unlink(missing_ok=True)
            self.stream.deliver()
            if self._config.getoption("task_live"):
                self._fence.call("live view", self._say_address)
        self.spare_reports()

    def _say_address(self) -> None:
        """Print where the run can be watched. A run that cannot be watched goes on."""
        import asyncio

        from harness.resilience import SystemClock
        from harness.serve.start import NotServedError, serving
        from harness.serve.tokens import live_address

        root, clock = self._settings.root, SystemClock()
        try:
            address = asyncio.run(serving(root, clock, _WATCHED_AFTER))
            told = f"live view: {live_address(root, address.url, clock.wall(), self._state.run_id)}"
        except (NotServedError, OSError) as error:
            told = f"live view: none, {error}"
        self.say(told)

    def say(self, told: str) -> None:
        """Print a line of its own, also after the dots of a file."""
        terminal: Any = self._config.pluginmanager.getplugin("terminalreporter")
        if terminal is not None:
            terminal.ensure_newline()
            if self._config.get_terminal_writer().width_of_current_line:
                terminal.line("")
            terminal.write_line(told)
            terminal.flush()

    @property
    def idle(self) -> Callable[[], None] | None:
        """What to call several times a second while a task runs; None without a live line."""
        return self._progress.tick if self._progress.live else None

    def attach(self, task_id: str) -> None:
        """Attach the events of the policies around a task to its Allure test, which still runs."""
        self._fence.call(self._allure.name, self._allure.attach, task_id)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Read in the controller what its workers wrote, so that thresholds and long waits are reported at once."""
        if document := getattr(report, "taskspec", None):
            found = self._records.setdefault(report.nodeid, [])
            if found and report.when == "teardown":
                found.pop()  # it belongs to the same execution: a fixture failed after it
            found.append(document)  # not copied: pytest keeps it too, and a copy would be expensive
        self._follow()
        self.tell_failed_outputs()

    def tell_failed_outputs(self) -> None:
        """Say which outputs have failed since this was last called; a worker's controller says it."""
        if not self._worker:
            self._say_cleaned(self._fence.unsaid())

    def _say_cleaned(self, lines: Iterable[str]) -> None:
        with self._fence.around(self._terminal.name):
            for told in lines:
                self.say(printable(self._stream.clean(told) if self._stream is not None else told))

    def sum_up_failed_outputs(self) -> None:
        """Say at the end of the summary which outputs have failed, also those that were told of before."""
        self._say_cleaned(self._fence.summed_up())

    def receive(self, line: str) -> None:
        """Write a line that a process of a cluster has sent to the file of the run, and read it as a worker's."""
        self._fence.call(EventLog.name, append_line, self._events, line)
        self._follow()

    def _follow(self) -> None:
        if self._controls and self._stream is not None:
            with self._fence.around(EventLog.name):
                for record in self._tail.records():
                    self._fence.call(self.metrics.name, self.metrics.on_record, record)
                    if record.worker:  # a worker has no terminal; the controller's own records were shown
                        self._fence.call(self._terminal.name, self._terminal.on_delivery, record)
            self._stream.deliver()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the figures first: junit.xml is written after it, and the exit status is read after it."""
        if self._stream is not None and not self._worker:
            self._follow()
            self._write([*(found[-1] for found in self._executions()), *self._state.interrupted])
            self._tell_crashes(session)

    def _tell_crashes(self, session: pytest.Session) -> None:
        """Put crashes of services into junit.xml; where the project says so, they make the run red."""
        crashes = self.service_crashes()
        if not crashes:
            return
        reports = (getattr(each, "add_global_property", None) for each in self._config.pluginmanager.get_plugins())
        for report in filter(None, reports):  # pytest's own, with `--junitxml`
            for name, told in crashes.items():
                report(f"Service {name}", told)
        if self._settings.fail_on_service_crash and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Name the services that crashed: also in a green run, and without tasks."""
        if self._stream is None or self._worker:
            return
        red = self._settings.fail_on_service_crash
        why = " (the run is red: `fail_on_service_crash` in [tool.harness])" if red else ""
        for name, told in self.service_crashes().items():
            terminalreporter.write_line(printable(f"service `{name}` {told}{why}"), red=red, yellow=not red)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the report of a worker that ended; one that died sent none."""
        self.take_problems(getattr(node, "workeroutput", {}).get(OUTPUT, {}))

    def take_problems(self, problems: Mapping[str, str]) -> None:
        """Take the outputs that failed in another process, with their first errors."""
        for output, problem in problems.items():
            self._fence.note(output, problem)

    def finish(self, records: Sequence[TaskRecord]) -> list[str]:
        """Write the figures again, with the tasks of interrupted workers; returns lines for the summary."""
        self._follow()
        self.stream.deliver()
        self._write(records)
        if self._settings.telemetry.otel and not self._controls:
            from harness.reporting.telemetry.exporters import Spans, no_provider

            if no_provider():
                self._fence.note(Spans.name, "no tracer provider is set in this process, so its spans were lost")
        with self.stream.lock:
            return self._fence.call(self.metrics.name, self.metrics.lines) or []

    def service_crashes(self) -> dict[str, str]:
        """What became of each service that crashed, for junit.xml, Allure's table of the environment and people."""
        self._follow()
        with self.stream.lock:
            return {name: each.words for name, each in self.metrics.service_crashes.items()}

    def tool_servers(self) -> dict[str, str]:
        """The last state of each tool server that the run has used, for Allure's table of the environment."""
        self._follow()
        with self.stream.lock:
            return {f"Tool server {name}": state for name, state in self.metrics.tool_servers.items()}

    def _executions(self) -> list[list[TaskRecord]]:
        return [[TaskRecord.model_validate(each) for each in found] for found in self._records.values()]

    def _write(self, records: Sequence[TaskRecord]) -> None:
        with self._fence.around(self.metrics.name):
            stamp = {"run": self._state.run_id, "finished": datetime.now(UTC).isoformat()}
            with self.stream.lock:
                figures = self.metrics.as_json()
            earlier = [record for found in self._executions() for record in found[:-1]]
            document = {**stamp, "error_metrics": error_metrics(records, earlier), **figures}
            write_json(self._settings.root / METRICS, document)
            if self._settings.telemetry.prometheus:
                from harness.reporting.telemetry.exporters import exposition

                states = Counter(str(record.final_state) for record in records)
                with self.stream.lock:
                    text = exposition(self.metrics, states)
                write_text(self._settings.root / PROMETHEUS, text)

    def close(self) -> None:
        """End the sinks, and say which have failed until then."""
        if self._stream is not None:
            self._stream.close()
        self.tell_failed_outputs()


TELEMETRY: pytest.StashKey[RunTelemetry] = pytest.StashKey()


def telemetry_of(config: Any) -> RunTelemetry:
    found: RunTelemetry = config.stash[TELEMETRY]
    return found
