"""The stream of events inside of pytest: what a person sees of it, plugins get of it, and a run leaves of it."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from harness.model.events import Event, TaskStarted
from harness.model.settings import Settings
from harness.pytest_plugin.state import SessionState
from harness.reporting.allure.sink import running_test
from harness.reporting.files import commandless, write_json, write_text
from harness.reporting.progress import ProgressLine
from harness.reporting.redaction import Redactor
from harness.reporting.task_record import TaskRecord, error_metrics
from harness.reporting.telemetry.log import LOGGER, EventLog, LogSink, Tail, begin, events_of, level_name, line
from harness.reporting.telemetry.metrics import MetricsSink
from harness.reporting.telemetry.record import Record, StepDone, TaskDone, TelemetryEvent
from harness.reporting.telemetry.stream import Listener, Sink, Telemetry
from harness.resilience import SystemClock
from harness.resilience.events import GaveUp, InvariantBroken, Retrying, SlotAwaited, Waiting
from harness.resilience.thresholds import ThresholdCrossed
from harness.spec.names import blanked

# Sinks that belong to pytest's own thread: the terminal, the hook, and the running Allure test.

LONG = 10.0
"""Seconds: a wait that is told without `-v` too."""


class TerminalLines:
    """`Retrying 2/3 in 2.0 s: connection refused`: with `-v`, and before a long wait. What cannot be
    is told always, but with `-q`; thresholds that were crossed stand in the summary."""

    name = "terminal"

    def __init__(self, config: pytest.Config, progress: ProgressLine) -> None:
        self._config = config
        self._progress = progress

    def __call__(self, record: Record) -> None:
        terminal: Any = self._config.pluginmanager.getplugin("terminalreporter")
        if terminal is None or not shown(record, self._config.get_verbosity()):
            return
        capture: Any = self._config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            self._progress.clear()
            terminal.write_line(printable(line(record)))
            terminal.flush()


def shown(record: Record, verbosity: int) -> bool:
    """Whether a person wants to see it now."""
    match record.event:
        case _ if verbosity < 0:
            return False
        case InvariantBroken() | SlotAwaited():
            return True
        case Retrying(delay=seconds) | Waiting(seconds=seconds) if seconds >= LONG:
            return True
        case GaveUp() | TaskDone() | StepDone():
            return False  # the report of the task says it
        case _:
            return verbosity > 0


def printable(text: str) -> str:
    """What a page or a server said must not steer the terminal, nor command the runner of a job."""
    return commandless(blanked(text))


class Hook:
    """`pytest_taskspec_event`; what an implementation raises is said in the summary, and breaks no task."""

    name = "hook pytest_taskspec_event"

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def __call__(self, record: Record) -> None:
        try:
            self._config.hook.pytest_taskspec_event(event=record, config=self._config)
        except (pytest.skip.Exception, pytest.fail.Exception) as outcome:
            raise RuntimeError(f"it ended in {type(outcome).__name__}: {outcome}") from outcome


class AllureEvents:
    """Keeps what the test does not show as steps: what circuits, sites and policies did while the task ran."""

    name = "Allure"

    def __init__(self) -> None:
        self._lines: list[tuple[str, str]] = []
        """Id of the task, empty for what concerns all, and the line."""

    def __call__(self, record: Record) -> None:
        if record.step is None and not isinstance(record.event, TaskDone | ThresholdCrossed):
            text = f"{record.at:%H:%M:%S.%f}"[:-3] + f" {level_name(record.event)} {line(record)}"
            self._lines.append((record.task_id, text))

    def attach(self, task_id: str) -> None:
        """To the running test, as one text; nothing for a task that went by itself. Those of others wait for them."""
        own = [text for task, text in self._lines if task in ("", task_id)]
        self._lines = [(task, text) for task, text in self._lines if task not in ("", task_id)]
        if own and running_test() is not None:
            import allure

            allure.attach("\n".join(own), "resilience events", allure.attachment_type.TEXT)


METRICS = Path(".harness/metrics.json")
PROMETHEUS = Path(".harness/metrics.prom")
EXTRAS = {"otel": "opentelemetry", "prometheus": "prometheus_client"}
"""Setting, which is the extra's name too -> what it needs."""
OUTPUT = "taskspec_telemetry"
"""What a worker of xdist says at its end: sinks that failed."""


