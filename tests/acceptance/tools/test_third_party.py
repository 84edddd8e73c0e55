"""Real servers that others have written, in projects of strangers: by PyPI, and in a full run by npm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Project
from tests.acceptance.tools.counting import stranger
from tests.acceptance.warm import harness

SQLITE = Path(sys.executable).with_name("mcp-server-sqlite")
NPM = ("@modelcontextprotocol/server-everything@2026", "@modelcontextprotocol/server-filesystem@2026")
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pytest-taskspec-tests" / "npm"


def call(server: str, tool: str, expect: str, **more: Any) -> dict[str, Any]:
    return {"act": "tool", "server": server, "tool": tool, "expect": expect, **more}


def played(project: Project) -> dict[str, Any]:
    project.play()
    document = json.loads((project.path / ".harness" / "last-run.json").read_text("utf-8"))
    return {each["task_id"]: each for each in document["results"]}


@pytest.mark.parametrize("dying", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["works", "dies"])
def test_one_that_works_and_one_that_dies_at_its_start(tmp_path: Path, dying: bool) -> None:
    """`mcp-server-sqlite` 2025.4.25 does not work with mcp 2: it is started three times, and then left alone."""
    project = stranger(
        tmp_path,
        f'[tool.harness.tools.clock]\ncommand = ["{{python}}", "-m", "mcp_server_time", "--local-timezone", "UTC"]\n'
        f'[tool.harness.tools.database]\ncommand = ["{SQLITE}", "--db-path", "shop.db"]\n',
    )
    hour = call(
        "clock",
        "convert_time",
        "result('target.timezone') == 'Europe/Paris'",
        arguments={"source_timezone": "UTC", "time": "12:00", "target_timezone": "Europe/Paris"},
    )
    wrong = call(
        "clock", "get_current_time", "result() includes 'Mars'", arguments={"timezone": "Mars"}, status="error"
    )
    project.task("TIME", steps=[hour, wrong])
    if dying:
        project.task(
            "DATABASE",
            steps=[call("database", "list_tables", "result() != ''")],
            step_timeout=40,
            error_recovery={"on_network_error": "abort"},
        )
    results = played(project)
    assert results["TIME"]["code"] is None, results["TIME"]
    if dying:
        _is_left_alone(tmp_path, results["DATABASE"])


def _is_left_alone(folder: Path, broken: dict[str, Any]) -> None:
    """The one that dies at its start."""
    assert (broken["code"], "three times" in broken["message"]) == ("TOOL_UNAVAILABLE", True)
    assert "list_resources" in (folder / ".harness" / "logs" / "tool-database.log").read_text("utf-8")
    said = harness("tools", "status", "database", "--json", cwd=folder)
    (state,) = json.loads(said.stdout)
    assert (state["reason"], state["crashes"]) == ("closed while permanently_failed: crash_3", 3)


@pytest.fixture(scope="module")
def installed() -> Path:
    """The folder of the programs of npm; nothing is installed twice."""
    npm = shutil.which("npm")
    assert npm is not None, "a full run needs npm"
    if not (CACHE / "node_modules" / ".bin" / "mcp-server-filesystem").exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--prefix", str(CACHE), "--no-audit", "--no-fund", *NPM]
        subprocess.run(command, check=True, timeout=300, stdout=subprocess.DEVNULL)
    return CACHE / "node_modules" / ".bin"


@pytest.mark.thorough
def test_the_reference_servers_of_npm(tmp_path: Path, installed: Path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    project = stranger(
        tmp_path,
        f'[tool.harness.tools.everything]\ncommand = ["{installed / "mcp-server-everything"}"]\n'
        f'[tool.harness.tools.files]\ncommand = ["{installed / "mcp-server-filesystem"}", "{folder}"]\n',
    )
    note, text = str(folder / "note.txt"), "Buy milk"
    written = {"path": note, "content": text}
    project.task(
        "NPM",
        steps=[
            call("everything", "get-sum", "result() includes '42'", arguments={"a": 40, "b": 2}),
            call("everything", "echo", "result() includes 'hello'", arguments={"message": "hello"}),
            call("files", "write_file", "result('content') includes 'wrote'", arguments=written),
            call("files", "read_text_file", f"result('content') includes '{text}'", arguments={"path": note}),
            call(
                "files",
                "read_text_file",
                "result() includes 'outside allowed'",
                arguments={"path": "/etc/passwd"},
                status="error",
            ),
        ],
    )
    results = played(project)
    assert results["NPM"]["code"] is None, results["NPM"]["message"]
    assert Path(note).read_text("utf-8") == text
    states = json.loads(harness("tools", "status", "--json", cwd=tmp_path).stdout)
    assert all(state["tools"] for state in states)
