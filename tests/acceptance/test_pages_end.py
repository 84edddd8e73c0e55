"""A page that saves all the time ends with its task: nothing reaches the state that was reset for the next one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from tests.acceptance.warm import warm

SETTINGS = """
[tool.harness]
base_url = "{url}"
isolation = "reset"
[tool.harness.channels.state]
url = "{url}/state"
"""
CONFTEST = """
import harness.browser.evidence
import harness.browser.session

harness.browser.evidence.CLOSE_SECONDS = harness.browser.session.CLOSE_SECONDS = 0.0
"""
"""As if each context took longer to close than it may: its HAR file is large, or the machine is busy."""
TASK = """
task_id: {name}
steps: [{{act: open, url: {page}}}, {{act: wait, value: 0.5}}]
success_criteria: ["text('#x') == '{text}'"]
expect_timeout: 1
"""
SAVING = "<p id=x>x</p><script>setInterval(() => fetch('/save', {method: 'POST'}), 20)</script>"


class Notebook(BaseHTTPRequestHandler):
    """Has one state, and logs what comes."""

    log: ClassVar[list[str]] = []
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        pages = {"/saving": SAVING, "/quiet": "<p id=x>x</p>", "/state": "{}"}
        self._answer(pages.get(self.path, ""))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/state/reset":
            time.sleep(0.2)  # requests that have left before are logged before
        self.log.append(self.path)
        self._answer("{}")

    def _answer(self, body: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json" if body.startswith("{") else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@pytest.fixture
def url() -> Iterator[str]:
    Notebook.log.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Notebook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_page_of_a_task_does_not_write_into_the_state_of_the_next_one(tmp_path: Path, url: str) -> None:
    (tmp_path / "pyproject.toml").write_text(SETTINGS.format(url=url), "utf-8")
    (tmp_path / "conftest.py").write_text(CONFTEST, "utf-8")
    tasks = {"A-PASSES": ("/saving", "x"), "B-FAILS": ("/saving", "y"), "C-QUIET": ("/quiet", "x")}
    for name, (page, text) in tasks.items():
        (tmp_path / f"{name}.task.yaml").write_text(TASK.format(name=name, page=page, text=text), "utf-8")
    done = warm().run("pytest", cwd=tmp_path)
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    first, second, third, last = " ".join(Notebook.log).split("/state/reset")
    assert (first, last) == ("", "")
    assert "/save" in second
    assert "/save" in third
    assert (tmp_path / "errors" / "B-FAILS" / "error_report.json").is_file()
    lines = (tmp_path / ".harness" / "events.jsonl").read_text("utf-8").splitlines()
    ended = [event for event in map(json.loads, lines) if event["type"] == "pages-ended"]
    assert len(ended) == 3
    assert {event["how"] for event in ended} <= {"context", "browser"}, "a busy machine may need the browser's end"
