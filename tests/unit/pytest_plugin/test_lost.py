"""The record of a task whose worker died."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from harness.model.settings import Settings
from harness.pytest_plugin.lost import report_lost_task
from harness.pytest_plugin.state import STATE
from harness.pytest_plugin.telemetry import TELEMETRY
from harness.reporting.archive import DirectoryArchive
from harness.reporting.fence import OutputFence
from harness.runner.not_run import died
from tests.unit.reporting.telemetry.stage import Stage


def test_the_record_of_a_lost_task_has_no_text_that_the_project_redacts(tmp_path: Path) -> None:
    task = {"task_id": "T-1", "goal": "look", "steps": [{"act": "open", "url": "http://shop.local/"}]}
    (tmp_path / "t.task.json").write_text(json.dumps(task), "utf-8")
    settings = Settings(root=tmp_path, artifacts=tmp_path / "errors", redact=("sess-[0-9]+",))
    archive = DirectoryArchive.of(settings, "run-1")
    harness = SimpleNamespace(archive=archive)
    state = SimpleNamespace(
        settings=settings, run_id="run-1", chosen=None, fence=OutputFence(), harness=lambda: harness
    )
    stage = Stage(settings.redact)
    config = SimpleNamespace(stash={STATE: state, TELEMETRY: SimpleNamespace(stream=stage.telemetry)})
    report = SimpleNamespace(longrepr="worker 'gw0' crashed")
    why = died("the end of its log: sess-4711")
    report_lost_task(cast("Any", config), report, "t.task.json::T-1", why)
    assert report.taskspec["code"] == "WORKER_CRASHED"
    assert "[redacted]" in report.taskspec["message"]
    assert "sess-4711" not in json.dumps(report.taskspec) + report.longrepr
    assert stage.events[-1].code == "WORKER_CRASHED"
