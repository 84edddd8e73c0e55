"""`--browser-endpoint`: a run whose browsers are those of Playwright servers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.acceptance.conftest import Project
from tests.browser.playwright_server import PlaywrightServer

CLOSED = "ws://127.0.0.1:9/secret"


@pytest.fixture(scope="module")
def server() -> Iterator[PlaywrightServer]:
    it = PlaywrightServer.run("--unsafe")
    yield it
    it.kill()


def test_tasks_pass_at_the_endpoint_that_lives(project: Project, server: PlaywrightServer) -> None:
    for number in range(2):
        project.task(
            f"A-{number}", steps=[{"act": "open", "url": f"{scheme}://shop.local/"} for scheme in ("http", "https")]
        )
    result = project.run("--browser-endpoint", f"{CLOSED},{server.url}", "--task-workers", "2")
    result.assert_outcomes(passed=2)
    assert not server.browsers()
    assert "secret" not in result.stdout.str()


class Page(BaseHTTPRequestHandler):
    """What the task waits for is only there when it comes again."""

    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        body = b"<h1>again</h1>" if self.asked > 1 else b"<p>first</p>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site_url() -> Iterator[str]:
    site = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{site.server_port}/page"
    site.shutdown()
    site.server_close()


def test_a_task_goes_on_at_another_endpoint(project: Project, server: PlaywrightServer, site_url: str) -> None:
    mortal = PlaywrightServer.run("--unsafe")
    steps = [{"act": "open", "url": site_url}, {"act": "wait", "selector": "h1"}]
    project.task("A-1", steps=steps, step_timeout=60, error_recovery={"on_browser_crash": "restart_task"})
    process = project.start("--browser-endpoint", f"{mortal.url},{server.url}")
    try:
        limit = time.monotonic() + 60
        while not Page.asked and time.monotonic() < limit:
            time.sleep(0.02)
        mortal.kill()
        said, _ = process.communicate(timeout=60)
    finally:
        mortal.kill()
        process.kill()
    assert "1 passed" in said, said


def test_what_is_no_endpoint_is_refused_at_once(project: Project) -> None:
    project.task("A-1")
    result = project.run("--browser-endpoint", "http://127.0.0.1:3000")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "'http://127.0.0.1:3000' is no browser endpoint: expected ws://HOST:PORT/PATH" in result.stderr.str()


def test_a_task_whose_fault_needs_a_process_here_is_refused_before_it_runs(
    project: Project, server: PlaywrightServer
) -> None:
    project.task("A-1", faults=[{"kind": "browser_stop", "seconds": 1}])
    result = project.run("--browser-endpoint", server.url)
    result.assert_outcomes(errors=1)
    assert "a browser at --browser-endpoint is no process that could be stopped from here" in result.stdout.str()
