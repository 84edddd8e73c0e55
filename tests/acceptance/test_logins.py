"""`login:` of tasks, on a site of its own that knows nothing of this project."""

from __future__ import annotations

import json
import secrets
import threading
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


class Shop(BaseHTTPRequestHandler):
    """Knows who has logged in by a cookie; a session is over when the test says so."""

    sessions: ClassVar[set[str]] = set()
    logins: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        cookies = dict(each.split("=", 1) for each in (self.headers.get("Cookie") or "").split("; ") if "=" in each)
        known = cookies.get("sid") in self.sessions
        form = (
            "<form method=post action=/login><input id=password name=password type=password><button>In</button></form>"
        )
        pages = {"/login": form, "/account": f"<p id=who>{'ann' if known else 'nobody'}</p>"}
        self._answer(200, pages.get(self.path, ""), {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.logins.append(body)
        if parse_qs(body).get("password") != [SECRET]:
            self._answer(401, "no", {})
            return
        sid = secrets.token_hex(16)
        self.sessions.add(sid)
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


@pytest.mark.thorough
def test_what_was_made_must_hold(tmp_path: Path, url: str) -> None:
    folder = project(tmp_path, url, tasks=1)
    text = (folder / "pyproject.toml").read_text("utf-8")
    (folder / "pyproject.toml").write_text(text.replace("== 'ann'", "== 'ben'"), "utf-8")
    done = run(folder)
    assert "Login `buyer` was made, but does not hold at open /account" in done.stdout, done.stdout


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
