"""Nothing happens behind a task's back: dialogs, closed pages, acts that were done, the clipboard, what was typed."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.acceptance.warm import warm
from tests.conftest import FULL

SECRET = "open-sesame-7"
HOME = """<!doctype html><title>Home</title><p id=out>nothing</p>
<button id=pay onclick="alert('Card declined: no funds');out.textContent='not paid'">Pay</button>
<button id=del onclick="if (confirm('Delete all?')) fetch('/del', {method: 'POST'});
out.textContent='asked'">Delete</button>
<button id=quiet onclick="fetch('/quiet', {method: 'POST'});out.textContent='asked'">Quiet</button>
<button id=pop onclick="window.open('/popup')">Popup</button>
<button id=buy onclick="fetch('/buy', {method: 'POST'});out.textContent='bought'">Buy</button>
<button id=none onclick="fetch('/none', {method: 'POST'})">No file</button>
<input id=from><input id=to value=""><div id=plain>plain</div>
<input id=mask oninput="this.value=this.value.replace(/[^0-9]/g,'')">
<input id=pin type=password oninput="this.value='x'">
"""
POPUP = """<!doctype html><title>Popup</title>
<button id=done onclick="setTimeout(() => window.close(), 300)">Done</button>"""
PAGES = {"/": HOME, "/popup": POPUP}
OPEN = {"act": "open", "url": "/"}


def click(selector: str, **keys: Any) -> dict[str, Any]:
    return {"act": "click", "selector": selector, **keys}


def press(selector: str, *chords: str) -> list[dict[str, Any]]:
    return [{"act": "press", "selector": selector, "value": chord} for chord in chords]


def clipboard(word: str) -> dict[str, Any]:
    typed = {"act": "type", "selector": "#from", "value": word}
    steps = [OPEN, typed, *press("#from", "Control+A", "Control+C"), {"act": "wait", "value": 0.4}]
    return {"steps": [*steps, *press("#to", "Control+V")], "success_criteria": [f"value('#to') == '{word}'"]}


TASKS: dict[str, dict[str, Any]] = {
    "DECLINED": {"steps": [OPEN, click("#pay")], "success_criteria": ["text('#out') == 'paid'"]},
    "WARNED": {
        "steps": [OPEN, click("#pay")],
        "success_criteria": [
            "dialogs() includes 'Card declined: no funds'",
            "NOT[dialogs() includes 'Card declined']",
            "dialogs().length == 1 && dialogs()[-1].type == 'alert' && dialogs()[0].answer == 'accept'",
        ],
    },
    "MISSING": {"steps": [OPEN, {"act": "dialog"}, click("#quiet", timeout=1.5)]},
    "LAST": {"steps": [OPEN, {"act": "dialog", "message": "never"}]},
    "OPTIONAL": {"steps": [OPEN, {"act": "dialog", "optional": True}, click("#quiet", effect="idempotent")]},
    "ACCEPTED": {
        "steps": [OPEN, {"act": "dialog", "message": {"matches": "^Delete"}}, click("#del")],
        "success_criteria": ["requests('POST */del').length == 1"],
    },
    "DISMISSED": {
        "steps": [OPEN, click("#del"), {"act": "assert", "selector": "#out", "value": "asked"}],
        "success_criteria": ["dialogs()[0].answer == 'dismiss'", "requests('POST */del').length == 0"],
    },
    "POPUP": {
        "steps": [OPEN, click("#pop"), {"act": "switch_page", "value": "Popup"}, click("#done"), click("#buy")],
        "success_criteria": ["text('#out') == 'bought'", "requests('POST */buy').length == 1"],
    },
    "FILE": {"steps": [OPEN, {"act": "download", "selector": "#none", "timeout": 1.5, "effect": "idempotent"}]},
    "EMPTY": {"steps": [OPEN, *press("#to", "Control+V")], "success_criteria": ["value('#to') == ''"]},
    **{f"COPY-{number}": clipboard(f"word {number}") for number in range(4 if FULL else 2)},
    "MASK": {
        "steps": [
            OPEN,
            {"act": "type", "selector": "#mask", "value": "1-2"},
            {"act": "type", "selector": "#pin", "value": SECRET},
        ]
    },
    "NO-TEXT": {"steps": [OPEN, {"act": "type", "selector": "#plain", "value": "x"}]},
}


class Site(http.server.BaseHTTPRequestHandler):
    posts: list[str]

    def do_GET(self) -> None:
        body = PAGES.get(self.path, "").encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.posts.append(self.path)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


class Played(Struct, frozen=True):
    """One run of all tasks, four at a time."""

    path: Path
    text: str
    posts: list[str]

    def report(self, task: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.path / "errors" / task / "error_report.json").read_text("utf-8"))
        return document

    def passed(self) -> set[str]:
        return {line.split("::")[1].split()[0] for line in self.text.splitlines() if "::" in line and "PASSED" in line}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    path, posts = tmp_path_factory.mktemp("back"), list[str]()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("OfRun", (Site,), {"posts": posts}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    (path / "pyproject.toml").write_text(f'[tool.harness]\nbase_url = "{url}"\n', "utf-8")
    (path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    for name, spec in TASKS.items():
        document = {"task_id": name, "goal": f"goal of {name}", "step_timeout": 15, "timeout": 90, **spec}
        (path / f"{name}.task.json").write_text(json.dumps(document), "utf-8")
    arguments = ("-p", "no:cacheprovider", "-v", "--task-workers", "4", ".")
    text = warm().run("pytest", *arguments, cwd=path, timeout=300).stdout
    yield Played(path, text, posts)
    server.shutdown()


def test_a_dialog_is_the_reason_where_a_reader_looks(played: Played) -> None:
    report = played.report("DECLINED")
    assert "the page had opened: alert 'Card declined: no funds' (accepted in step 1)" in report["error_message"]
    [alert] = report["context"]["dialogs"]
    assert (alert["type"], alert["message"], alert["step"]) == ("alert", "Card declined: no funds", 1)
    trace = json.loads((played.path / "errors/DECLINED/partial_trace.json").read_text("utf-8"))
    assert trace["dialogs"] == [alert]
    assert "alert 'Card declined: no funds'" in " ".join(played.text.split())


def test_criteria_read_dialogs_and_one_that_nobody_asked_for_is_warned_of(played: Played) -> None:
    assert {"WARNED", "ACCEPTED", "DISMISSED", "OPTIONAL"} <= played.passed()
    told = " ".join(played.text.split())
    assert "WARNED step 1: The page opened the alert 'Card declined: no funds' in step 1" in told
    assert "DISMISSED step 1: The page opened the confirm 'Delete all?' in step 1" in told
    assert "ACCEPTED step" not in told
    assert played.posts.count("/del") == 1


def test_a_declared_dialog_that_does_not_come_fails_and_nothing_is_clicked_again(played: Played) -> None:
    report = played.report("MISSING")
    assert (report["code"], report["step_index"]) == ("DIALOG_MISSING", 2)
    assert "`optional: true`" in report["hint"]
    assert played.posts.count("/quiet") == 2, "one of this task, one of the task whose dialog is optional"
    last = played.report("LAST")
    assert (last["code"], last["step_index"]) == ("DIALOG_MISSING", 1)
    assert "no dialog that says 'never'" in last["error_message"]


def test_the_task_goes_on_at_the_opener_of_a_page_that_closes_itself(played: Played) -> None:
    assert "POPUP" in played.passed()
    assert played.posts.count("/buy") == 1


def test_a_download_without_a_file_is_not_clicked_again(played: Played) -> None:
    report = played.report("FILE")
    assert report["code"] == "DOWNLOAD_FAILED"
    assert "a click on #none started no download" in report["error_message"]
    assert "the act was done, and is not done again" in report["error_message"]
    assert played.posts.count("/none") == 1


def test_tasks_at_once_paste_what_they_have_copied(played: Played) -> None:
    assert {"EMPTY", *(name for name in TASKS if name.startswith("COPY-"))} <= played.passed()


def test_what_a_field_did_not_keep_is_told_and_of_a_password_only_that(played: Played) -> None:
    told = " ".join(played.text.split())
    assert "MASK step 1: '1-2' was typed into #mask, which has '12' afterwards" in told
    assert "MASK step 2: '[redacted]' was typed into #pin" in told
    assert SECRET not in played.text
    report = played.report("NO-TEXT")
    assert report["code"] == "INVALID_INPUT"
    assert report["error_message"] == "#plain has no text to type into: it is no input, textarea or editable element"
    assert "`press`" in report["hint"]
