"""Secrets that a site puts into its own addresses are in no output; the site and the criteria have them as they are."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.planting import leaks
from tests.acceptance.warm import warm

NAMES = ("code", "token", "session", "api_key", "signature", "login", "voucher")
VALUES = {name: f"v9{name.title()}-0a1B2c3D4e5F" for name in NAMES}
INI = "[pytest]\naddopts = -p no:hypothesispytest -p no:faker -p no:cacheprovider\n"
BACK = "/back?state=1&code={code}&next=%2Fto%3Ftoken%3D{token}%26x%3D1#session={session}"
PAGE = """<!doctype html><title>Welcome</title><h1>code 1 of 7</h1>
<a id=link href="/back?api_key={api_key}&amp;n=1">link</a> <a href="http://ann:{login}@127.0.0.1:9/">other</a>
<img src="/picture.png?X-Amz-Date=1&X-Amz-Signature={signature}">
<a id=go href="/got?voucher={voucher}">Go</a><p id=done></p><script>
console.log('came to', location.href); console.error({{href: location.href, key: 1}});
fetch('/data?api_key={api_key}').then(r => r.json()).then(() => {{ done.textContent = 'ready' }});
setTimeout(() => {{ throw new Error('no ' + location.href) }}, 0);</script>"""


class Site(BaseHTTPRequestHandler):
    seen: list[str]

    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:
        self.seen.append(self.path)
        if self.path == "/start":
            self.send_response(303)
            self.send_header("Location", BACK.format(**VALUES))
            self.end_headers()
            return
        data = self.path.startswith("/data")
        body = json.dumps({"url": BACK.format(**VALUES), "ok": True}) if data else PAGE.format(**VALUES)
        self.send_response(200)
        self.send_header("Content-Type", "application/json" if data else "text/html")
        self.send_header("Link", f"</back?token={VALUES['token']}>; rel=next")
        self.end_headers()
        self.wfile.write(body.encode())


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    Site.seen = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def ran(site: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which tasks failed in several ways on such a site, and what was made of the run."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "pytest.ini").write_text(INI, "utf-8")
    (folder / "pyproject.toml").write_text('[tool.harness]\nredact_query = ["voucher"]\n', "utf-8")
    begin = [
        {"act": "open", "url": f"{site}/start"},
        {"act": "wait", "selector": "#done:has-text('ready')", "remember": {"place": "url()"}},
    ]
    endings: dict[str, list[dict[str, Any]]] = {
        "ADDRESS": [{"act": "assert", "expr": "url() == 'http://elsewhere.local/'"}],
        "ELEMENT": [{"act": "click", "selector": "#none"}],
        "SENT": [
            {"act": "click", "selector": "#go"},
            {"act": "open", "url": f"{site[:-2]}/never?token=${{memory.place}}"},
        ],
        "RAW": [],
    }
    raw = ["url() matches 'code=v9C.de-0a1B2c3D4e5F.*session=v9S'", "text('h1') == 'code 1 of 7'"]
    for name, steps in endings.items():
        document = {"task_id": name, "goal": "g", "timeout": 60, "step_timeout": 10, "steps": [*begin, *steps]}
        rules = {"on_element_not_found": "abort", "on_network_error": "abort"}
        document |= {"error_recovery": rules, **({"success_criteria": raw} if name == "RAW" else {})}
        (folder / f"{name}.task.json").write_text(json.dumps(document), "utf-8")
    options = ("--alluredir=allure-results", "--junitxml=out.xml", "--task-summary=page.md", "--task-evidence=all")
    done = warm().run("pytest", *options, "-rA", "-v", "--task-recording=full", cwd=folder, timeout=240)
    (folder / "terminal.txt").write_text(done.stdout + done.stderr, "utf-8")
    for name, command in {"triage": ["triage"], "show": ["show", "ADDRESS"], "dashboard": ["dashboard"]}.items():
        made = warm().run("tests.acceptance.command", *command, cwd=folder, timeout=60)
        (folder / f"{name}.txt").write_text(made.stdout + made.stderr, "utf-8")
    return folder


@pytest.mark.thorough
def test_criteria_and_the_site_have_the_address_as_it_is(ran: Path) -> None:
    shown = (ran / "terminal.txt").read_text("utf-8")
    assert "3 failed, 1 passed" in shown, shown
    assert any(f"code={VALUES['code']}" in path for path in Site.seen)
    assert any(path == f"/got?voucher={VALUES['voucher']}" for path in Site.seen)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.thorough
def test_no_output_has_what_the_site_put_into_an_address(ran: Path, name: str) -> None:
    found = [place for place in leaks(ran, VALUES[name]) if "task.json" not in place]
    assert found == []


@pytest.mark.thorough
def test_a_short_value_and_all_the_rest_stay(ran: Path) -> None:
    report = json.loads((ran / "errors" / "ADDRESS" / "error_report.json").read_text("utf-8"))
    assert "/back?state=1&code=[redacted]&next=%2Fto%3Ftoken%3D[redacted]%26x%3D1#session=[redacted]" in json.dumps(
        report
    )
    assert "code 1 of 7" in (ran / "errors" / "ADDRESS" / "dom_snapshot.html").read_text("utf-8")
    assert (ran / "dashboard.html").is_file()
    assert list(ran.glob(".harness/history.sqlite3*"))
