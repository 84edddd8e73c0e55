"""Which tasks of killed runs have nobody else to write their report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.bridge.store import SessionStore, StoredSession
from harness.model.settings import load_settings
from harness.reporting.telemetry.log import events_of
from harness.resilience.owner import Owner
from harness.runner.requested import dead_tasks, report_dead_tasks

DEAD = 2**22 + 1
"""A pid that no process has."""
RUN, OTHER, NEWER = f"20260102T030405-{DEAD}", "20260102T030405-7", "20260102T030406-7"
BEGUN = ("task-begun", {"key": "t", "steps": 0})
ENDED = ("task", {"final_state": "completed", "seconds": 1.0, "steps": 1, "attempts": 1, "failures": 0})


def tell(root: Path, run: str, *words: tuple[str, dict[str, object]], task: str = "T") -> None:
    file = events_of(root, run)
    file.parent.mkdir(parents=True, exist_ok=True)
    stamp = {"at": "2026-01-02T03:04:05+00:00", "level": "INFO", "run": run, "worker": "", "step": None}
    more = dict.fromkeys(
        ("code", "severity", "source", "reason", "expected", "retries", "successful_retries", "fallbacks", "recovered",
         "recovery_seconds", "agent", "takeovers", "models", "tools"), "",
    )  # fmt: skip
    with file.open("a", encoding="utf-8") as lines:
        for kind, fields in words:
            record = {**stamp, "type": kind, "task_id": task, "faulted": False, **more, **fields}
            lines.write(json.dumps(record) + "\n")


def session(root: Path, *, task: str | None = "T", state: str = "active", pid: int = DEAD, wrote: bool = False) -> None:
    store = SessionStore(root, Owner(pid))
    store.save(StoredSession("sess-1", state, task=task, wrote=wrote))
    store.close()


def test_a_task_is_dead_if_the_newest_run_that_had_it_is_that_of_its_session(tmp_path: Path) -> None:
    session(tmp_path)
    assert dead_tasks(tmp_path) == ()  # nothing tells that it has begun
    tell(tmp_path, NEWER, BEGUN, ENDED, task="U")
    tell(tmp_path, RUN, BEGUN)
    assert [(each.task_id, each.run, each.session.id) for each in dead_tasks(tmp_path)] == [("T", RUN, "sess-1")]
    tell(tmp_path, NEWER, BEGUN)
    assert dead_tasks(tmp_path) == ()  # it runs again, and has a result of its own


@pytest.mark.parametrize("ended", [False, True])
def test_a_task_that_has_ended_or_is_another_runs_is_not_dead(tmp_path: Path, *, ended: bool) -> None:
    session(tmp_path)
    tell(tmp_path, RUN if ended else OTHER, BEGUN, *([ENDED] if ended else []))
    assert dead_tasks(tmp_path) == ()


@pytest.mark.parametrize("how", [{"task": None}, {"state": "closed"}])
def test_a_session_without_a_task_has_no_dead_one(tmp_path: Path, how: dict[str, str | None]) -> None:
    session(tmp_path, **how)  # type: ignore[arg-type]
    tell(tmp_path, RUN, BEGUN)
    assert dead_tasks(tmp_path) == ()


def test_the_report_says_whether_the_task_had_begun_to_write(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    settings = load_settings(tmp_path)
    session(tmp_path, wrote=True)
    tell(tmp_path, RUN, BEGUN)
    assert "not below tasks" in report_dead_tasks(settings)[0]
    (tmp_path / "tasks/t.task.yaml").write_text("task_id: T\ngoal: g\nsteps: []\n", "utf-8")
    assert "did task T: WORKER_CRASHED" in report_dead_tasks(settings)[0]
    report = json.loads((settings.artifacts / "T/error_report.json").read_text("utf-8"))
    assert report["code"] == "WORKER_CRASHED"
    assert "this task had begun to write" in report["error_message"]
    assert report_dead_tasks(settings) == []
