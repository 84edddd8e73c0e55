"""`login:` of tasks, on a site of its own that knows nothing of this project."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, ClassVar
from urllib.parse import parse_qs

import pytest

from tests.acceptance.warm import harness, warm

SETTINGS = """
[tool.harness]
base_url = "{url}"
[tool.harness.logins.buyer]
check_url = "/account"
holds = "text('#who') == 'ann'"
check_timeout = 0
{more}
[[tool.harness.logins.buyer.steps]]
act = "open"
url = "/login"
[[tool.harness.logins.buyer.steps]]
act = "type"
selector = "#password"
value = "${{env:PASSWORD}}"
[[tool.harness.logins.buyer.steps]]
act = "submit"
selector = "form"
"""
TASK = """
task_id: {name}
login: buyer
steps: [{{act: open, url: /account}}]
success_criteria: ["text('#who') == 'ann'"]
"""
SECRET = "s3cret-of-ann"
USERS = {SECRET: "ann", "s3cret-of-bob": "bob"}
FORM = "<form method=post action=/login><input id=password name=password type=password><button>In</button></form>"
APP = "<p id=who></p><script>who.textContent = localStorage.token || 'nobody'</script>"
ENTER = """<script>
  const db = indexedDB.open('app', 1);
  db.onupgradeneeded = () => db.result.createObjectStore('all');
  db.onsuccess = () => {
    const all = db.result.transaction('all', 'readwrite').objectStore('all');
    all.put('kept', 0);
    localStorage.token = who.textContent = 'ann';
    (function hold() { if (performance.now() < HELD) all.get(0).onsuccess = hold; })();
  };
