"""Sinks: the file that workers share, the log, the spans, the figures."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client.parser import text_string_to_metric_families

from harness.model.events import (
    AttemptEnded,
    ModelAnswered,
    ModelAsked,
    ResilienceActed,
    TaskEnded,
    TaskStarted,
    ToolAnswered,
    ToolCalled,
)
from harness.model.figures import TaskDone
from harness.model.inference import ModelCall, Usage
from harness.model.settings import LogProfile
from harness.recovery.failure import Failure
from harness.reporting.telemetry.exporters import Spans, exposition
from harness.reporting.telemetry.log import KEPT, LOGGER, EventLog, LogSink, Tail, begin, events_of, level_name
from harness.reporting.telemetry.metrics import MetricsSink, ResilienceMetrics
from harness.reporting.telemetry.record import (
    EVENTS,
    ModelReply,
    ModelRequest,
    RunBegun,
    StepBegun,
    StepDone,
    TaskBegun,
    TelemetryEvent,
    ToolReply,
    ToolRequested,
    describe,
    read,
)
from harness.resilience.events import (
    CircuitChanged,
    ClientChanged,
    Degraded,
    Escalated,
    FellBack,
    GaveUp,
    HookRefused,
    InvariantBroken,
    LoginMade,
    PagesEnded,
    Recovered,
    Retrying,
    ServiceChanged,
    SlotAwaited,
    ToolServerChanged,
    Waiting,
    written_name,
)
from harness.resilience.thresholds import ThresholdCrossed
from harness.values import replace
from tests.unit.fakes import START
from tests.unit.model import test_tool_use as tools
from tests.unit.reporting import sample
from tests.unit.reporting.telemetry.stage import Stage, record

ALL: dict[str, tuple[TelemetryEvent, str, str]] = {
    "retry": (
        Retrying("open", 2, 3, 2.0, "connection\n refused", "network"), "WARNING",
        "Retrying 2/3 in 2.0 s: connection refused",
    ),
    "waiting": (
        Waiting("open", 30, "circuit origin:http://shop.local is open"), "WARNING",
        "waiting 30.0 s: circuit origin:http://shop.local is open",
    ),
    "waiting-for-slot": (
        SlotAwaited("T-1", ".harness/slots", 5.2), "WARNING",
        ("T-1 has waited 5 s for the one state of the site (isolation), which another task holds, perhaps of another "
        "run: locks in .harness/slots"),
    ),
    "circuit-state-change": (
        CircuitChanged("origin:shop", "closed", "open", "consecutive_failures_5"), "ERROR",
        "circuit origin:shop: closed -> open (consecutive_failures_5)",
    ),
    "login-made": (
        LoginMade("buyer", 1.26, "there was none"), "INFO", "login buyer: made in 1.3 s, because there was none",
    ),
    "pages-ended": (
        PagesEnded("T-1", 3, "context"), "WARNING",
        "the browser context of T-1 did not close in 3 s: the browser has ended its pages",
    ),
    "fallback": (FellBack("ask", "a", "b", "busy"), "WARNING", "ask: falling back from a to b: busy"),
    "degraded": (Degraded("ask", "all busy"), "WARNING", "ask: degraded: all busy"),
    "recovered": (Recovered("open", 4.04, 3), "INFO", "open: recovered after 4.0 s, at attempt 3"),
    "failed": (GaveUp("open", "refused", True), "ERROR", "open: gave up after all retries: refused"),
    "escalated": (Escalated("ask", 2, 5), "WARNING", "ask: no answer in 2 s; it is waited for 5 s in all"),
    "service-status": (
        ServiceChanged("demo", "up", "permanently_failed", "crash 3 of 3"), "CRITICAL",
        "service demo: up -> permanently_failed (crash 3 of 3)",
    ),
    "tool-server-status": (
        ToolServerChanged("mail", "restarting", "permanently_failed", "crash_3"), "CRITICAL",
        "tool server mail: restarting -> permanently_failed (crash_3)",
    ),
    "client-status": (
        ClientChanged("S1", "mine 1.0", "attached", "detached", "the network"), "WARNING",
        "client mine 1.0: attached -> detached (the network)",
    ),
    "hook-refused": (
        HookRefused("HOOK_VALIDATION_FAILED", "event: Required"), "WARNING",
        "hook of an agent refused: HOOK_VALIDATION_FAILED: event: Required",
    ),
    "invariant-violated": (
        InvariantBroken("no", {"server": "down"}), "WARNING", "inconsistent: no (server=down)",
    ),
    "threshold": (
        ThresholdCrossed("error_rate", "ok", "critical", 0.2, 0.15, "share"), "CRITICAL",
        "threshold: 20 % of the attempts failed (critical: over 15 %)",
    ),
    "step": (StepDone("click", False, 2, 0.5, "gone"), "DEBUG", "click: failed in 0.50 s, 2 attempts: gone"),
    "task": (
        TaskDone("failed", 2.0, 1, 3, 2, "STEP_TIMEOUT"), "ERROR",
        "task failed: STEP_TIMEOUT (2.0 s, 3 attempts, 2 failed)",
    ),
    "model-asked": (ModelRequest("builder", "claude"), "DEBUG", "builder thinks (claude)"),
    "model-answered": (
        ModelReply("builder", "claude", "anthropic", "haiku", 1, "answered", "", 3.21, 0.4, 12_100, 9000, 180, False,
                   0.0021, False), "INFO",
        "builder thought 3.2 s (claude, 12.1k/180 tokens, $0.0021)",
    ),
    "run-begun": (RunBegun(20), "DEBUG", "run of 20 tasks"),
    "task-begun": (TaskBegun("T-1", 5), "DEBUG", "task begun (5 steps)"),
    "step-begun": (StepBegun("click #buy"), "DEBUG", "begins click #buy"),
    "tool-called": (ToolRequested("mail", "get_code"), "DEBUG", "calling mail.get_code"),
    "tool-answered": (
        ToolReply("tool-1", "mail", "get_code", "read", 4, "failed", "TOOL_UNAVAILABLE", 3.6, "refused"), "WARNING",
        "mail.get_code: TOOL_UNAVAILABLE in 3.6 s, 4 tries: refused",
    ),
}  # fmt: skip


def test_every_kind_of_event_has_words() -> None:
    assert {*ALL} == {*EVENTS}


@pytest.mark.parametrize("kind", ALL)
def test_words_level_and_a_line_that_can_be_read_again(kind: str) -> None:
    event, level, words = ALL[kind]
    whole = record(event, worker="gw0", task_id="T-1", step=2, faulted=True)
    line = json.dumps(whole.as_json(level_name(event)))
    assert (describe(event), json.loads(line)["level"], json.loads(line)["type"]) == (words, level, kind)
    assert read(line) == whole


def test_a_name_of_a_field_means_one_thing() -> None:
    """`source` is who failed; what is left and taken instead are `from` and `to`; `after` is seconds."""
    assert {kind for kind, event in EVENTS.items() if "source" in event.__struct_fields__} == {
        *("retry", "failed", "task", "client-status", "hook-refused"),
    }
    line = record(FellBack("ask", "a", "b", "busy")).as_json("WARNING")
    assert (line["from"], line["to"]) == ("a", "b")
    written = {kind: {written_name(event, name) for name in event.__struct_fields__} for kind, event in EVENTS.items()}
    assert {kind for kind, names in written.items() if "after" in names} == {"recovered"}
    assert not any("before" in names for names in written.values())


def test_graver_and_less_grave() -> None:
    levels: list[tuple[TelemetryEvent, str]] = [
        (ServiceChanged("s", "up", "down", "r"), "WARNING"),
        (ServiceChanged("s", "booting", "up", "r"), "INFO"),
        (ToolServerChanged("s", "online", "offline", "r"), "WARNING"),
        (ToolServerChanged("s", "online", "requires_reauth", "r"), "ERROR"),
        (ToolServerChanged("s", "offline", "online", "r"), "INFO"),
        (ToolReply("t", "s", "t", "read", 1, "answered", "", 0.1), "INFO"),
        (CircuitChanged("c", "open", "half_open", "r"), "INFO"),
        (Escalated("a", 30, None), "ERROR"),
        (ThresholdCrossed("m", "ok", "warning", 6, 5, "per minute"), "WARNING"),
        (ThresholdCrossed("m", "warning", "ok", 0, 5, "per minute"), "INFO"),
        (TaskDone("failed", 1, 1, 1, 1, "X", expected=True), "INFO"),
        (TaskDone("completed", 1, 1, 1, 0), "INFO"),
        (TaskDone("skipped", 1, 0, 1, 1, reason="no cart"), "WARNING"),
        (TaskDone("aborted", 1, 0, 1, 1, "PRECONDITION_NOT_MET", severity="warning"), "WARNING"),
        (GaveUp("pre", "no cart", False, severity="warning"), "WARNING"),
        (GaveUp("open", "no browser", False, severity="critical"), "CRITICAL"),
        (GaveUp("open", "our own defect", False, severity="fatal"), "CRITICAL"),
        (GaveUp("a call", "of which nobody knows more", False), "ERROR"),
    ]
    assert [level_name(event) for event, _ in levels] == [said for _, said in levels]


@pytest.mark.parametrize("line", ["", "{", "[]", '{"type": "retry"}', '{"type": "of tomorrow"}', '{"type": "task"}'])
def test_a_broken_line_is_none(line: str) -> None:
    assert read(line) is None


RETRY = Retrying("open", 1, 3, 1.0, "refused", "network")


def test_many_writers_share_the_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "events.jsonl"

    def write(worker: str) -> None:
        log = EventLog(path)
        for _ in range(200):
            log.on_record(record(RETRY, worker=worker))
        log.close()

    threads = [threading.Thread(target=write, args=(f"gw{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [*Tail(path, "run-1").records()]
    assert sorted({each.worker for each in found}) == ["gw0", "gw1", "gw2", "gw3"]
    assert len(found) == 800


def test_the_reader_takes_whole_lines_of_its_run_once(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail = Tail(path, "run-1")
    assert [*tail.records()] == []
    log = EventLog(path)
    log.on_record(record(RETRY))
    log.on_record(record(RETRY, run="of old"))
    with path.open("a") as file:
        file.write('{"torn')
    assert len([*tail.records()]) == 1
    assert [*tail.records()] == []
    with path.open("a") as file:
        file.write('"\n')
    log.on_record(record(RETRY))
    assert len([*tail.records()]) == 1
    log.close()


@pytest.mark.parametrize("mark", ["\u2028", "\x85", "\x1c", "\u2029"])
def test_a_text_does_not_break_its_line(tmp_path: Path, mark: str) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.on_record(record(Retrying("open", 1, 3, 1.0, f"of{mark}two lines")))
    log.close()
    (found,) = Tail(tmp_path / "events.jsonl", "run-1").records()
    assert found.event == Retrying("open", 1, 3, 1.0, f"of{mark}two lines")


def test_a_run_does_not_disturb_another(tmp_path: Path) -> None:
    link = tmp_path / ".harness" / "events.jsonl"
    link.parent.mkdir()
    link.write_text("of an older version\n")
    first, second = events_of(tmp_path, "run-1"), events_of(tmp_path, "run-2")
    begin(first, START)
    log, tail = EventLog(first), Tail(first, "run-1")
    log.on_record(record(RETRY))
    begin(second, START)
    log.on_record(record(RETRY))
    log.close()
    assert len([*tail.records()]) == 2
    assert link.resolve() == second.resolve()
    assert [each.name for each in link.parent.iterdir() if each.name.startswith(".")] == []


def test_files_of_old_runs_go(tmp_path: Path) -> None:
    for number in range(KEPT + 3):
        path = events_of(tmp_path, f"run-{number}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (START.timestamp() + number,) * 2)
    young = events_of(tmp_path, "run-3")
    begin(events_of(tmp_path, "new"), START + timedelta(seconds=3, hours=1))
    kept = {each.stem for each in young.parent.iterdir()}
    assert kept == {"new", *(f"run-{number}" for number in range(3, KEPT + 3))}
    begin(events_of(tmp_path, "new"), START + timedelta(days=1))
    assert {each.stem for each in young.parent.iterdir()} == kept - {"run-3"}


def test_where_no_link_can_be_made_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_args: object, **_options: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(Path, "symlink_to", refused)
    begin(events_of(tmp_path, "run-1"), START)
    assert [each.name for each in (tmp_path / ".harness").iterdir()] == ["events"]
    monkeypatch.undo()
    (tmp_path / ".harness" / "events.jsonl").mkdir()
    begin(events_of(tmp_path, "run-1"), START)
    assert {each.name for each in (tmp_path / ".harness").iterdir()} == {"events", "events.jsonl"}


def test_a_file_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").mkdir()
    stage = Stage(sinks=(EventLog(tmp_path / "events.jsonl"),))
    stage.telemetry.emit(RETRY)
    (tmp_path / "events.jsonl").rmdir()
    stage.telemetry.emit(RETRY)
    assert len(stage.records) == 2
    assert "Is a directory" in stage.telemetry.problems["events.jsonl"]
    assert not (tmp_path / "events.jsonl").exists()


def test_a_full_disk() -> None:
    stage = Stage(sinks=(EventLog(Path("/dev/full")),))
    stage.telemetry.emit(RETRY)
    assert "No space left" in stage.telemetry.problems["events.jsonl"]


def test_a_line_that_fits_only_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda _file, line: len(line) - 1)
    stage = Stage(sinks=(EventLog(tmp_path / "events.jsonl"),))
    stage.telemetry.emit(RETRY)
    assert "the disk is full" in stage.telemetry.problems["events.jsonl"]


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger(LOGGER)
    level, handlers = found.level, [*found.handlers]
    yield found
    found.setLevel(level)
    found.handlers = handlers


@pytest.mark.parametrize(
    ("profile", "levels"),
    [
        ("production", ["ERROR", "CRITICAL"]),
        ("evaluation", ["WARNING", "ERROR", "CRITICAL"]),
        ("debug", ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]),
    ],
)
def test_log_profiles(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture, profile: LogProfile, levels: list[str]
) -> None:
    sink = LogSink(profile)
    for event, _, _ in ALL.values():
        sink.on_record(record(event, task_id="T-1", step=2))
    assert sorted({each.levelname for each in caplog.records}) == sorted(levels)
    assert all(each.name == "harness.resilience" for each in caplog.records)


def test_a_log_line_says_where(logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    sink = LogSink("evaluation")
    sink.on_record(record(RETRY, task_id="T-1", step=0))
    sink.on_record(record(CircuitChanged("c", "closed", "open", "r")))
    assert [each.getMessage() for each in caplog.records] == [
        "Retrying 1/3 in 1.0 s: refused [T-1 step 0]",
        "circuit c: closed -> open (r)",
    ]


def test_spans() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = Spans("run-1", provider.get_tracer("test"))
    stage = Stage(sinks=(spans,))
    plan = sample.plan(secrets=("hunter2",))
    failure = Failure("NET_CONNECTION_REFUSED", "refused hunter2")
    stage.telemetry.on(TaskStarted(plan, sample.START))
    stage.telemetry.on(AttemptEnded(plan, 0, sample.attempt(plan.steps[0], 0.0, 0.5, failure)))
    stage.telemetry.emit(CircuitChanged("c", "closed", "open", "r"))
    stage.telemetry.on(AttemptEnded(plan, 0, sample.attempt(plan.steps[0], 2.0, 0.5)))
    stage.telemetry.on(ResilienceActed(plan, 0, Recovered("open", 2.0, 2)))
    stage.telemetry.on(TaskEnded(plan, sample.failed(plan, failure, 0), sample.START))
    first, second, task = exporter.get_finished_spans()
    assert (first.name, task.name) == ("open http://shop.local/", plan.task_id)
    assert first.parent is not None
    assert first.parent.span_id == task.context.span_id
    assert (first.end_time or 0) - (first.start_time or 0) == 500_000_000
    assert (first.status.status_code, second.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert first.status.description == "refused [redacted]"
    assert [event.name for event in task.events] == ["circuit-state-change", "recovered", "task"]
    assert dict(task.attributes or {})["taskspec.final_state"] == "failed"


def test_the_figures_of_a_run() -> None:
    crossed: list[ThresholdCrossed] = []
    tally = MetricsSink(crossed.append)
    events = [
        RETRY,
        Recovered("open", 2.0, 2),
        CircuitChanged("c", "closed", "open", "r"),
        FellBack("a", "x", "y", "e"),
    ]
    for event in events:
        tally.on_record(record(event, task_id="T-1", step=0))
    done = TaskDone("completed", 9, 5, 20, 4, retries=1, successful_retries=1, fallbacks=1)
    tally.on_record(record(replace(done, recovered=1, recovery_seconds=2.0), task_id="T-1"))
    tally.on_record(record(replace(done, final_state="skipped", attempts=0, failures=0), task_id="T-2"))
    tally.on_record(record(Retrying("channel", 1, 3, 0.5, "reset", "network"), task_id="T-1"))
    assert tally.as_json()["resilience"] == {
        "totalAttempts": 21, "successfulRetries": 1, "failedRetries": 0, "circuitOpens": 1, "fallbacksUsed": 1,
        "avgRecoveryTime": 2.0,
    }  # fmt: skip
    assert [each.after for each in crossed] == ["critical"]
    assert tally.as_json()["thresholds"]["error_rate"]["value"] == 0.2
    assert tally.lines() == [
        "resilience: 1 retry (1 worked), circuit opened once, 1 fallback, recovered in 2.0 s on average",
        "alarm: 20 % of the attempts failed (critical: over 15 %)",
    ]


def test_waiting_for_a_circuit_is_no_retry() -> None:
    tally = MetricsSink()
    for _ in range(30):
        tally.on_record(record(Waiting("open", 30.0, "circuit c is open"), task_id="T-1", step=0))
    tally.on_record(record(GaveUp("open", "nothing was sent", False, "unavailable"), task_id="T-1", step=0))
    assert tally.metrics == ResilienceMetrics()
    assert {each.value for each in tally.readings} == {0.0}


def test_what_was_ordered_alarms_nobody() -> None:
    tally = MetricsSink()
    for _ in range(30):
        tally.on_record(record(GaveUp("click", "crashed", False, "session"), task_id="T-1", step=0, faulted=True))
    tally.on_record(record(TaskDone("failed", 9, 5, 20, 20), faulted=True))
    tally.on_record(record(TaskDone("failed", 9, 5, 20, 20, expected=True)))
    assert {each.level for each in tally.readings} == {"ok"}
    assert MetricsSink().lines() == []


def test_the_text_of_prometheus() -> None:
    tally = MetricsSink()
    tally.on_record(record(RETRY, task_id="T-1", step=0))
    tally.on_record(record(Recovered("open", 2.0, 2), task_id="T-1", step=0))
    tally.on_record(record(TaskDone("completed", 9, 5, 20, 1, retries=1, successful_retries=1), task_id="T-1"))
    families = text_string_to_metric_families(exposition(tally, {"completed": 2, "failed": 1}))
    samples = {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}
    assert samples["taskspec_attempts_total",] == 20
    assert samples["taskspec_retries_total", "worked"] == 1
    assert samples["taskspec_tasks_total", "completed"] == 2
    assert samples["taskspec_threshold_level", "error_rate"] == 0


CALL = ModelCall(
    "builder", "claude", "anthropic", "haiku", 7, 2, sample.START, 3.0, 0.4,
    Usage(input=12_000, output=180, cache_read=9000), 0.25, "answered",
)  # fmt: skip
LOST = replace(CALL, usage=Usage(input=100, estimated=True), cost=None, outcome="failed", code="MODEL_TIMEOUT")


def test_a_request_to_a_model_is_a_span_by_the_conventions_for_generative_ai() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    stage = Stage(sinks=(Spans("run-1", provider.get_tracer("test")),))
    plan = sample.plan(agent="builder")
    stage.telemetry.on(TaskStarted(plan, sample.START))
    for call in (CALL, LOST):
        stage.telemetry.on(ModelAsked(plan, "builder", "claude", 7, sample.START))
        stage.telemetry.on(ModelAnswered(plan, call))
    stage.telemetry.on(TaskEnded(plan, sample.completed(plan), sample.START))
    answered, lost, task = exporter.get_finished_spans()
    assert (answered.name, answered.kind) == ("chat haiku", SpanKind.CLIENT)
    assert [event.name for event in task.events] == ["task"]
    assert answered.parent is not None
    assert answered.parent.span_id == task.context.span_id
    assert (answered.end_time or 0) - (answered.start_time or 0) == 3_000_000_000
    found = dict(answered.attributes or {})
    assert {name: found[name] for name in found if name.startswith("gen_ai.")} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "haiku",
        "gen_ai.agent.name": "builder",
        "gen_ai.usage.input_tokens": 12_000,
        "gen_ai.usage.output_tokens": 180,
        "gen_ai.usage.cache_read.input_tokens": 9000,
        "gen_ai.usage.cache_creation.input_tokens": 0,
    }
    assert found["taskspec.cost_usd"] == 0.25
    attributes = dict(lost.attributes or {})
    assert (attributes["error.type"], "taskspec.cost_usd" in attributes) == ("MODEL_TIMEOUT", False)


def test_the_figures_of_models() -> None:
    tally = MetricsSink()
    result = replace(sample.completed(sample.plan(agent="builder")), model_calls=(CALL, LOST))
    done = TaskDone.of(result, "builder")
    tally.on_record(record(done, task_id="T-1"))
    tally.on_record(record(CircuitChanged("provider:claude", "closed", "open", "r"), task_id="T-1", step=7))
    line = "models: 2 calls, 1 failed, 12.1k in (74 % cached), 180 out, $0.25, 1 unpriced; circuits: 1 opened"
    assert line in tally.lines()
    found = tally.as_json()["models"]
    assert (found["calls"], found["circuit_opens"], found["by_model"]["claude"]["cost_usd"]) == (2, 1, 0.25)
    families = text_string_to_metric_families(exposition(tally, {}))
    samples = {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}
    assert samples["taskspec_model_calls_total", "claude", "failed"] == 1
    assert samples["taskspec_model_tokens_total", "input", "claude"] == 12_100
    assert samples["taskspec_model_cost_usd_total", "claude"] == 0.25


def test_calls_of_tools_in_spans_metrics_and_records() -> None:
    exporter, provider, figures = InMemorySpanExporter(), TracerProvider(), MetricsSink()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    stage = Stage(sinks=(Spans("run-1", provider.get_tracer("test")), figures))
    plan = sample.plan(secrets=("hunter2",))
    calls = (tools.CALL, replace(tools.LOST, message="no hunter2"), replace(tools.ERROR, step=None))
    stage.telemetry.on(TaskStarted(plan, sample.START))
    for call in calls:
        stage.telemetry.on(ToolCalled(plan, call.server, call.tool, call.step, call.at))
        stage.telemetry.on(ToolAnswered(plan, call))
    stage.telemetry.emit(ToolServerChanged("mail", "online", "offline", "lost"))
    stage.telemetry.on(TaskEnded(plan, replace(sample.completed(plan), tool_calls=calls), sample.START))
    answered, lost, _, _ = exporter.get_finished_spans()
    assert (answered.name, answered.kind) == ("tools/call get_code", SpanKind.CLIENT)
    told = answered.attributes or {}
    assert (told["gen_ai.tool.name"], told["mcp.method.name"]) == ("get_code", "tools/call")
    assert lost.status.description == "no [redacted]"
    assert (lost.attributes or {})["error.type"] == "TOOL_UNAVAILABLE"
    assert [each.task_id for each in stage.records if each.event.type == "tool-server-status"] == [""]
    assert [each.step for each in stage.records if each.event.type == "tool-answered"] == [1, 1, None]
    found = figures.as_json()["tools"]
    assert (found["calls"], found["failed"], found["errors"], found["repeated"]) == (3, 1, 1, 3)
    assert (found["by_server"]["mail"]["get_code"]["calls"], found["servers"]) == (3, {"mail": "offline"})
    line = "tools: 3 calls, 1 answered with an error, 1 failed, 3 repeated; servers: mail offline"
    assert line in figures.lines()
    samples = {
        (each.name, *sorted(each.labels.values())): each.value
        for family in text_string_to_metric_families(exposition(figures, {}))
        for each in family.samples
    }
    assert samples["taskspec_tool_calls_total", "failed", "get_code", "mail"] == 1
    assert samples["taskspec_tool_call_seconds_total", "get_code", "mail"] == pytest.approx(4.1)
    assert samples["taskspec_tool_server_state", "mail", "offline"] == 1
    assert samples["taskspec_tool_server_state", "mail", "online"] == 0


def test_of_several_workers_the_worst_state_of_a_server_counts() -> None:
    figures = MetricsSink()
    for worker, state in (("gw0", "offline"), ("gw1", "permanently_failed"), ("gw0", "online"), ("gw2", "stopped")):
        figures.on_record(record(ToolServerChanged("mail", "connecting", state, "r"), worker=worker))
    assert figures.tool_servers == {"mail": "permanently_failed"}


def test_a_server_that_a_fault_strikes_is_not_that_of_the_run() -> None:
    figures = MetricsSink()
    figures.on_record(record(ToolServerChanged("mail", "restarting", "permanently_failed", "crash_3")))
    figures.on_record(record(ToolServerChanged("mail", "online", "stopped", "closed", own=True)))
    assert figures.tool_servers == {"mail": "permanently_failed"}
