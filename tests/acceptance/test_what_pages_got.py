"""`result(...)` of `api` steps, `responses(...)`, `messages(...)` and `console(...)` in a whole run of task files."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.warm import warm

SECRET = "tok-1234567890-abcdef"
HOME = """<!doctype html><title>Home</title><p id=out>nothing</p><button id=load
onclick="fetch('/api/items').then(a => a.json()).then(a => { out.textContent = a.items.length })">Load</button>
<button id=fail onclick="console.error('it broke')">Fail</button>"""
ITEMS = {"items": [{"sku": "A-1"}, {"sku": "B-2"}], "access_token": SECRET}
OPEN = {"act": "open", "url": "/"}
LOAD = [OPEN, {"act": "click", "selector": "#load"}, {"act": "assert", "selector": "#out", "value": "2"}]
AWAY = {"act": "open", "url": "/other"}
API = {"act": "api", "url": "/api/items"}
POST = {"act": "api", "url": "/api/items", "method": "POST", "value": {"a": 1}}
LAST = "responses('GET */api/items')[-1].json.items"
RETRY = {"error_recovery": {"on_assertion_fail": {"strategy": "retry_after_wait", "wait_before_retry_seconds": 0.1}}}
TASKS: dict[str, dict[str, Any]] = {
    "GOT": {"steps": [*LOAD, AWAY], "success_criteria": [f"{LAST}[1].sku == 'B-2'", "console('error *').length == 0"]},
    "GOT-WRONG": {"steps": [*LOAD, AWAY], "success_criteria": [f"{LAST}[1].sku == 'C-3'"]},
    "LOGGED-WRONG": {
        "steps": [OPEN, {"act": "click", "selector": "#fail"}],
        "success_criteria": ["console('error *').length == 0"],
    },
    "BODY": {
        "steps": [{**API, "expect": "result('items').length == 2", "remember": {"sku": "result('items[0].sku')"}}],
        "success_criteria": ["mem('sku') == 'A-1'"],
    },
    "BODY-WRONG": {"steps": [{**API, "expect": "result('items').length == 3"}]},
    "POST-WRONG": {"steps": [{**POST, "expect": "result('id') == 'O-2'"}], **RETRY},
}


class Site(http.server.BaseHTTPRequestHandler):
    posts: list[str]

    def do_GET(self) -> None:
        if self.path.startswith("/api"):
            self._send(json.dumps(ITEMS).encode(), "application/json")
        else:
            self._send(HOME.encode(), "text/html")

    def do_POST(self) -> None:
        self.posts.append(self.path)
        self._send(b'{"id": "O-1"}', "application/json")

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str, list[str]]]:
    path, posts = tmp_path_factory.mktemp("got"), list[str]()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("OfRun", (Site,), {"posts": posts}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = f'[tool.harness]\nbase_url = "http://127.0.0.1:{server.server_port}"\ndefaults.expect_timeout = 5\n'
    (path / "pyproject.toml").write_text(settings, "utf-8")
    (path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    for name, spec in TASKS.items():
        document = {"task_id": name, "goal": f"goal of {name}", "step_timeout": 15, "timeout": 90, **spec}
        (path / f"{name}.task.json").write_text(json.dumps(document), "utf-8")
    arguments = ("-p", "no:cacheprovider", "-v", "--task-workers", "2", ".")
    text = warm().run("pytest", *arguments, cwd=path, timeout=300).stdout
    yield path, text, posts
    server.shutdown()


def test_the_tasks_that_are_right_pass_and_each_wrong_one_fails(played: tuple[Path, str, list[str]]) -> None:
    lines = played[1].splitlines()
    passed = {line.split("::")[1].split()[0] for line in lines if "::" in line and "PASSED" in line}
    assert passed == {name for name in TASKS if not name.endswith("WRONG")}, played[1]


def test_a_wrong_answer_is_told_and_a_write_is_sent_once(played: tuple[Path, str, list[str]]) -> None:
    path, text, posts = played
    report = json.loads((path / "errors" / "POST-WRONG" / "error_report.json").read_text("utf-8"))
    assert report["code"] == "ASSERTION_FAILED"
    assert "result('id') is 'O-1', expected 'O-2'" in report["error_message"]
    assert posts == ["/api/items"]
    wrong = json.loads((path / "errors" / "GOT-WRONG" / "error_report.json").read_text("utf-8"))
    assert "is 'B-2', expected 'C-3'" in wrong["error_message"]
    assert SECRET not in text
    kept = [each for each in (path / "errors").rglob("*.json") if SECRET in each.read_text("utf-8", "replace")]
    assert kept == []