</script>"""
"""Logs in where no cookie says so, with a database that nobody can read for some milliseconds."""


class Shop(BaseHTTPRequestHandler):
    """Knows who has logged in by a cookie; a session is over when the test says so."""

    sessions: ClassVar[dict[str, str]] = {}
    logins: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        cookies = dict(each.split("=", 1) for each in (self.headers.get("Cookie") or "").split("; ") if "=" in each)
        known = self.sessions.get(cookies.get("sid", ""))
        if known and self.path == "/login":
            self._answer(303, "", {"Location": "/account"})
            return
        pages = {"/login": FORM, "/account": f"<p id=who>{known or 'nobody'}</p>", "/app": APP, "/app/in": APP + ENTER}
        self._answer(200, pages.get(self.path, ""), {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.logins.append(body)
        user = USERS.get(parse_qs(body).get("password", [""])[0])
        if user is None:
            self._answer(401, "no", {})
            return
        sid = secrets.token_hex(16)
        self.sessions[sid] = user
        self._answer(303, "", {"Location": "/account", "Set-Cookie": f"sid={sid}; HttpOnly; Max-Age=3600"})

    def _answer(self, status: int, body: str, headers: dict[str, str]) -> None:
        content = f"<!doctype html><title>Shop</title>{body}".encode()
        self.send_response(status)
        for name, value in {"Content-Type": "text/html", "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@pytest.fixture
def url() -> Iterator[str]:
    Shop.sessions.clear()
    Shop.logins.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Shop) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def project(folder: Path, url: str, more: str = "", tasks: int = 3) -> Path:
    (folder / "pyproject.toml").write_text(SETTINGS.format(url=url, more=more), "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:hypothesispytest -p no:faker\n", "utf-8")
    for number in range(tasks):
        (folder / f"t{number}.task.yaml").write_text(TASK.format(name=f"T{number}"), "utf-8")
    return folder


def run(folder: Path, *arguments: str, password: str = SECRET) -> CompletedProcess[str]:
    return warm().run("pytest", *arguments, cwd=folder, PASSWORD=password)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param((), id="in a row", marks=pytest.mark.thorough),
        pytest.param(("--task-workers", "3"), id="at once", marks=pytest.mark.thorough),
        pytest.param(("-n", "2"), id="xdist"),
    ],
)
def test_one_login_serves_all_tasks_of_a_run(tmp_path: Path, url: str, more: tuple[str, ...]) -> None:
    done = run(project(tmp_path, url, tasks=4), *more)
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    assert len(Shop.logins) == 1
    assert not list((tmp_path / ".harness" / "logins").rglob("*.json")), "no session stays on the disk"


def test_a_login_is_kept_between_runs_if_asked_and_made_anew_when_it_is_over(tmp_path: Path, url: str) -> None:
    folder = project(tmp_path, url, "keep = true", tasks=1)
    for _ in range(2):
        assert "1 passed" in run(folder).stdout
    assert len(Shop.logins) == 1
    (kept,) = (tmp_path / ".harness" / "logins").glob("*.json")
    assert kept.stat().st_mode & 0o077 == 0
    Shop.sessions.clear()
    assert "1 passed" in run(folder).stdout
    assert len(Shop.logins) == 2
    kept.write_text("{half", "utf-8")
    assert "1 passed" in run(folder).stdout
    assert len(Shop.logins) == 3


def test_a_login_that_fails_says_so_in_each_task_and_is_not_tried_for_each(tmp_path: Path, url: str) -> None:
    folder = project(tmp_path, url, tasks=4)
    done = run(folder, password="wrong-password")
    assert "4 failed" in done.stdout, done.stdout + done.stderr
    assert len(Shop.logins) == 2
    report: dict[str, Any] = json.loads((folder / "errors" / "T3" / "error_report.json").read_text("utf-8"))
    assert (report["code"], report["error_type"]) == ("LOGIN_FAILED", "authentication_failed")
    assert "Login `buyer` failed: " in report["error_message"]
    assert (folder / "errors" / "login-buyer-as-buyer" / "error_report.json").is_file()
    assert "wrong-password" not in done.stdout + done.stderr
    for file in folder.rglob("*"):
        assert not file.is_file() or b"wrong-password" not in file.read_bytes(), file


def test_what_was_made_must_hold_and_keeps_its_evidence_if_it_does_not(tmp_path: Path, url: str) -> None:
    folder = project(tmp_path, url, tasks=1)
    text = (folder / "pyproject.toml").read_text("utf-8")
    (folder / "pyproject.toml").write_text(text.replace("== 'ann'", "== 'ben'"), "utf-8")
    done = run(folder)
    message = read_report(folder, "T0")["error_message"]
    assert message.startswith("Login `buyer` was made, but does not hold at open /account: "), done.stdout
    assert message.endswith(" (its artifacts are in buyer-holds)")
    assert ">ann</p>" in (folder / "errors" / "buyer-holds" / "dom_snapshot.html").read_text("utf-8")
    assert (folder / "errors" / "buyer-holds" / "screenshot.png").is_file()


def test_a_task_file_may_log_in_and_a_wrong_name_is_told_with_its_place(tmp_path: Path, url: str) -> None:
    folder = project(tmp_path, url, tasks=1)
    (folder / "pyproject.toml").write_text(
        f'[tool.harness]\nbase_url = "{url}"\n[tool.harness.logins.buyer]\ntask = "in.task.yaml"\n'
        "check_url = \"/account\"\nholds = \"text('#who') == 'ann'\"\n",
        "utf-8",
    )
    (folder / "in.task.yaml").write_text(
        "task_id: IN\nsteps:\n  - {act: open, url: /login}\n  - {act: type, selector: '#password', value: "
        "'${env:PASSWORD}'}\n  - {act: submit, selector: form}\n",
        "utf-8",
    )
    assert "2 passed" in run(folder).stdout
    assert len(Shop.logins) == 2, "the task itself, and the login"
    (folder / "t0.task.yaml").write_text(TASK.format(name="T0").replace("login: buyer", "login: byuer"), "utf-8")
    told = run(folder, "t0.task.yaml").stdout
    assert "t0.task.yaml:3:8: login: there is no login `byuer`" in told.replace("\n", ""), told


def test_a_file_that_cannot_log_in_is_told_before_the_run(tmp_path: Path, url: str) -> None:
    folder = project(tmp_path, url, tasks=1)
    settings = f'[tool.harness]\nbase_url = "{url}"\n[tool.harness.logins.buyer]\ntask = "in.yaml"\n'
    (folder / "pyproject.toml").write_text(f'{settings}check_url = "/account"\nholds = "exists(\'p\')"\n', "utf-8")
    for text, told in [
        (None, "t0.task.yaml:3:8: login: the login `buyer` is made by in.yaml, which does not exist"),
        ("steps: [{act: opn, url: /}]", "in.yaml:2:15: steps[0].act: not a known act"),
        (
            "login: x\nsteps: [{act: open, url: /}]",
            "t0.task.yaml:3:8: login: in.yaml logs in, and names a login itself",
        ),
        (
            "faults: [{kind: browser_kill, step: 0}]\nsteps: [{act: open, url: /}]",
            "t0.task.yaml:3:8: login: in.yaml logs in, and declares faults, which do not strike in a login",
        ),
    ]:
        if text is not None:
            (folder / "in.yaml").write_text(f"task_id: IN\n{text}\n", "utf-8")
        done = harness("validate", "t0.task.yaml", cwd=folder)
        assert told in done.stdout + done.stderr, done.stdout + done.stderr
    shown = run(folder, "t0.task.yaml").stdout.replace("\n", " ")
    assert "which do not strike in a login" in " ".join(shown.split()), shown


@pytest.mark.thorough
def test_tasks_of_an_episode_go_on_with_what_the_last_one_left(tmp_path: Path, url: str) -> None:
    folder = project(tmp_path, url)
    for file in folder.glob("*.task.yaml"):
        file.write_text(file.read_text("utf-8") + "episode_id: E\n", "utf-8")
    assert "3 passed" in run(folder).stdout
    assert len(Shop.logins) == 1


APP_LOGIN = """
[tool.harness.logins.app]
check_url = "/app"
holds = "text('#who') == 'ann'"
lost_when = "text('#who') == 'nobody'"
check_timeout = 60
[[tool.harness.logins.app.steps]]
act = "open"
url = "/app/in"
timeout = 60
[[tool.harness.logins.app.steps]]
act = "assert"
expr = "EVENTUALLY(text('#who') == 'ann')"
timeout = 60
"""
OF_APP = """
task_id: {name}
{more}
steps: [{{act: open, url: {url}}}]
success_criteria: ["text('#who') == 'ann'"]
expect_timeout: 60
"""


def of_app(folder: Path, url: str) -> Path:
    project(folder, url, APP_LOGIN, tasks=0)
    tasks = {"A": ("/app", "login: app"), "B": ("/app/in", "episode_id: E"), "C": ("/app", "episode_id: E")}
    for name, (opened, more) in tasks.items():
        text = OF_APP.format(name=name, url=opened, more=more)
        (folder / f"{name}.task.yaml").write_text(text, "utf-8")
    return folder


def test_logins_and_episodes_hand_on_everything_however_long_it_takes_to_read(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a second, only the cookies were handed on, without a word: these tasks were logged out."""
    monkeypatch.setitem(globals(), "ENTER", ENTER.replace("HELD", "2500"))
    assert "3 passed" in (done := run(of_app(tmp_path, url))).stdout, done.stdout + done.stderr


