"""What runs without pytest leave of their events: `harness chaos`, `harness verify`, `execute_task`."""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Project
from tests.acceptance.warm import harness

SECRET = "hunter2-of-the-shop"
SCRIPT = "from harness import execute_task, load_task; execute_task(load_task('T-1'))"


def closed_port() -> int:
    """It stays ours until the end and does not listen: nobody can answer there."""
    taken = socket.socket()
    atexit.register(taken.close)
    taken.bind(("127.0.0.1", 0))
    port: int = taken.getsockname()[1]
    return port


@pytest.fixture
def refused(project: Project) -> Project:
    """A project with a task that fails after two retries, at an address with a secret in it."""
    (project.path / "tasks").mkdir()
    path = project.task(
        "T-1",
        steps=[{"act": "open", "url": f"http://127.0.0.1:{closed_port()}/${{env:KEY}}"}],
        error_recovery={"on_network_error": {"max_retries": 2, "retry_delay_ms": 20}},
    )
    path.rename(project.path / "tasks" / path.name)
    return project


def records(file: Path) -> list[dict[str, Any]]:
    text = file.read_text("utf-8")
    assert SECRET not in text
    return [json.loads(line) for line in text.splitlines()]


OTHERS = ("service-status", "task-begun", "step-begun")
"""What sites do, and what only a live view needs."""


def kinds(found: list[dict[str, Any]]) -> Counter[str]:
    return Counter(each["type"] for each in found if each["type"] not in OTHERS)


def test_verify_and_chaos_leave_a_file_each(refused: Project) -> None:
    link = refused.path / ".harness" / "events.jsonl"
    assert harness("verify", "tasks", cwd=refused.path, KEY=SECRET).returncode == 1
    first = link.resolve()
    found = records(link)
    assert kinds(found) == {"task": 1, "failed": 1, "retry": 2}, "as written, not with no steps"
    assert {each["run"] for each in found} == {first.stem}
    assert [each["task_id"] for each in found if each["type"] == "retry"] == ["T-1", "T-1"]
    assert any(each["type"] == "service-status" and not each["task_id"] for each in found)
    faults = {"name": "small", "faults": [{"kind": "refuse", "host": "shop.local", "connections": 1}]}
    (refused.path / "small.faults.yaml").write_text(json.dumps(faults), "utf-8")
    chaos = ("chaos", "tasks", "--faults", "small.faults.yaml", "--clean-trials", "0", "--json", "c.json")
    done = harness(*chaos, cwd=refused.path, KEY=SECRET)
    assert done.returncode == 1, done.stderr
    found = records(link)
    run = json.loads((refused.path / "c.json").read_text("utf-8"))["run"]
    assert {each["run"] for each in found} == {run} == {link.resolve().stem}
    assert kinds(found) == {"task": 1, "failed": 1, "retry": 2}
    assert all(each["faulted"] for each in found if each["task_id"])
    assert {each.name for each in first.parent.glob("*.jsonl")} == {first.name, f"{run}.jsonl"}


@pytest.mark.thorough
def test_execute_task_writes_its_own_and_leaves_the_link_to_runs(refused: Project) -> None:
    link = refused.path / ".harness" / "events.jsonl"
    link.parent.mkdir(exist_ok=True)
    link.write_text("of the run of pytest around it\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=refused.path,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "KEY": SECRET, "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert link.read_text("utf-8") == "of the run of pytest around it\n"
    (file,) = (refused.path / ".harness" / "events").iterdir()
    found = records(file)
    assert kinds(found) == {"retry": 2, "failed": 1, "task": 1}
    assert {each["run"] for each in found} == {file.stem}
