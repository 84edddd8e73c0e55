"""The real browser-use, in an interpreter of its own, drives the browser of a task; its model is a small server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import venv
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from tests.acceptance.conftest import Project

GIVEN = "TASKSPEC_BROWSER_USE"
"""The variable that names an interpreter with browser-use; without it, one is made in the cache of the user."""
BUTTON = re.compile(r"\[(\d+)\]<button[^\n]*id=add-to-cart|\[(\d+)\]<button[^\n]*>\s*Add to cart")


@pytest.fixture
def interpreter() -> str:
    if GIVEN in os.environ:
        return os.environ[GIVEN]
    folder = Path(platformdirs.user_cache_dir("pytest-taskspec")) / f"browser-use-{sys.version_info.minor}"
    python = folder / "bin/python"
    if not (folder / "bin/browser-use").exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "browser-use"], check=True, timeout=900)
    return str(python)


class Answers(BaseHTTPRequestHandler):
    """Opens the product, clicks what it is shown, and says that it is done."""

    asked = 0

    def log_message(self, *_: object) -> None:
        """It is silent."""

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        Answers.asked += 1
        content = {"evaluation_previous_goal": "", "memory": "", "next_goal": "", "action": [action(text, self.asked)]}
        message = {"role": "assistant", "content": json.dumps({"thinking": "", **content})}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        head = {"id": "c", "object": "chat.completion", "created": 0, "model": "scripted-1"}
        body = json.dumps({**head, "choices": choices, "usage": usage}).encode()
        self.send_response(200)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def action(text: str, number: int) -> dict[str, Any]:
    if number == 1:
        return {"navigate": {"url": "http://shop.local/product/WM-5521", "new_tab": False}}
    if number == 2:
        found = BUTTON.search(text.replace("\\n", "\n"))
        assert found is not None
        return {"click": {"index": int(found[1] or found[2])}}
    return {"done": {"text": "it is in the cart", "success": True, "files_to_display": []}}


@pytest.fixture
def model() -> Iterator[int]:
    Answers.asked = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.thorough
def test_browser_use_puts_a_mouse_into_the_cart(project: Project, interpreter: str, model: int) -> None:
    table = f'provider = "openai-compatible"\nbase_url = "http://127.0.0.1:{model}/v1"\nmodel = "scripted-1"\n'
    words = [interpreter, "{browser_use}", "--cdp", "{cdp}", "--task", "{prompt}", "--model", "scripted"]
    path = project.path / "pyproject.toml"
    agent = f'command = {json.dumps(words)}\nmodels = ["scripted"]\n'
    tables = f"\n[tool.harness.models.scripted]\n{table}\n[tool.harness.agents.browser-use]\n{agent}"
    path.write_text(f"{path.read_text('utf-8')}{tables}", "utf-8")
    project.task(
        "T", agent="browser-use", steps=[], goal="Put the mouse into the cart.", timeout=90,
        allowed_domains=["shop.local"], success_criteria=["text('#cart-count') == '1'"],
    )  # fmt: skip
    result = project.run()
    result.assert_outcomes(passed=1)
    assert "models: 3 calls" in result.stdout.str()
    (record,) = json.loads((project.path / ".harness/last-run.json").read_text("utf-8"))["results"]
    assert [each["control"] for each in record["warnings"] if each["type"] == "control_observed"] == ["observed"]
