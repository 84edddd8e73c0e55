"""What a run leaves of its events: the file, the figures, the hook, the terminal; with xdist and without."""

from __future__ import annotations

import atexit
import json
import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Project

HOOK = """
import pathlib
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

EXPORTER = InMemorySpanExporter()

def pytest_configure(config):
    trace.set_tracer_provider(TracerProvider())
    trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(EXPORTER))

def pytest_taskspec_event(event, config):
    with pathlib.Path("hook.txt").open("a") as file:
        file.write(f"{event.worker}|{event.task_id}|{event.event.type}\\n")
    if event.event.type == "task":
        raise ValueError("a plugin that is broken")

def pytest_unconfigure(config):
    pathlib.Path("spans.txt").write_text("\\n".join(span.name for span in EXPORTER.get_finished_spans()))
"""


def closed_port() -> int:
    """It stays ours until the end and does not listen: nobody can answer there."""
    taken = socket.socket()
    atexit.register(taken.close)
    taken.bind(("127.0.0.1", 0))
    port: int = taken.getsockname()[1]
    return port


def records(project: Project) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (project.path / ".harness" / "events.jsonl").read_text("utf-8").splitlines()]


def metrics(project: Project) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((project.path / ".harness" / "metrics.json").read_text("utf-8"))
    return document


def refused(project: Project, task_id: str, retries: int = 2) -> Path:
    rule = {"strategy": "retry", "max_retries": retries, "retry_delay_ms": 50}
    return project.task(
        task_id,
        steps=[{"act": "open", "url": f"http://127.0.0.1:{closed_port()}/"}],
        error_recovery={"on_network_error": rule},
    )


@pytest.fixture
def telling(project: Project) -> Project:
    """A project that asks for everything."""
    file = project.path / "pyproject.toml"
    text = file.read_text("utf-8") + "\n[tool.harness.telemetry]\notel = true\nprometheus = true\n"
    file.write_text(text, "utf-8")
    (project.path / "conftest.py").write_text(HOOK, "utf-8")
    return project


def test_one_process(telling: Project) -> None:
    refused(telling, "T-1")
    telling.task("T-2")
    (telling.path / ".harness").mkdir(exist_ok=True)
    (telling.path / ".harness" / "events.jsonl").write_text("of an earlier run\n", "utf-8")
    run = telling.run("-v", "--alluredir=allure", "--task-log-profile=production")
    run.assert_outcomes(passed=1, failed=1)
    run.stdout.fnmatch_lines([
        "Retrying 1/2 in 0.1 s: *REFUSED* [[]T-1 step 0]",
        "Retrying 2/2 in 0.1 s: *",
        "output failed: hook pytest_taskspec_event: ValueError: a plugin that is broken; plugins were not told of *",
        "resilience: 2 retries (0 worked)",
        "outputs that failed, as said above: hook pytest_taskspec_event",
    ])  # fmt: skip
    told = [(each["task_id"], each["type"], each["level"]) for each in records(telling)]
    services = [each for each in told if each[1] == "service-status"]
    assert services
    assert "Captured log" not in run.stdout.str()
    often = [each for each in told if each not in services and each[1] != "step-begun"]
    assert often == [
        ("", "run-begun", "DEBUG"),
        ("T-1", "task-begun", "DEBUG"),
        ("T-1", "retry", "WARNING"),
        ("T-1", "retry", "WARNING"),
        ("T-1", "failed", "ERROR"),
        ("T-1", "task", "ERROR"),
        ("T-2", "task-begun", "DEBUG"),
        ("T-2", "task", "INFO"),
    ]
    hook = (telling.path / "hook.txt").read_text("utf-8").splitlines()
    assert hook == [f"|{task}|{kind}" for task, kind, _ in told]
    figures = metrics(telling)
    assert figures["run"] == records(telling)[0]["run"]
    assert figures["error_metrics"]["error_breakdown"] == {"network_error": 1}
    assert figures["resilience"]["failedRetries"] == 2
    assert {each["level"] for each in figures["thresholds"].values()} == {"ok"}
    assert 'taskspec_retries_total{outcome="failed"} 2.0' in (telling.path / ".harness" / "metrics.prom").read_text()
    spans = (telling.path / "spans.txt").read_text("utf-8").splitlines()
    assert (len(spans), spans[3], spans[-1]) == (6, "T-1", "T-2")
    assert "no tracer provider" not in run.stdout.str()


