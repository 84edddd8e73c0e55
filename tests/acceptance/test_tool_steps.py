"""Steps that call tools, from the file to the report, with the server of a stranger: no page is opened."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.acceptance.conftest import Project
from tests.acceptance.warm import warm

SERVER = Path(__file__).with_name("mailbox_server.py")
SETTINGS = f"""
[tool.harness]
isolation = "none"

[tool.harness.tools.mail]
command = ["{{python}}", "{SERVER}", "."]
timeout = 20

[tool.harness.channels.box]
tool = "mail.state"
arguments = {{world = "{{world}}"}}
"""
CODE: dict[str, Any] = {"act": "tool", "server": "mail", "tool": "get_code", "arguments": {"to": "${inputs.to}"}}
SEND: dict[str, Any] = {"act": "tool", "server": "mail", "tool": "send_mail", "arguments": {"to": "${memory.seen.to}"}}
EXPECT = "result('code') matches '^[0-9]{6}$'"
SENT = "json('box', 'sent.ann') == 1"


@pytest.fixture
def mailbox(tmp_path: Path) -> Project:
    made = Project(cast("pytest.Pytester", SimpleNamespace(path=tmp_path)), {"shop.local": 1})
    (tmp_path / "pyproject.toml").write_text(SETTINGS, "utf-8")
    (tmp_path / "state.json").write_text('{"sent": {}}', "utf-8")
    return made


def harness(project: Project, *args: str) -> subprocess.CompletedProcess[str]:
    return warm().run("tests.acceptance.command", *args, cwd=project.path)


def effects(project: Project) -> list[str]:
    file = project.path / "effects.txt"
    return file.read_text("utf-8").splitlines() if file.exists() else []


def test_a_task_of_tools_alone_passes_and_a_failed_answer_is_explained(mailbox: Project) -> None:
    read = {**CODE, "expect": EXPECT, "remember": {"code": "result('code')", "seen": "result()"}}
    steps = [read, {**SEND, "done_when": SENT}]
    mailbox.task("GOOD", inputs={"to": "ann"}, steps=steps, success_criteria=["mem('code') == '123456'", SENT])
    mailbox.task("WRONG", inputs={"to": "bob"}, steps=[{**CODE, "expect": "result('code') == '7'"}])
    mailbox.task("NOBODY", steps=[{**CODE, "server": "mial", "arguments": {"to": "x"}}])
    told = mailbox.play("--continue-on-collection-errors")
    assert effects(mailbox) == ["get_code ann", "send_mail ann", "get_code bob"]
    assert "unknown tool server `mial`" in told
    report = mailbox.report("WRONG")
    assert (report["code"], report["context"]["tool"], report["context"]["effect"]) == (
        "ASSERTION_FAILED",
        "get_code",
        "read",
    )
    assertion = report["context"]["assertion"]
    assert (assertion["expected"], assertion["actual"]) == ("7", "123456")
    assert "1 completed, 1 failed" in told


def test_validate_asks_the_servers_for_their_tools_only_if_it_is_told_to(mailbox: Project) -> None:
    mailbox.task(
        "T",
        inputs={"to": 3},
        memory={"seen": {"to": "x"}},
        success_criteria=[SENT],
        steps=[CODE, {**CODE, "tool": "get_cod"}, SEND, {**SEND, "arguments": {"too": "${memory.seen.to}"}}],
    )
    assert harness(mailbox, "validate", ".").returncode == 0
    told = harness(mailbox, "validate", ".", "--tools", "--json")
    found = {each["path"]: each["message"] for each in json.loads(told.stdout)["problems"]}
    assert told.returncode == 1
    assert {path: text for path, text in found.items() if "done_when" not in text} == {
        "steps[0].arguments.to": "does not fit the schema of mail.get_code: 3 is not of type 'string'",
        "steps[1].tool": "the server `mail` has no tool `get_cod`",
        "steps[3].arguments": "does not fit the schema of mail.send_mail: 'to' is a required property",
    }
    assert "a `write` by its tool (nothing says otherwise), without `done_when`" in found["steps[2]"]
    assert effects(mailbox) == []
