"""Commands that only try tasks call no tool that writes, unless they are told to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.conftest import Project
from tests.acceptance.test_agent_tools import SERVER
from tests.acceptance.warm import harness

SETTINGS = f"""
[tool.harness.tools.mail]
command = ["{{python}}", "{SERVER}", "."]
"""
GET = {"act": "tool", "server": "mail", "tool": "get_code", "arguments": {"to": "a"}}
SEND = {**GET, "tool": "send_mail", "remember": {"to": "result('to')"}}


def prepared(project: Project) -> Path:
    path = project.path / "pyproject.toml"
    path.write_text(path.read_text("utf-8") + SETTINGS, "utf-8")
    return project.path


def effects(folder: Path) -> list[str]:
    return (folder / "effects.txt").read_text("utf-8").splitlines()


@pytest.mark.thorough  # tests/unit/runner/test_held_tools.py
def test_verify_calls_a_tool_that_writes_only_when_told_to(project: Project) -> None:
    folder = prepared(project)
    project.task("T", steps=[GET, SEND], success_criteria=["mem('to') == 'a'"])
    held = harness("verify", ".", cwd=folder)
    assert held.returncode == 1
    assert "as written: failed: The tool mail.send_mail writes, so it was not called" in held.stdout
    assert effects(folder) == ["get_code a"]
    told = harness("verify", ".", "--yes", cwd=folder)
    assert told.returncode == 0, told.stdout + told.stderr
    assert effects(folder) == ["get_code a", "get_code a", "send_mail a"]


@pytest.mark.thorough
def test_replay_calls_a_tool_that_writes_only_when_told_to(project: Project) -> None:
    folder = prepared(project)
    project.task("T", steps=[SEND, {"act": "assert", "expr": "1 == 2"}])
    project.run().assert_outcomes(failed=1)
    assert effects(folder) == ["send_mail a"]
    held = harness("replay", "T", cwd=folder)
    assert effects(folder) == ["send_mail a"], held.stdout
    assert "The tool mail.send_mail writes, so it was not called" in held.stdout + held.stderr
    told = harness("replay", "T", "--yes", cwd=folder)
    assert effects(folder) == ["send_mail a"] * 2, told.stdout
