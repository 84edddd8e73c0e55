"""`harness tools` in a stranger's project: a mailbox that is started for each command, and servers that fail."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.acceptance.warm import harness

SERVER = Path(__file__).with_name("mailbox_server.py")
SETTINGS = f"""
[tool.harness.tools.mail]
command = ["{{python}}", "{SERVER}", "."]
environment = {{ MAILBOX_TOKEN = "${{env:MAILBOX_TOKEN}}" }}
effects = {{ send_quietly = "idempotent" }}
allow = ["get_*", "send_*"]

[tool.harness.tools.dead]
command = ["{{python}}", "-c", "import os, sys; sys.exit('no database for ' + os.environ['MAILBOX_TOKEN'])"]

[tool.harness.tools.far]
url = "http://127.0.0.1:9/mcp"

[tool.harness.tools.page]
agents = true
"""
TOKEN = {"MAILBOX_TOKEN": "token-of-the-mailbox"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mailbox")
    (path / "pyproject.toml").write_text(SETTINGS, "utf-8")
    return path


def ran(folder: Path, *arguments: str, code: int = 0) -> Any:
    found = harness("tools", *arguments, cwd=folder, **TOKEN)
    assert found.returncode == code, found.stdout + found.stderr
    assert TOKEN["MAILBOX_TOKEN"] not in found.stdout + found.stderr
    return found


def test_the_tools_of_all_servers_and_what_is_wrong_with_some(folder: Path) -> None:
    said = ran(folder, "list", code=1).stdout
    assert re.search(r"^mail: \d tools \(mailbox 1, MCP 2025-11-25\)$", said, re.MULTILINE)
    assert "  get_code   read   (its server says so)      The code.\n" in said
    assert "  send_mail  write  (nothing says otherwise)  Sends a mail.\n" in said
    assert "dead: its process ended with exit code 1\n  | no database for [redacted]\n" in said
    assert "`harness tools logs dead` has its log" in said
    assert "far: " in said
    assert "page: the tools of the page of each task" in said
    (found,) = json.loads(ran(folder, "list", "mail", "--json").stdout)
    tools = {each["name"]: each for each in found["tools"]}
    assert (tools["get_code"]["effect"], tools["get_code"]["allowed"]) == ("read", True)
    assert (tools["send_mail"]["effect"], tools["send_mail"]["effect_from"]) == ("write", "nothing says otherwise")
    assert (tools["state"]["allowed"], "not allowed: " in said) == (False, True)
    assert tools["get_code"]["parameters"]["required"] == ["to"]


def test_a_call_says_its_effect_and_prints_its_result(folder: Path) -> None:
    found = ran(folder, "call", "mail", "get_code", '{"to": "ann"}')
    assert json.loads(found.stdout) == {"code": "123456", "to": "ann"}
    assert found.stderr == "mail.get_code: read (its server says so)\n"
    lines = [
        each.info["cmdline"] or ()
        for each in psutil.process_iter(["cmdline", "cwd"])
        if each.info["cwd"] == str(folder)
    ]
    assert [line for line in lines if str(SERVER) in line] == [], "no process is left"


def test_a_call_that_writes_is_not_made_where_nobody_can_be_asked(folder: Path) -> None:
    before = (folder / "effects.txt").read_text() if (folder / "effects.txt").is_file() else ""
    refused = ran(folder, "call", "mail", "send_mail", '{"to": "ann"}', code=1)
    assert refused.stderr.splitlines() == [
        "mail.send_mail: write (nothing says otherwise)",
        "mail.send_mail was not called: it writes, and nobody can be asked here; `--yes` calls it all the same",
    ]
    assert (folder / "effects.txt").read_text() == before if before else not (folder / "effects.txt").is_file()
    made = json.loads(ran(folder, "call", "mail", "send_mail", '{"to": "ann"}', "--yes", "--json").stdout)
    assert (made["effect"], made["is_error"], made["result"]["to"]) == ("write", False, "ann")
    assert (folder / "effects.txt").read_text() == f"{before}send_mail ann\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mial", "get_code"), "no server `mial` in [tool.harness.tools]; did you mean `mail`?"),
        (("page", "search"), "`page` stands for the page of a task"),
        (("mail", "delete_all"), "`allow` of [tool.harness.tools.mail] forbids it"),
        (("mail", "get_cod"), "mail has no tool `get_cod`: did you mean `get_code`?"),
        (("mail", "get_code", "{to"), "ARGUMENTS is not JSON: "),
        (("mail", "get_code", "[1]"), "ARGUMENTS must be a JSON object"),
        (("mail", "get_code", '{"to": 1}'), "`to`: 1 is not of type 'string'"),
        (("dead", "get_code"), "its process ended with exit code 1\n  | no database for [redacted]"),
    ],
)
@pytest.mark.sampled(1)
def test_a_call_that_cannot_be_made(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    found = ran(folder, "call", *arguments, code=1)
    assert words in found.stderr
    assert found.stdout == ""


def test_a_variable_that_is_not_set_is_named(folder: Path) -> None:
    found = harness("tools", "call", "mail", "get_code", cwd=folder)
    assert found.returncode == 1
    assert "the variable MAILBOX_TOKEN is not set" in found.stderr


def test_logs(folder: Path) -> None:
    ran(folder, "list", "dead", code=1)
    assert ran(folder, "logs", "dead", "-n", "1").stdout == "no database for [redacted]\n"
    lines = [json.loads(line) for line in ran(folder, "logs", "dead", "--json").stdout.splitlines()]
    assert lines[-1] == {"server": "dead", "line": "no database for [redacted]"}
    assert "has a `url`" in ran(folder, "logs", "far", code=1).stderr


def test_nothing_has_run_and_nothing_is_there(folder: Path, tmp_path: Path) -> None:
    rows = [line.split("  ")[0].strip() for line in ran(folder, "status").stdout.splitlines()]
    assert rows == ["server", "mail", "dead", "far", "page"]
    assert ran(folder, "restart", "mail").stdout == (
        "mail: no run uses it now, and the next one begins without crashes and refusals\n"
    )
    empty = harness("tools", "status", cwd=tmp_path)
    assert (empty.returncode, empty.stderr.startswith("there is no [tool.harness.tools.<name>] in ")) == (1, True)
