"""A replay sends nothing that may write to a site that the project does not serve, unless it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.acceptance.warm import harness

PAGE = b"""<!doctype html><title>shop</title><iframe name=there></iframe>
<form method=post action=/buy target=there><button id=buy>Buy</button></form>
<script>new WebSocket(`ws://${location.host}/chat?token=abc`)</script>"""


class Shop(ThreadingHTTPServer):
    """Remembers what was bought."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.bought: list[str] = []
        self.sockets: list[str] = []


class Answer(BaseHTTPRequestHandler):
    """A page, whatever is asked for."""

    server: Shop

    def do_GET(self) -> None:
        if self.headers.get("upgrade"):
            self.server.sockets.append(self.path)
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.bought.append(self.path)
        self.do_GET()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nothing."""


@pytest.fixture
def shop() -> Iterator[Shop]:
    with Shop() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def failed_task(folder: Path, shop: Shop) -> None:
    """A click of which nobody said that it writes, and a failure after it."""
    steps = [
        {"act": "open", "url": f"http://127.0.0.1:{shop.server_port}/?token=abc"},
        {"act": "click", "selector": "#buy"},
        {"act": "wait", "selector": "#never"},
    ]
    (folder / "t.task.json").write_text(json.dumps({"task_id": "T-1", "goal": "g", "steps": steps}), "utf-8")
    kept = folder / "errors" / "T-1"
    kept.mkdir(parents=True)
    report = {"task_id": "T-1", "timestamp": "2025-11-16T09:00:00Z", "error_type": "timeout_step", "step_index": 2}
    (kept / "error_report.json").write_text(json.dumps({**report, "source": "t.task.json"}), "utf-8")


@pytest.mark.thorough
def test_it_writes_only_when_told(tmp_path: Path, shop: Shop) -> None:
    failed_task(tmp_path, shop)
    found = harness("replay", "T-1", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert (shop.bought, shop.sockets) == ([], [])
    sent = f"POST http://127.0.0.1:{shop.server_port}/buy"
    assert f"not sent: {sent}: not served by this project; --yes sends it" in found.stderr
    assert f"not sent: WebSocket ws://127.0.0.1:{shop.server_port}/chat: not served" in found.stderr
    told = harness("replay", "T-1", "--yes", cwd=tmp_path)
    assert (told.returncode, shop.bought) == (0, ["/buy"])
    assert shop.sockets
    assert "not sent" not in told.stderr
