"""The stream inside of one pytest process: figures without a terminal, workers' waits, who looks while others count."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.model.events import TaskStarted
from harness.model.settings import Settings
from harness.pytest_plugin.crashed_workers import JOURNAL
from harness.pytest_plugin.state import SessionState
from harness.pytest_plugin.telemetry import METRICS, PROMETHEUS, RunTelemetry
from harness.reporting.redaction import Redactor
from harness.reporting.task_record import task_record
from harness.reporting.telemetry.log import LOGGER, EventLog, events_of
from harness.reporting.telemetry.sinks import begun_stream
from harness.reporting.telemetry.stream import Telemetry
from harness.reporting.telling import story_of
from harness.resilience.events import Retrying, Waiting
from tests.unit.reporting import sample
from tests.unit.reporting.telemetry.stage import record

LONG = Waiting("open", 30.0, "circuit origin:http://shop.local is open")


class Screen:
    """pytest's terminal reporter."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write_line(self, line: str) -> None:
        self.lines.append(line)

    def flush(self) -> None:
        """Nothing is kept back."""


class Process:
    """Of pytest: the only one, or with `dist` the controller of xdist."""

    def __init__(
        self,
        root: Path,
        dist: str = "no",
        screen: Screen | None = None,
        worker: dict[str, str] | None = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        plugins = {"terminalreporter": screen}
        self.config: Any = SimpleNamespace(
            pluginmanager=SimpleNamespace(getplugin=plugins.get),
            getoption=lambda name, default=None: {"dist": dist}.get(name, default),
            get_verbosity=lambda: 0,
            stash=pytest.Stash(),
            hook=SimpleNamespace(pytest_taskspec_event=lambda event, config: None),
            **({"workerinput": worker} if worker else {}),
        )
        made = Settings.model_validate({"root": root, **(settings or {})})
        self.state = SessionState(made)
        self.telemetry = RunTelemetry(self.config, self.state)

    def report(self, document: object = None) -> None:
        report: Any = SimpleNamespace(when="call", nodeid="tasks/t.task.yaml::T-1", taskspec=document)
        self.telemetry.pytest_runtest_logreport(report)

    def finish(self) -> None:
        session: Any = SimpleNamespace(config=self.config)
        self.telemetry.pytest_sessionfinish(session)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    logger = logging.getLogger(LOGGER)
    level, handlers = logger.level, [*logger.handlers]
    made: list[Process] = []

    def make(**options: Any) -> Process:
        made.append(Process(tmp_path, **options))
        return made[-1]

    yield make
    for each in made:
        each.telemetry.close()
    logger.setLevel(level)
    logger.handlers = handlers


EVERY = ["events.jsonl", "logging"]
LATER = ["hook pytest_taskspec_event", "Allure"]


def told(telemetry: Telemetry) -> list[str]:
    return [sink.name for sink in telemetry.sinks]


def test_who_is_told_in_which_run(process: Callable[..., Process], tmp_path: Path) -> None:
    assert told(process().telemetry.stream) == [*EVERY, *LATER, "terminal", "live line", "metrics"]
    assert told(process(dist="load").telemetry.stream) == [*EVERY, *LATER, "terminal", "live line"]
    worker = process(worker={"workerid": "gw0"})
    assert told(worker.telemetry.stream) == [*EVERY, *LATER, "live line"]
    ahead = process(worker={"workerid": "gw0", JOURNAL: str(tmp_path / "gw0")})
    assert told(ahead.telemetry.stream) == [*EVERY, "journal of the worker", *LATER, "live line"]
    elsewhere = process(worker={"workerid": "gw0", JOURNAL: str(tmp_path / "nowhere" / "gw0")})
    assert told(elsewhere.telemetry.stream) == told(worker.telemetry.stream)
    assert told(begun_stream(Settings(root=tmp_path), "R")) == EVERY


def test_spans_are_made_where_the_project_asks_for_them(process: Callable[..., Process]) -> None:
    spanned = process(settings={"telemetry": {"otel": True}}).telemetry.stream
    assert told(spanned) == [*EVERY, "OpenTelemetry", *LATER, "terminal", "live line", "metrics"]


def test_figures_are_written_without_a_terminal(process: Callable[..., Process], tmp_path: Path) -> None:
    run, plan = process(), sample.plan()
    run.telemetry.begin()
    for result in (sample.failed(plan), sample.completed(plan)):  # of several attempts the last counts
        run.report(task_record(story_of(plan, result, Redactor())).model_dump(mode="json"))
    run.finish()
    document = json.loads((tmp_path / METRICS).read_text("utf-8"))
    assert document["run"] == run.state.run_id
    assert (document["error_metrics"]["total_tasks"], document["error_metrics"]["failed"]) == (1, 0)


def test_figures_of_an_earlier_run_go_when_one_begins(process: Callable[..., Process], tmp_path: Path) -> None:
    for figures in (METRICS, PROMETHEUS):
        (tmp_path / figures).parent.mkdir(exist_ok=True)
        (tmp_path / figures).write_text("of an earlier run")
    run = process()
    run.finish()  # without tasks
    assert (tmp_path / METRICS).read_text() == "of an earlier run"
    run.telemetry.begin()
    assert not (tmp_path / METRICS).exists()
    assert not (tmp_path / PROMETHEUS).exists()


def test_long_waits_of_workers_are_shown_once(process: Callable[..., Process], tmp_path: Path) -> None:
    screen = Screen()
    run = process(dist="load", screen=screen)
    run.telemetry.begin()
    worker = EventLog(events_of(tmp_path, run.state.run_id))
    for event in (LONG, Retrying("open", 1, 3, 1.0, "refused")):
        worker.on_record(record(event, run=run.state.run_id, worker="gw0", task_id="T-1", step=0))
    worker.close()
    run.telemetry.emit(LONG)  # by the controller itself
    run.report()
    run.report()
    said = "waiting 30.0 s: circuit origin:http://shop.local is open"
    assert screen.lines == [f"{said} [T-1 step 0]", said]


def test_nobody_counts_while_the_figures_are_looked_at(
    process: Callable[..., Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = process()
    free: list[bool] = []

    def other() -> None:
        free.append(run.telemetry.stream.lock.acquire(blocking=False))

    def look(at: datetime) -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    monkeypatch.setattr(run.telemetry.metrics, "look", look)
    run.telemetry.stream.on(TaskStarted(sample.plan(), sample.START))
    assert {*free} == {False}