def test_storage_that_cannot_be_read_is_told_and_nothing_takes_its_place(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "ENTER", ENTER.replace("HELD", "1e9"))
    folder = of_app(tmp_path, url)
    settings = (folder / "pyproject.toml").read_text("utf-8")
    (folder / "pyproject.toml").write_text(f"{settings}[tool.harness.defaults]\nstep_timeout = 1\n", "utf-8")
    for name in ("B", "C"):
        file = folder / f"{name}.task.yaml"
        file.write_text(file.read_text("utf-8").replace("{act: open,", "{act: open, timeout: 60,"), "utf-8")
    done = run(folder)
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    login, episode = (read_report(folder, name) for name in ("A", "C"))
    words = "The browser's cookies, localStorage and IndexedDB could not be read: not in 1 s"
    assert (login["code"], episode["code"]) == ("LOGIN_FAILED", "STORAGE_UNREADABLE")
    assert login["error_message"] == f"Login `app` failed: {words} (its artifacts are in login-app-as-app)"
    assert episode["error_message"] == f"{words}, at the end of B, with which the episode goes on"
    assert (folder / "errors" / "login-app-as-app" / "screenshot.png").is_file()


def read_report(folder: Path, key: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "errors" / key / "error_report.json").read_text("utf-8"))
    return found


def test_a_criterion_that_holds_without_the_login_is_refused_before_anybody_logs_in(tmp_path: Path, url: str) -> None:
    folder = project(tmp_path, url, tasks=2)
    text = (folder / "pyproject.toml").read_text("utf-8")
    (folder / "pyproject.toml").write_text(text.replace("text('#who') == 'ann'", "exists('#who')"), "utf-8")
    done = run(folder)
    assert "2 failed" in done.stdout, done.stdout + done.stderr
    told = "Login `buyer` is refused: `holds` also holds without it, in an empty browser at open /account: exists("
    assert read_report(folder, "T1")["error_message"].startswith(told)
    assert not Shop.logins


def test_the_form_of_the_login_ends_the_wait_for_one_that_is_over(tmp_path: Path, url: str) -> None:
    """Without `lost_when`, each of the two checks that do not hold would wait five minutes."""
    folder = project(tmp_path, url, "keep = true\nlost_when = \"text('#who') == 'nobody'\"", tasks=1)
    text = (folder / "pyproject.toml").read_text("utf-8")
    (folder / "pyproject.toml").write_text(text.replace("check_timeout = 0", "check_timeout = 300"), "utf-8")
    began = time.monotonic()
    assert "1 passed" in run(folder).stdout
    Shop.sessions.clear()
    assert "1 passed" in run(folder).stdout
    assert len(Shop.logins) == 2
    assert time.monotonic() - began < 240


def test_another_user_of_an_episode_logs_in_in_an_empty_browser(tmp_path: Path, url: str) -> None:
    """Ann submits, Bob approves: the site shows its login form only to a browser in which nobody is logged in."""
    folder = project(tmp_path, url, tasks=1)
    settings = (folder / "pyproject.toml").read_text("utf-8")
    bob = SETTINGS.partition("[tool.harness.logins")[2].format(more="")
    bob = f"[tool.harness.logins{bob}".replace("buyer", "bob").replace("ann", "bob").replace("PASSWORD", "OF_BOB")
    (folder / "pyproject.toml").write_text(settings + bob, "utf-8")
    first = TASK.format(name="T0") + "episode_id: E\n"
    (folder / "t0.task.yaml").write_text(first, "utf-8")
    second = first.replace("T0", "T1").replace("buyer", "bob").replace("ann", "bob")
    (folder / "t1.task.yaml").write_text(second, "utf-8")
    (folder / "t2.task.yaml").write_text(second.replace("T1", "T2").replace("login: bob\n", ""), "utf-8")
    done = warm().run("pytest", cwd=folder, PASSWORD=SECRET, OF_BOB="s3cret-of-bob")
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    assert len(Shop.logins) == 2