def check_extras(settings: Settings) -> None:
    """UsageError for a setting whose library is not there."""
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
        self._worker: str = getattr(config, "workerinput", {}).get("workerid", "")
        self._controls = not self._worker and config.getoption("dist", "no") != "no"
        self._stream: Telemetry | None = None
        self._log = EventLog(self._events)
        self._tail = Tail(self._events, state.run_id)
        self._allure = AllureEvents()
        self._terminal = TerminalLines(config, state.progress)
        self._records: dict[str, list[dict[str, Any]]] = {}
        """Node id -> what became of the task, each time that it ran (`--reruns`)."""
        self._notes: dict[str, str] = {}
        self.metrics = MetricsSink(self.emit)

    @property
    def stream(self) -> Telemetry:
        """Made when it is first asked for. ValueError for a `redact` that is no regular expression."""
        if self._stream is None:
            sinks, listeners = self._sinks()
            self._stream = Telemetry(
                self._state.run_id,
                SystemClock(),
                Redactor.of(self._settings),
                worker=self._worker,
                steps=self._settings.log_profile == "debug",
                sinks=sinks,
                listeners=listeners,
                later=self._later(),
            )
        return self._stream

    def spare_reports(self) -> None:
        """Keep our log lines out of what pytest captures for its reports: the failure itself says all of it, shorter.

        Whoever asks for `--task-log-profile debug`, a log file or live logs gets them.
        """
        handler = getattr(self._config.pluginmanager.getplugin("logging-plugin"), "report_handler", None)
        if self._settings.log_profile != "debug" and isinstance(handler, logging.Handler):
            handler.addFilter(lambda record: record.name != LOGGER)

    def _sinks(self) -> tuple[list[Sink], list[Listener]]:
        sinks: list[Sink] = [self._log, LogSink(self._settings.log_profile)]
        listeners: list[Listener] = []
        if self._settings.telemetry.otel:
            from harness.reporting.telemetry.exporters import Spans

            spans = Spans(self._state.run_id)
            sinks.append(spans.tell)
            listeners.append(spans)
        if not (self._worker or self._controls):
            sinks.append(self.metrics)  # the last: what it tells comes after its cause
        return sinks, listeners

    def _later(self) -> list[Sink]:
        sinks: list[Sink] = [Hook(self._config), self._allure]
        return sinks if self._worker else [*sinks, self._terminal]

    def emit(self, event: TelemetryEvent) -> None:
        """What circuits, services and policies did (`resilience.events.Emit`); from any thread."""
        self.stream.emit(event)

    def begin(self) -> None:
        """A run that has tasks begins; before any of them, and never in a worker. Figures of an earlier one go."""
        if not self._worker and self._stream is None:
            begin(self._events, datetime.now(UTC))
            for figures in (METRICS, PROMETHEUS):
                with contextlib.suppress(OSError):  # what cannot be removed, cannot be replaced either, and is told
                    (self._settings.root / figures).unlink(missing_ok=True)
            self.stream.deliver()
        self.spare_reports()

    def hear(self, event: Event | Record) -> None:
        """What the engine says, in the moment; from any thread. `deliver` tells the sinks of pytest's own.

        A record says only that there is something to deliver.
        """
        if isinstance(event, Record):
            return
        if isinstance(event, TaskStarted):
            with self.stream.lock:  # the loop's thread counts meanwhile
                self.metrics.look(event.at)
        self.stream.on(event)

    def deliver(self) -> None:
        """To the sinks of pytest's own thread, what has come since."""
        self.stream.deliver()

    def on(self, event: Event | Record) -> None:
        """What the engine says, on pytest's own thread."""
        self.hear(event)
        self.deliver()

    def attach(self, task_id: str) -> None:
        """What the policies around a task did, into its Allure test, which still runs."""
        self._allure.attach(task_id)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The controller looks at what its workers wrote since: thresholds and long waits are told at once."""
        if document := getattr(report, "taskspec", None):
            found = self._records.setdefault(report.nodeid, [])
            if found and report.when == "teardown":
                found.pop()  # of the same execution: a fixture failed after it
            found.append(document)  # as it is: pytest keeps it too, and a second one would be dear
        self._follow()

    def _follow(self) -> None:
        if self._controls and self._stream is not None:
            try:
                for record in self._tail.records():
                    self.metrics(record)
                    if record.worker:  # a worker has no terminal; what the controller itself said was shown
                        self._terminal(record)
            except OSError as error:
                self._notes.setdefault(self._log.name, str(error))
            self._stream.deliver()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker tells its controller what went wrong with which sink; others write figures, terminal or not."""
        if self._stream is None:
            return
        if self._worker:
            output: Any = session.config
            output.workeroutput[OUTPUT] = self._stream.problems
        else:
            self._follow()
            self._write([*(found[-1] for found in self._executions()), *self._state.interrupted])

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """What a worker said at its end; one that died said nothing."""
        for sink, problem in getattr(node, "workeroutput", {}).get(OUTPUT, {}).items():
            self._notes.setdefault(sink, problem)

    def finish(self, records: Sequence[TaskRecord]) -> list[str]:
        """Write the figures again, with the tasks of workers that were interrupted; lines for the summary."""
        self._follow()
        self.stream.deliver()
        self._write(records)
        problems = {**self._notes, **self.stream.problems}
        if self._settings.telemetry.otel and not self._controls:
            from harness.reporting.telemetry.exporters import no_provider

            if no_provider():
                problems["OpenTelemetry"] = "no tracer provider is set in this process, so its spans went nowhere"
        with self.stream.lock:
            lines = self.metrics.lines()
        return [*lines, *(f"telemetry: {sink}: {problem}" for sink, problem in problems.items())]

    def _executions(self) -> list[list[TaskRecord]]:
        """All executions of each task, the last one last."""
        return [[TaskRecord.model_validate(each) for each in found] for found in self._records.values()]

    def _write(self, records: Sequence[TaskRecord]) -> None:
        stamp = {"run": self._state.run_id, "finished": datetime.now(UTC).isoformat()}
        with self.stream.lock:
            figures = self.metrics.as_json()
        earlier = [record for found in self._executions() for record in found[:-1]]
        document = {**stamp, "error_metrics": error_metrics(records, earlier), **figures}
        try:
            write_json(self._settings.root / METRICS, document)
            if self._settings.telemetry.prometheus:
                from harness.reporting.telemetry.exporters import exposition

                states = Counter(str(record.final_state) for record in records)
                with self.stream.lock:
                    text = exposition(self.metrics, states)
                write_text(self._settings.root / PROMETHEUS, text)
        except OSError as error:
            self._notes["metrics"] = str(error)

    def close(self) -> None:
        self._log.close()


TELEMETRY: pytest.StashKey[RunTelemetry] = pytest.StashKey()


def telemetry_of(config: Any) -> RunTelemetry:
    found: RunTelemetry = config.stash[TELEMETRY]
    return found
