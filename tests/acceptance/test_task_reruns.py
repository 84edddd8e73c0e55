"""Tasks whose process died beside `-n`: `--reruns` runs them once more, in their place; who was beside them passes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.acceptance.conftest import Project

CHANNEL = """
import os, pathlib, signal
def read(world):
    died = pathlib.Path("died")
    if not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"ready": "yes"}
"""


def deadly(project: Project, source: str) -> None:
    """A channel of this name, whose `read` is in the source."""
    pyproject = project.path / "pyproject.toml"
    text = pyproject.read_text("utf-8") + '\n[tool.harness.channels.deadly]\npython = "deadly:read"\n'
    pyproject.write_text(text, "utf-8")
    (project.path / "deadly.py").write_text(source, "utf-8")


@pytest.mark.thorough
def test_a_task_whose_worker_died_runs_again_before_what_depends_on_it(project: Project) -> None:
    deadly(project, CHANNEL)
    wait = [{"act": "wait", "value": 0.01}]
    project.task("A", steps=wait, success_criteria=["json('deadly', 'ready') == 'yes'"])
    project.task("B", steps=wait, dependencies=["A"])
    project.task("C", steps=wait)
    result = project.run("-n", "2", "--reruns", "1")
    outcomes = result.parseoutcomes()
    assert (outcomes["passed"], outcomes["rerun"]) == (3, 1)
    assert not outcomes.keys() & {"failed", "skipped", "errors"}
    records = json.loads((project.path / ".harness" / "last-run.json").read_text("utf-8"))["results"]
    assert {each["task_id"]: each["final_state"] for each in records} == dict.fromkeys("ABC", "completed")


KILLER = """
import os
def read(world):
    os._exit(3)
"""


@pytest.mark.thorough
def test_one_that_kills_its_worker_takes_no_neighbour_along(project: Project) -> None:
    """They ran in it at the same time, and run again. What they depend on has passed in the worker that died."""
    deadly(project, KILLER)
    wait = [{"act": "wait", "value": 1}]
    project.task("A", steps=[{"act": "wait", "value": 0.01}])
    project.task("B", steps=wait, dependencies=["A"])
    project.task(
        "C",
        steps=[{"act": "wait", "value": 0.5}],
        dependencies=["A"],
        success_criteria=["json('deadly', 'ready') == 'yes'"],
    )
    result = project.run("-n", "1", "--task-workers", "3")
    assert {key: result.parseoutcomes().get(key) for key in ("passed", "failed")} == {"passed": 2, "failed": 1}
    assert any("these run again, one at a time: B, C" in line for line in result.outlines)
    report = project.report("C")
    assert report["code"] == "WORKER_CRASHED"
    assert "ran several tasks at the same time" in report["error_message"]


class Slow(BaseHTTPRequestHandler):
    """A page with a form; the site has got what is sent, and does not answer."""

    posts: Path
    over: threading.Event

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<form method=post action=/order><button>Order</button></form>")

    def do_POST(self) -> None:
        with self.posts.open("a") as file:
            file.write("order\n")
        self.over.wait(60)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def slow(project: Project) -> Iterator[str]:
    """The address of the page."""
    kind = type("SlowHere", (Slow,), {"posts": project.path / "posts", "over": threading.Event()})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        kind.over.set()
        server.shutdown()


DIES_ONCE_IT_IS_SENT = """
import os, pathlib, time
def read(world):
    sent, died = pathlib.Path("posts"), pathlib.Path("died")
    if sent.exists() and time.time() - sent.stat().st_mtime > 2 and not died.exists():
        died.touch()
        os._exit(3)
    return {"ready": "yes" if died.exists() else "no"}
"""
"""Two seconds later: the browser tells of a request when it leaves, and a busy machine hears of it late."""


def test_a_click_whose_answer_is_missing_when_the_worker_dies_is_not_done_again(project: Project, slow: str) -> None:
    """Nothing in its file says that it writes: it is known from the request that leaves."""
    deadly(project, DIES_ONCE_IT_IS_SENT)
    click = {"act": "click", "selector": "button"}
    project.task("A", steps=[{"act": "open", "url": slow}, click, {"act": "wait", "value": 1}])
    ready = "WITHIN(60, json('deadly', 'ready') == 'yes')"
    project.task("B", steps=[{"act": "wait", "value": 0.01}], success_criteria=[ready])
    result = project.run("-n", "1", "--task-workers", "2")
    assert {key: result.parseoutcomes().get(key) for key in ("passed", "failed")} == {"passed": 1, "failed": 1}
    assert (project.path / "posts").read_text() == "order\n"
    report = project.report("A")
    assert report["code"] == "WORKER_CRASHED"
    assert "this task had begun to write" in report["error_message"]
