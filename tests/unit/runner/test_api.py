"""What `execute_task` tells of a run, without a browser."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.model.events import ResilienceActed, TaskEnded
from harness.model.plan import Plan
from harness.model.record import TaskResult
from harness.model.settings import Settings
from harness.reporting.redaction import Redactor
from harness.reporting.telemetry.log import LOGGER
from harness.reporting.telemetry.stream import in_task
from harness.resilience.events import CircuitChanged, Emit, GaveUp
from harness.runner import sync
from harness.runner.api import execute_task
from harness.spec.task import TaskSpec
from tests.unit.reporting import sample


class Failing:
    """A SyncHarness whose tasks fail, as a circuit opens."""

    archive = SimpleNamespace(redactor=Redactor())

    def __init__(self, settings: Settings, run_id: str, tell: Emit) -> None:
        self.settings, self.run_id, self._tell = settings, run_id, tell

    def run(self, plan: Plan, sink: Callable[[Any], None]) -> TaskResult:
        with in_task(plan, wake=sink):
            self._tell(CircuitChanged("c", "closed", "open", "consecutive_failures_5"))
        result = sample.failed(plan, index=-1)
        sink(ResilienceActed(plan, -1, GaveUp("task T-1", "refused", exhausted=False)))
        sink(TaskEnded(plan, result, sample.START))
        return result

    def close(self) -> None:
        """Nothing was opened."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    logger = logging.getLogger(LOGGER)
    level, handlers = logger.level, [*logger.handlers]
    monkeypatch.setattr(sync, "SyncHarness", Failing)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    logger.setLevel(level)
    logger.handlers = handlers


def test_what_happens_is_logged(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    (project / "pyproject.toml").write_text('[tool.harness]\nlog_profile = "production"\n')
    execute_task(TaskSpec.model_validate({"task_id": "T-1", "goal": "g", "steps": [{"act": "wait", "value": 0}]}))
    assert [each.levelname for each in caplog.records if each.name == LOGGER] == ["ERROR"] * 3
    assert logging.getLogger(LOGGER).level == logging.ERROR
    assert "circuit c: closed -> open (consecutive_failures_5) [T-1]" in caplog.messages
