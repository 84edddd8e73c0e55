"""What an editor says of a task file: the YAML server of VS Code and Neovim with our schema, over its own protocol."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.warm import warm

TASK = """\
# yaml-language-server: $schema=schemas/task_spec.schema.json
task_id: T-1
expect_timout: 3
quarantine: since May
steps:
  - act: clik
    selector: "#a"

"""
SETTINGS = {"yaml": {"validate": True, "completion": True, "schemaStore": {"enable": False}}}


class Server:
    """The server as a process, and what it has sent."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen((program, "--stdio"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._numbers = itertools.count(1)
        self.problems: list[dict[str, Any]] = []

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def tell(self, method: str, params: object, **more: object) -> None:
        self._send({"method": method, "params": params, **more})

    def ask(self, method: str, params: object) -> Any:
        number = next(self._numbers)
        self.tell(method, params, id=number)
        while (message := self.next()).get("id") != number or "method" in message:
            pass
        return message["result"]

    def next(self) -> dict[str, Any]:
        """The next message; a question of the server is answered."""
        assert self._process.stdout is not None
        length = 0
        while header := self._process.stdout.readline().strip().lower():
            length = int(header.removeprefix(b"content-length:")) if header.startswith(b"content-length") else length
        message: dict[str, Any] = json.loads(self._process.stdout.read(length))
        if message.get("method") == "textDocument/publishDiagnostics":
            self.problems = message["params"]["diagnostics"]
        elif "method" in message and "id" in message:
            asked = message["params"]["items"] if message["method"] == "workspace/configuration" else []
            self._send({"id": message["id"], "result": [SETTINGS.get(each.get("section")) for each in asked]})
        return message

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()


@pytest.mark.thorough
def test_a_misspelt_key_is_marked_and_nothing_completes_to_null(tmp_path: Path) -> None:
    """npm installs the server: it is what VS Code's YAML extension and Neovim run."""
    subprocess.run(("npm", "install", "--silent", "yaml-language-server"), cwd=tmp_path, check=True, timeout=300)
    (tmp_path / "pyproject.toml").write_text('[tool.harness.extra_keys]\nquarantine = "skip"\n', "utf-8")
    warm().run("tests.acceptance.command", "schema", "--write", "schemas", cwd=tmp_path)
    file = tmp_path / "t.task.yaml"
    file.write_text(TASK, "utf-8")
    server = Server(tmp_path / "node_modules/.bin/yaml-language-server")
    try:
        can = {"workspace": {"configuration": True}}
        server.ask("initialize", {"processId": None, "rootUri": tmp_path.as_uri(), "capabilities": can})
        server.tell("initialized", {})
        document = {"uri": file.as_uri(), "languageId": "yaml", "version": 1, "text": TASK}
        server.tell("textDocument/didOpen", {"textDocument": document})
        while not server.problems:
            server.next()
        told = {each["range"]["start"]["line"] + 1: each["message"] for each in server.problems}
        assert told.pop(3) == "Property expect_timout is not allowed."
        assert list(told) == [6], told
        place = {"textDocument": {"uri": file.as_uri()}, "position": {"line": 7, "character": 0}}
        found = server.ask("textDocument/completion", place)["items"]
        written = {each["label"]: each["textEdit"]["newText"] for each in found}
        assert {"login", "browser", "timeout_profile"} <= set(written)
        assert not [text for text in written.values() if "null" in text]
    finally:
        server.close()