@pytest.mark.thorough
def test_two_workers(project: Project) -> None:
    for number in range(5):
        refused(project, f"T-{number}", retries=3)
    run = project.run("-n", "2")
    run.assert_outcomes(failed=5)
    found = records(project)
    assert {each["worker"] for each in found if each["type"] == "retry"} == {"gw0", "gw1"}
    assert len({each["run"] for each in found}) == 1
    assert sum(each["type"] == "retry" for each in found) == 15
    figures = metrics(project)
    assert figures["resilience"]["failedRetries"] == 15
    assert figures["resilience"]["totalAttempts"] == 20
    thresholds = figures["thresholds"]
    assert (thresholds["reconnection_failures"]["level"], thresholds["error_rate"]["level"]) == ("warning", "critical")
    run.stdout.fnmatch_lines([
        "resilience: 15 retries (0 worked)*",
        "alarm: 100 % of the attempts failed (critical: over 15 %)",
    ])  # fmt: skip
    run.stdout.no_fnmatch_line("alarm: *reconnections*")  # a warning, which metrics.json and the dashboard tell
    crossed = [each for each in found if each["type"] == "threshold"]
    assert {each["metric"] for each in crossed} == {"reconnection_failures", "error_rate"}
    assert {each["worker"] for each in crossed} == {""}


@pytest.mark.thorough
def test_runs_beside_one_another_and_without_a_terminal(project: Project) -> None:
    project.task("T-1")
    refused(project, "T-2")
    project.run()
    first = (project.path / ".harness" / "events.jsonl").resolve()
    run = project.run("-p", "no:terminal", "-n", "2")
    assert run.ret == pytest.ExitCode.TESTS_FAILED
    figures, second = metrics(project), (project.path / ".harness" / "events.jsonl").resolve()
    assert first != second
    assert [figures["run"]] == list({each["run"] for each in records(project)})
    assert {each.stem for each in second.parent.iterdir()} == {first.stem, figures["run"]}
    assert (figures["error_metrics"]["total_tasks"], figures["error_metrics"]["failed"]) == (2, 1)
    assert figures["resilience"]["failedRetries"] == 2


@pytest.mark.thorough
def test_what_cannot_be_written_or_is_not_known_is_said(project: Project) -> None:
    project.task("T-1")
    (project.path / ".harness").mkdir()
    (project.path / ".harness" / "events").write_text("in the way", "utf-8")
    run = project.run("-n", "1")
    run.assert_outcomes(passed=1)
    run.stdout.fnmatch_lines(["output failed: events.jsonl: *exists*; the events of this run are incomplete*"])
    refusal = project.run("--task-log-profile=loud")
    assert refusal.ret == pytest.ExitCode.USAGE_ERROR
    file = project.path / "pyproject.toml"
    file.write_text("[tool.harness]\nlog_profile = 'loud'\n[tool.harness.telemetry]\notl = true\n", "utf-8")
    refusal = project.run()
    refusal.stderr.fnmatch_lines([
        "*tool.harness.log_profile: Input should be 'production', 'evaluation' or 'debug' (found: 'loud')",
        "*tool.harness.telemetry: unknown key `otl` (did you mean `otel`?)",
    ])  # fmt: skip
    assert logging.getLogger("harness.resilience").level == logging.NOTSET


def test_a_task_that_never_began_has_ended_too(project: Project) -> None:
    project.task("LACKS", steps=[{"act": "open", "url": "${env:NOT_SET_ANYWHERE}"}])
    project.task("NEEDS", dependencies=["LACKS"])
    project.run()
    ends = {each["task_id"]: each for each in records(project) if each["type"] == "task"}
    assert {name: (each["final_state"], each.get("code")) for name, each in ends.items()} == {
        "LACKS": ("aborted", "INVALID_INPUT"),
        "NEEDS": ("skipped", ""),
    }
    assert "LACKS" in ends["NEEDS"]["reason"]
