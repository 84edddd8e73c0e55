"""`--task-browser-endpoint`: a run whose browsers are those of Playwright servers."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.acceptance.conftest import Project, becomes
from tests.browser.playwright_server import PlaywrightServer, closed_port


@pytest.fixture(scope="module")
def server() -> Iterator[PlaywrightServer]:
    it = PlaywrightServer.run("--unsafe")
    yield it
    it.kill()


@contextlib.contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    site = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    yield site.server_port
    site.shutdown()
    site.server_close()


def test_tasks_pass_at_the_endpoint_that_lives(project: Project, server: PlaywrightServer) -> None:
    for number in range(2):
        project.task(
            f"A-{number}", steps=[{"act": "open", "url": f"{scheme}://shop.local/"} for scheme in ("http", "https")]
        )
    with closed_port() as port:
        urls = f"ws://127.0.0.1:{port}/secret,{server.url}"
        project.task("KILLS", faults=[{"kind": "browser_stop", "seconds": 1}])
        result = project.run("--task-browser-endpoint", urls, "--task-workers", "2")
    result.assert_outcomes(passed=2, failed=1)
    refused = "the process of a browser at --task-browser-endpoint cannot be stopped from here"
    assert refused in result.stdout.str(), "a fault that needs a process here"
    assert becomes(lambda: not server.browsers())
    assert "secret" not in result.stdout.str()


class Refusing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(403)

    def log_message(self, *_: object) -> None:
        pass


def test_the_secret_of_a_url_is_written_nowhere(project: Project) -> None:
    project.task("A-1")
    with served(Refusing) as port:
        result = project.run(f"--task-browser-endpoint=ws://user:hidden@127.0.0.1:{port}/hidden?hidden")
    result.assert_outcomes(failed=1)
    assert f"--task-browser-endpoint=ws://127.0.0.1:{port}" in history_of(project)
    stack = project.report("A-1")["stack_trace"]
    assert "403 Forbidden" in stack
    assert "[redacted]" in stack
    assert "hidden" not in result.stdout.str() + result.stderr.str()
    files = [path for path in project.path.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert not [path for path in files if b"hidden" in path.read_bytes()]


def history_of(project: Project) -> str:
    with contextlib.closing(sqlite3.connect(project.path / ".harness" / "history.sqlite3")) as history:
        return "\n".join(history.iterdump())


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
    with served(Page) as port:
        yield f"http://127.0.0.1:{port}/page"


@pytest.mark.thorough
def test_a_task_goes_on_at_another_endpoint(project: Project, server: PlaywrightServer, site_url: str) -> None:
    mortal = PlaywrightServer.run("--unsafe")
    steps = [{"act": "open", "url": site_url}, {"act": "wait", "selector": "h1"}]
    project.task("A-1", steps=steps, step_timeout=60, error_recovery={"on_browser_crash": "restart_task"})
    process = project.start("--task-browser-endpoint", f"{mortal.url},{server.url}")
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
    result = project.run("--task-browser-endpoint", "http://127.0.0.1:3000")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert (
        "'http://127.0.0.1:3000' (URL 1 of 1) is not a browser endpoint: expected ws://HOST:PORT/PATH"
        in result.stderr.str()
    )
