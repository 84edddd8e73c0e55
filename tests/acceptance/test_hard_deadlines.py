"""A page in an endless loop, a server, a channel that never answers: it ends in time, and the next task runs."""

from __future__ import annotations

import http.server
import json
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.conftest import Project
from tests.conftest import FULL

BOUND, OVERSHOOT, LOADED = 2.0, 0.5, 2.0

PAGES = {
    "/": "<title>fine</title><h1>fine</h1><button id=go onclick=\"document.title='went'\">go</button>",
    "/loop-later": "<h1>soon</h1><button id=go>go</button>"
    "<script>onload = () => setTimeout(() => { while (true); }, 200)</script>",
    "/loop-on-click": '<h1>x</h1><button id=go onclick="while (true);">go</button>',
}


class Pages(http.server.BaseHTTPRequestHandler):
    """`/silent` accepts and never answers."""

    silent = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/silent":
            self.silent.wait(60)
            return
        body = PAGES.get(self.path, "").encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def pages() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    Pages.silent.set()
    server.shutdown()
    Pages.silent.clear()


CASES = {
    "wait in a loop": ("/loop-later", [{"act": "wait", "value": 1.2}, {"act": "wait", "selector": "#never"}]),
    "click in a loop": ("/loop-later", [{"act": "wait", "value": 1.2}, {"act": "click", "selector": "#go"}]),
    "type in a loop": (
        "/loop-later",
        [{"act": "wait", "value": 1.2}, {"act": "type", "selector": "#go", "value": "x"}],
    ),
    "assert in a loop": ("/loop-later", [{"act": "wait", "value": 1.2}, {"act": "assert", "expr": "title() == 'x'"}]),
    "scroll in a loop": ("/loop-later", [{"act": "wait", "value": 1.2}, {"act": "scroll"}]),
    "press in a loop": ("/loop-later", [{"act": "wait", "value": 1.2}, {"act": "press", "value": "Enter"}]),
    "remember in a loop": (
        "/loop-later",
        [{"act": "wait", "value": 1.2, "remember": {"t": "text('h1')"}}],
    ),
    "the click starts the loop": (
        "/loop-on-click",
        [{"act": "click", "selector": "#go"}, {"act": "wait", "selector": "#n"}],
    ),
    "a server that never answers": ("/", [{"act": "open", "url": "/silent"}]),
    "an api that never answers": ("/", [{"act": "api", "url": "/silent"}]),
}
if not FULL:  # the same loop met by other acts
    for name in ("click", "type", "assert", "scroll", "press", "remember"):
        del CASES[f"{name} in a loop"]
    del CASES["the click starts the loop"]


@pytest.mark.parametrize("recording", ["full", pytest.param("auto", marks=pytest.mark.thorough)])
def test_steps_end_in_time_evidence_is_explained_and_the_next_task_runs(
    project: Project, pages: str, recording: str
) -> None:
    (project.path / "pyproject.toml").write_text("", "utf-8")
    for number, (page, steps) in enumerate(CASES.values()):
        project.task(
            f"T{number:02}",
            priority=1,
            step_timeout=int(BOUND),
            timeout=60,
            error_recovery={
                "on_network_error": {"max_retries": 0},
                "on_action_failed": "abort",
                "on_browser_crash": "abort",
            },
            steps=[{"act": "open", "url": f"{pages}{page}"}, *[_absolute(step, pages) for step in steps]],
        )
    project.task("Z-NEXT", priority=5, steps=[{"act": "open", "url": f"{pages}/"}, {"act": "click", "selector": "#go"}])
    result = project.run("--task-recording", recording, timeout=240)
    result.assert_outcomes(failed=len(CASES), passed=1)
    for number, name in enumerate(CASES):
        report, folder = project.report(f"T{number:02}"), project.path / "errors" / f"T{number:02}"
        trace = json.loads((folder / "partial_trace.json").read_text("utf-8"))
        assert trace["steps"][-1]["seconds"] <= BOUND + OVERSHOOT + LOADED, name
        assert report["error_type"] in ("timeout_step", "network_timeout"), (name, report["error_message"])
        manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
        for item in manifest["artifacts"]:
            assert item["status"] == "taken" or item["reason"], (name, item)
            assert item["seconds"] < 5 + LOADED, (name, item)


def _absolute(step: dict[str, Any], pages: str) -> dict[str, Any]:
    return {**step, "url": pages + step["url"]} if "url" in step else step


@pytest.mark.thorough
def test_a_channel_that_never_returns_does_not_hold_up_the_end(project: Project) -> None:
    """A process of its own: what its threads keep it from shows only after the summary."""
    (project.path / "hung.py").write_text("import threading\ndef read(world):\n    threading.Event().wait()\n", "utf-8")
    with (project.path / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write('\n[tool.harness.channels.hung]\npython = "hung:read"\ntimeout = 0.3\n')
    project.task(
        "T",
        steps=[{"act": "wait", "value": 0.01}],
        error_recovery={"on_network_error": "abort"},
        success_criteria=["json('hung', 'a') == 1"],
    )
    process = project.start("-p", "no:cacheprovider")
    try:
        said, _ = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert "hung:read: read took longer than 0.3 s" in said
    assert process.returncode == 1
    assert project.report("T")["code"] == "CHANNEL_UNREADABLE"
