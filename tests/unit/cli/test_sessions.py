"""`harness sessions`: what is kept of sessions is listed, shown, and closed in the run that has it."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest
from typer.testing import CliRunner

from harness.bridge.store import SessionStore, StoredSession
from harness.cli.sessions import app
from harness.serve.address import BRIDGE, keep_address


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.harness]\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def kept(root: Path) -> None:
    store = SessionStore(root)
    store.save(StoredSession("sess-1", "active", agent="mine", task="T-1"))
    store.save(StoredSession("sess-2", "closed", client="other 1.0"))
    store.close()


def told(*arguments: str) -> tuple[int, str]:
    ended = CliRunner().invoke(app, list(arguments))
    return ended.exit_code, ended.output


def test_there_may_be_none(root: Path) -> None:
    assert "there are no sessions" in told("list")[1]


def test_they_are_listed_and_shown(root: Path) -> None:
    kept(root)
    assert told("list")[1].splitlines() == ["sess-2: closed, no task, other 1.0", "sess-1: active, task T-1, mine"]
    assert [each["running"] for each in json.loads(told("list", "--json")[1])] == [False, True]
    shown = told("show", "sess-1")[1]
    assert "task: T-1\nhad begun to write: no\n" in shown
    assert "had: " not in shown  # what is empty is left out
    code, said = told("show", "sess-3")
    assert (code, "there is no session sess-3" in said) == (1, True)


class Deleting(BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_DELETE(self) -> None:
        self.asked += [self.path, self.headers["Authorization"]]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


def test_one_is_closed_by_the_run_that_has_it(root: Path) -> None:
    kept(root)
    assert "is not open in any run" in told("close", "sess-2")[1]
    with HTTPServer(("127.0.0.1", 0), Deleting) as server:
        Thread(target=server.handle_request, daemon=True).start()
        keep_address(root, "127.0.0.1", server.server_port, secure=False, file=BRIDGE)
        assert told("close", "sess-1") == (0, "session sess-1 is closed\n")
    assert Deleting.asked[0] == "/sessions/sess-1"
    assert Deleting.asked[1].startswith("Bearer control.")
