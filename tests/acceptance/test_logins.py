"""`login:` of tasks, on a site of its own that knows nothing of this project."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
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
USERS = {
    SECRET: "ann", "s3cret-of-bob": "bob",
    "s3cret-of-ben": "ann", "s3cret-of-anybody": "ann", "s3cret-of-filed": "ann",
}  # fmt: skip
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


@contextmanager
def served(site: type[Shop]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def url() -> Iterator[str]:
    Shop.sessions.clear()
    Shop.logins.clear()
    with served(Shop) as url:
        yield url


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
        pytest.param(("--task-workers", "3"), id="at once"),
        pytest.param(("-n", "2"), id="xdist", marks=pytest.mark.thorough),
    ],
)
def test_one_login_serves_all_tasks_of_a_run(tmp_path: Path, url: str, more: tuple[str, ...]) -> None:
    done = run(project(tmp_path, url, tasks=4), *more)
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    assert len(Shop.logins) == 1
    assert not list((tmp_path / ".harness" / "logins").rglob("*.json")), "no session stays on the disk"


LOST = "keep = true\nlost_when = \"text('#who') == 'nobody'\""


def test_a_login_is_kept_between_runs_if_asked_and_made_anew_when_it_is_over(tmp_path: Path, url: str) -> None:
    """The form of the login ends the wait: without `lost_when`, each check that does not hold would take 5 minutes."""
    folder = project(tmp_path, url, LOST, tasks=1)
    text = (folder / "pyproject.toml").read_text("utf-8")
    (folder / "pyproject.toml").write_text(text.replace("check_timeout = 0", "check_timeout = 300"), "utf-8")
    began = time.monotonic()
    for _ in range(2):
        assert "1 passed" in run(folder).stdout
    assert len(Shop.logins) == 1
    (kept,) = (tmp_path / ".harness" / "logins").glob("*.json")
    assert kept.stat().st_mode & 0o077 == 0
    Shop.sessions.clear()
    assert "1 passed" in run(folder).stdout
    assert len(Shop.logins) == 2
    assert time.monotonic() - began < 240


@pytest.mark.thorough
def test_a_login_whose_file_is_damaged_is_made_anew(tmp_path: Path, url: str) -> None:
    folder = project(tmp_path, url, "keep = true", tasks=1)
    assert "1 passed" in run(folder).stdout
    (kept,) = (tmp_path / ".harness" / "logins").glob("*.json")
    kept.write_text("{half", "utf-8")
    assert "1 passed" in run(folder).stdout
    assert len(Shop.logins) == 2


OF_LOGIN = f"[tool.harness.logins{SETTINGS.partition('[tool.harness.logins')[2]}".format(more="")
FILED = """
[tool.harness.logins.filed]
task = "in.task.yaml"
check_url = "/account"
holds = "text('#who') == 'ann'"
"""
FILE = """
task_id: IN
steps:
  - {act: open, url: /login}
  - {act: type, selector: '#password', value: '${env:OF_FILED}'}
  - {act: submit, selector: form}
