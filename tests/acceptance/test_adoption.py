"""What an existing suite brings: its memory in its own database, keys said once for all tasks, a hook."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.acceptance.warm import harness

APP = Path(__file__).with_name("stranger_app.py")
SETTINGS = """
[tool.harness]
base_url = "http://127.0.0.1:{port}"
memory = {{ channel = "kv" }}

[tool.harness.channels.kv]
sqlite = "app.sqlite3"
table = "memory"
key = "key"
value = "value"

[tool.harness.defaults]
tags = ["suite"]
step_timeout = 9

"""
TASK = """
task_id: OLD-1
goal: Read the memory of the system under test
memory: {"started.by[0]": taskspec}
steps:
  - {act: open, url: /login, remember: {"seen.title": "text('h1')"}}
success_criteria:
  - "mem('orders.last.id') == 'O-1'"
  - "mem('seen.title') == 'Log in'"
  - "mem('started.by[0]') == 'taskspec'"
"""
CONFTEST = """
def pytest_taskspec_modify_task(config, task, path):
    task.goal = f"{path.name}: {task.goal}"
    task.tags = (*task.tags, "from_hook")
"""


@pytest.fixture
def port() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, str(APP)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield int(json.loads(process.stdout.readline())["port"])
    process.kill()
    process.wait(10)


def prepare(root: Path, port: int, settings: str = SETTINGS) -> Path:
    (root / "pyproject.toml").write_text(settings.format(port=port), "utf-8")
    (root / "old.task.yaml").write_text(TASK, "utf-8")
    (root / "conftest.py").write_text(CONFTEST, "utf-8")
    with closing(sqlite3.connect(root / "app.sqlite3")) as db:
        db.execute("CREATE TABLE memory (key TEXT PRIMARY KEY, value TEXT, ts TEXT NOT NULL)")
        db.execute("INSERT INTO memory VALUES ('orders.last', '{\"id\": \"O-1\"}', '2025-01-01T00:00:00Z')")
        db.commit()
    return root / "app.sqlite3"


@pytest.mark.thorough
def test_memory_defaults_and_hook_of_a_project(pytester: pytest.Pytester, port: int) -> None:
    database = prepare(pytester.path, port)
    collected = pytester.runpytest_subprocess("--collect-only", "-q", "-m", "suite and from_hook")
    collected.stdout.fnmatch_lines(["*OLD-1*"])
    result = pytester.runpytest_subprocess("-m", "suite and from_hook", "old.task.yaml")
    result.assert_outcomes(passed=1)
    with closing(sqlite3.connect(database)) as db:
        rows = dict(db.execute("SELECT key, value FROM memory").fetchall())
    assert rows == {"orders.last": '{"id": "O-1"}', "seen.title": "Log in", "started.by[0]": "taskspec"}


def test_a_hook_that_assigns_what_does_not_fit_is_an_error_of_the_file(pytester: pytest.Pytester, port: int) -> None:
    prepare(pytester.path, port)
    (pytester.path / "conftest.py").write_text(CONFTEST.replace("task.goal =", "task.goals ="), "utf-8")
    result = pytester.runpytest_subprocess("old.task.yaml")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*old.task.yaml: pytest_taskspec_modify_task: *no `goals`*did you mean `goal`*"])


def test_a_default_that_is_no_key_of_a_task_stops_the_run(pytester: pytest.Pytester) -> None:
    (pytester.path / "pyproject.toml").write_text("[tool.harness.defaults]\nstep_timout = 4\n", "utf-8")
    (pytester.path / "old.task.yaml").write_text(TASK, "utf-8")
    result = pytester.runpytest_subprocess("old.task.yaml")
    result.stderr.fnmatch_lines(["*pyproject.toml:*: tool.harness.defaults*unknown key `step_timout`*step_timeout*"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


class Gateway(BaseHTTPRequestHandler):
    """Several sites behind one server, each the first part of a path."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path == "/shop.local/away":
            self.send_response(302)
            self.send_header("Location", "/bank.local/")
            self.end_headers()
            return
        if self.path == "/static/common.js":
            self.send_response(200)
            self.send_header("Content-Type", "text/javascript")
            self.end_headers()
            self.wfile.write(b"document.querySelector('h1').textContent = 'Shared';")
            return
        body = b"<h1>Shop</h1><a id=bank href=/bank.local/>bank</a><a id=away href=/shop.local/away>away</a>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body + b"<img src=/bank.local/ad.png><script src=/static/common.js></script>")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def gateway() -> Iterator[ThreadingHTTPServer]:
    handler = type("Counting", (Gateway,), {"asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.thorough
def test_allowed_domains_tell_virtual_hosts_of_one_server_apart(
    pytester: pytest.Pytester, gateway: ThreadingHTTPServer
) -> None:
    origin = f"http://localhost:{gateway.server_port}"
    (pytester.path / "pyproject.toml").write_text(f'[tool.harness]\nvirtual_hosts = ["{origin}/{{host}}/"]\n', "utf-8")
    ways = {"LINK": "#bank", "AWAY": "#away"}
    for name, selector in ways.items():
        steps = [{"act": "open", "url": f"{origin}/shop.local/"}, {"act": "click", "selector": selector}]
        task = {"task_id": name, "allowed_domains": ["shop.local"], "steps": steps}
        (pytester.path / f"{name}.task.json").write_text(json.dumps(task), "utf-8")
    good = {
        "task_id": "GOOD",
        "allowed_domains": ["shop.local"],
        "steps": steps[:1],
        "success_criteria": ["text('h1') == 'Shared'"],
    }
    (pytester.path / "good.task.json").write_text(json.dumps(good), "utf-8")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, failed=2)
    for name in ways:
        report = json.loads((pytester.path / "errors" / name / "error_report.json").read_text("utf-8"))
        assert (report["code"], report["step_index"]) == ("POLICY_DOMAIN", 1)
        assert "bank.local is outside the task's allowed_domains" in report["error_message"]
    asked: list[str] = gateway.RequestHandlerClass.asked  # type: ignore[attr-defined]
    assert [path for path in asked if path.startswith("/bank.local")] == ["/bank.local/"], "only by the redirect"
    warned = harness("validate", ".", cwd=pytester.path)
    assert "3 task files" in warned.stdout
    assert "outside of" not in warned.stdout + warned.stderr
