"""`harness watch`: a save runs what it concerns; services and browser stay up; keys act."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests.acceptance.warm import start_harness

PYTHON = "def read(world):\n    return {'answer': ANSWER}\n"
TASK = """task_id: T
steps: [{act: open, url: /}]
success_criteria: ["text('#a') == 'VALUE'", "json('mine', 'answer') == 1"]
"""
LOGGING = """task_id: NAME
steps: [{act: open, url: /logging}]
success_criteria: ["text('#a') == 'a'"]
"""
WAIT = 30


class Watch:
    """The command, its keys, and the lines that it prints."""

    def __init__(self, folder: Path, stdin: int = subprocess.PIPE) -> None:
        self.process = start_harness("watch", "tasks", cwd=folder, stdin=stdin)
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def press(self, key: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(key)
        self.process.stdin.flush()

    def until(self, text: str) -> str:
        """All that is printed up to a line with this text."""
        seen = ""
        while text not in seen:
            seen += self._lines.get(timeout=WAIT)
        return seen


@pytest.fixture
def folder(tmp_path: Path, httpserver: HTTPServer) -> Path:
    httpserver.expect_request("/").respond_with_data("<!doctype html><p id=a>a", content_type="text/html")
    settings = f'[tool.harness]\nbase_url = "{httpserver.url_for("")}"\nisolation = "none"\n'
    settings += '[tool.harness.channels.mine]\npython = "mine:read"\n'
    (tmp_path / "pyproject.toml").write_text(settings, "utf-8")
    (tmp_path / "mine.py").write_text(PYTHON.replace("ANSWER", "1"), "utf-8")
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "t.task.yaml").write_text(TASK.replace("VALUE", "b"), "utf-8")
    return tmp_path


@pytest.fixture
def watch(folder: Path) -> Iterator[Watch]:
    watch = Watch(folder)
    yield watch
    watch.process.kill()
    watch.process.wait(WAIT)


def test_without_a_terminal_it_runs_its_tasks_and_goes_on(folder: Path) -> None:
    """It is told that there are no keys; saves run tasks."""
    task = folder / "tasks" / "t.task.yaml"
    service = Watch(folder, subprocess.DEVNULL)
    try:
        assert "there is no terminal, so no keys are read" in service.until("1 run, 1 failed")
        task.write_text(TASK.replace("VALUE", "a"), "utf-8")
        assert "run again" not in service.until("1 run, 0 failed")
    finally:
        service.process.terminate()
        service.process.wait(WAIT)


@pytest.mark.thorough
def test_the_end_of_a_pipe_ends_it_after_the_tasks_that_run(folder: Path) -> None:
    (folder / "tasks" / "t.task.yaml").write_text(TASK.replace("VALUE", "a"), "utf-8")
    piped = Watch(folder)
    assert piped.process.stdin is not None
    piped.process.stdin.close()
    piped.until("1 run, 0 failed")
    assert piped.process.wait(WAIT) == 0


def test_saves_and_keys(folder: Path, watch: Watch) -> None:
    task, python = folder / "tasks" / "t.task.yaml", folder / "mine.py"
    assert "T failed: CRITERIA_UNMET" in watch.until("1 run, 1 failed")
    task.write_text(TASK.replace("VALUE", "a"), "utf-8")
    assert "saved: tasks/t.task.yaml\npassed T" in watch.until("1 run, 0 failed")
    (events,) = (folder / ".harness/events").glob("*.jsonl")
    told = [json.loads(line) for line in events.read_text("utf-8").splitlines()]
    assert [each["tasks"] for each in told if each["type"] == "run-begun"] == [1]  # the live page shows it
    assert [each["final_state"] for each in told if each["type"] == "task"] == ["failed", "completed"]
    python.write_text(PYTHON.replace("ANSWER", "23"), "utf-8")
    assert "actual:   23" in watch.until("1 run, 1 failed")
    python.write_text(PYTHON.replace("ANSWER", "1"), "utf-8")
    assert "saved: mine.py\npassed T" in watch.until("1 run, 0 failed")
    task.write_text("task_id: T\nsteps: [", "utf-8")
    assert "tasks/t.task.yaml:2:9: not valid YAML" in watch.until("error: ")
    task.write_text(TASK.replace("VALUE", "a"), "utf-8")
    watch.until("passed T")
    watch.press("r")
    watch.until("1 run, 0 failed")
    watch.press("s")  # no key of its own: the keys are told
    watch.until("r: run again, a: run all, b: accept baselines, t: open trace, q: quit")
    _a_baseline_that_differs_is_accepted_with_a_key(folder, watch)
    watch.press("q")
    assert watch.process.wait(WAIT) == 0


def _a_baseline_that_differs_is_accepted_with_a_key(folder: Path, watch: Watch) -> None:
    task, baseline = folder / "tasks" / "t.task.yaml", folder / "tasks" / "page.aria.yaml"
    steps = "steps: [{act: open, url: /}, {act: assert, selector: p, aria: page.aria.yaml}]"
    baseline.write_text("- paragraph: b\n", "utf-8")
    task.write_text(f"task_id: T\n{steps}\n", "utf-8")
    assert "T failed: ASSERTION_FAILED at step 1" in watch.until("1 run, 1 failed")
    watch.press("b")
    assert "passed T" in watch.until("1 run, 0 failed")
    assert "- paragraph: a" in baseline.read_text("utf-8")
    assert "passed T" in watch.until("1 run, 0 failed"), "the saved baseline concerns the task, which runs against it"
    watch.press("b")
    watch.until("no task failed, so there is no baseline to accept")


@pytest.mark.thorough
def test_a_site_that_writes_files_of_its_own_cuts_no_round_short(
    folder: Path, httpserver: HTTPServer, watch: Watch
) -> None:
    def page(_: Request) -> Response:
        (folder / "site.log").write_text("a visit", "utf-8")
        time.sleep(0.5)  # the watcher tells the change while the task runs
        return Response("<!doctype html><p id=a>a", content_type="text/html")

    watch.until("1 run, 1 failed")
    httpserver.expect_request("/logging").respond_with_handler(page)
    for name in ("U", "V"):
        (folder / "tasks" / f"{name}.task.yaml").write_text(LOGGING.replace("NAME", name), "utf-8")
    watch.until("passed V")
    watch.until(" run, ")
    for _ in range(3):  # a late notice of the saved tasks may end a round
        watch.press("a")
        seen = watch.until(" run, ")
        if "3 run, 1 failed" in seen:
            break
    assert "3 run, 1 failed" in seen