"""
HOLDS = "text('#who') == 'ann'"


def login(name: str, old: str = "", new: str = "") -> str:
    """The settings of a login with a password of its own."""
    return OF_LOGIN.replace("buyer", name).replace("PASSWORD", f"OF_{name.upper()}").replace(old, new)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """One run of tasks with many logins: its folder, what it said, and who has logged in."""
    folder, logins = tmp_path_factory.mktemp("crowd"), list[str]()
    site = type("OfCrowd", (Shop,), {"sessions": {}, "logins": logins})
    with served(site) as url:
        project(folder, url, tasks=0)
        tables = (
            login("wrong"), login("ann"), login("bob", "'ann'", "'bob'"),
            login("ben", "'ann'", "'ben'"), login("anybody", HOLDS, "exists('#who')"), FILED,
        )  # fmt: skip
        settings = SETTINGS.partition("[tool.harness.logins")[0].format(url=url) + "".join(tables)
        (folder / "pyproject.toml").write_text(settings, "utf-8")
        (folder / "in.task.yaml").write_text(FILE, "utf-8")
        tasks = {
            **{f"WRONG-{number}": ("wrong", "") for number in range(3)},
            **{f"ANYBODY-{number}": ("anybody", "") for number in range(2)},
            "BEN": ("ben", ""), "FILED": ("filed", ""),
            "E0": ("ann", "episode_id: E\n"), "E1": ("bob", "episode_id: E\n"), "E2": ("", "episode_id: E\n"),
        }  # fmt: skip
        for name, (user, more) in tasks.items():
            text = TASK.format(name=name).replace("login: buyer\n", f"login: {user}\n" if user else "") + more
            text = text.replace("'ann'", "'bob'") if name in ("E1", "E2") else text
            (folder / f"{name}.task.yaml").write_text(text, "utf-8")
        names = ("ann", "bob", "ben", "anybody", "filed")
        passwords = {f"OF_{name.upper()}": f"s3cret-of-{name}" for name in names} | {"OF_WRONG": "wrong-password"}
        done = warm().run("pytest", cwd=folder, **passwords)
        yield SimpleNamespace(folder=folder, done=done, logins=Counter(logins), passwords=passwords)


def test_whoever_can_log_in_passes_and_nobody_else(crowd: SimpleNamespace) -> None:
    assert "6 failed, 5 passed" in crowd.done.stdout, crowd.done.stdout + crowd.done.stderr


def test_a_login_that_fails_says_so_in_each_task_and_is_not_tried_for_each(crowd: SimpleNamespace) -> None:
    assert crowd.logins["password=wrong-password"] == 2
    report = read_report(crowd.folder, "WRONG-2")
    assert (report["code"], report["error_type"]) == ("LOGIN_FAILED", "authentication_failed")
    assert "Login `wrong` failed: " in report["error_message"]
    assert (crowd.folder / "errors" / "login-wrong-as-wrong" / "error_report.json").is_file()
    assert "wrong-password" not in crowd.done.stdout + crowd.done.stderr
    for file in crowd.folder.rglob("*"):
        assert not file.is_file() or b"wrong-password" not in file.read_bytes(), file


def test_what_was_made_must_hold_and_keeps_its_evidence_if_it_does_not(crowd: SimpleNamespace) -> None:
    message = read_report(crowd.folder, "BEN")["error_message"]
    assert message.startswith("Login `ben` was made, but does not hold at open /account: "), message
    assert message.endswith(" (its artifacts are in ben-holds)")
    assert ">ann</p>" in (crowd.folder / "errors" / "ben-holds" / "dom_snapshot.html").read_text("utf-8")
    assert (crowd.folder / "errors" / "ben-holds" / "screenshot.png").is_file()


def test_a_task_file_may_log_in_and_a_wrong_name_is_told_with_its_place(crowd: SimpleNamespace) -> None:
    assert crowd.logins["password=s3cret-of-filed"] == 2, "the task itself, and the login"
    (crowd.folder / "t0.task.yaml").write_text(TASK.format(name="T0").replace("login: buyer", "login: fild"), "utf-8")
    told = warm().run("pytest", "t0.task.yaml", cwd=crowd.folder, **crowd.passwords).stdout
    assert "t0.task.yaml:3:8: login: there is no login `fild`" in told.replace("\n", ""), told


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


@pytest.mark.thorough
def test_logins_and_episodes_hand_on_everything_however_long_it_takes_to_read(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a second, only the cookies were handed on, without a word: these tasks were logged out."""
    monkeypatch.setitem(globals(), "ENTER", ENTER.replace("HELD", "2500"))
    assert "3 passed" in (done := run(of_app(tmp_path, url))).stdout, done.stdout + done.stderr


@pytest.mark.thorough
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


def test_a_criterion_that_holds_without_the_login_is_refused_before_anybody_logs_in(crowd: SimpleNamespace) -> None:
    told = "Login `anybody` is refused: `holds` also holds without it, in an empty browser at open /account: exists("
    assert read_report(crowd.folder, "ANYBODY-1")["error_message"].startswith(told)
    assert crowd.logins["password=s3cret-of-anybody"] == 0


def test_another_user_of_an_episode_logs_in_in_an_empty_browser(crowd: SimpleNamespace) -> None:
    """Ann submits, Bob approves: the site shows its login form only to a browser in which nobody is logged in."""
    assert not [name for name in ("E0", "E1", "E2") if (crowd.folder / "errors" / name).exists()]
    assert (crowd.logins["password=s3cret-of-ann"], crowd.logins["password=s3cret-of-bob"]) == (1, 1)
